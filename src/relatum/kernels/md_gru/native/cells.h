// What is computed in a cell once its neighbours are projected: the gates, and their derivatives.
#pragma once

#include "simd.h"

namespace relatum {

enum Source : int { kNothing = 0, kBelow = 1, kUp = 2, kLeft = 3 };

// The form of a cell. Slots that are not read hold zero.
struct Form {
    int width, n_slots, n_lambdas;
    int slots[3];
    bool reads_up, reads_left;

    int n_parts() const { return 3 + n_lambdas; }
    int n_sides() const { return reads_up + reads_left; }
    int left_side() const { return reads_up ? 1 : 0; }
};

// The states in the slots of a cell, mixed by λ.
template <class T, int L>
struct Mixture {
    static constexpr int most = L == 0 ? 1 : L == 1 ? 2 : 3;
    Vec<T> share[most], state[most], mixed;

    ALWAYS_INLINE void mix(int n_slots) {
        if constexpr (L == 1) share[1] = T(1) - share[0];
        if constexpr (L == 0) share[0] = spread<T>(1);
        mixed = n_slots > 0 ? share[0] * state[0] : Vec<T>{};
        if constexpr (most > 1) mixed += share[1] * state[1];
        if constexpr (most > 2) mixed += share[2] * state[2];
    }
};

template <class S>
struct ForwardRow {
    using T = Compute<S>;
    S* projected;  // u, r, z, λ…, v; with `keep` they become candidate, r, z, λ…, v; or null
    const T* sums;  // what the neighbours add to r, z, λ…, v; or, where nothing was projected before, all of u and them
    const S* below;
    const T* up;
    const T* left;
    S* state;
};

// Computes units from `begin` to `end`; parts of `sums` have as many values, and begin with these.
template <class S, int L>
ALWAYS_INLINE void forward_cell(const Form& form, const ForwardRow<S>& row, int begin, int end, bool keep) {
    using T = Compute<S>;
    const int width = form.width, stride = end - begin;
    for (int unit = begin; unit < end; unit += kLanes<T>) {
        const int count = end - unit;
        S* own = row.projected + unit;
        const T* sums = row.sums + (unit - begin);
        auto part = [&](int p) {
            if (!row.projected) return load_whole<Vec<T>>(sums + (1 + p) * stride);
            return load(own + (1 + p) * width, count) + load_whole<Vec<T>>(sums + p * stride);
        };
        const Vec<T> u = row.projected ? load(own, count) : load_whole<Vec<T>>(sums);
        const Vec<T> r = sigmoid<T>(part(0)), z = sigmoid<T>(part(1)), v = part(2 + L);
        Mixture<T, L> mixture;
        if constexpr (L == 1) mixture.share[0] = sigmoid<T>(part(2));
        if constexpr (L == 3) {
            Vec<T>* share = mixture.share;
            for (int slot = 0; slot < 3; ++slot) share[slot] = part(2 + slot);
            const Vec<T> highest = larger<T>(share[0], larger<T>(share[1], share[2]));
            for (int slot = 0; slot < 3; ++slot) share[slot] = exp<T>(share[slot] - highest);
            const Vec<T> scale = T(1) / (share[0] + share[1] + share[2]);
            for (int slot = 0; slot < 3; ++slot) share[slot] *= scale;
        }
        for (int slot = 0; slot < Mixture<T, L>::most; ++slot) {
            const int source = form.slots[slot];
            mixture.state[slot] = source == kBelow && row.below ? load(row.below + unit, count)
                                  : source == kUp               ? load_whole<Vec<T>>(row.up + unit)
                                  : source == kLeft             ? load_whole<Vec<T>>(row.left + unit)
                                                                : Vec<T>{};
        }
        mixture.mix(form.n_slots);
        const Vec<T> candidate = tanh<T>(u + r * v);
        store(row.state + unit, mixture.mixed + z * (candidate - mixture.mixed), count);
        if (keep) {
            store(own, candidate, count);
            store(own + width, r, count);
            store(own + 2 * width, z, count);
            for (int lambda = 0; lambda < L; ++lambda) store(own + (3 + lambda) * width, mixture.share[lambda], count);
            store(own + (3 + L) * width, v, count);
        }
    }
}

template <class S, class Left>
struct BackwardRow {
    using T = Compute<S>;
    const S* grad;
    const T* from_up;    // what the cells after this one owe it: the one below it, whose upper neighbour it is,
    const T* from_left;  // and the one to its right; from `begin` on, or null
    const S* gates;
    const S* below;
    const S* up;
    const S* left;
    S* grad_projected;
    Left* grad_gates;  // the same without u, for the product with the recurrent weights
    S* grad_below;
    S* neighbours;
    T* owed;  // what this cell owes its neighbours by way of λ: sides of `stride` values, from `begin` on
};

template <class S, class Left, int L>
ALWAYS_INLINE void backward_cell(const Form& form, const BackwardRow<S, Left>& row, int begin, int end) {
    using T = Compute<S>;
    const int width = form.width, stride = end - begin;
    for (int unit = begin; unit < end; unit += kLanes<T>) {
        const int count = end - unit;
        Vec<T> grad = load(row.grad + unit, count);
        if (row.from_up) grad += load_whole<Vec<T>>(row.from_up + (unit - begin));
        if (row.from_left) grad += load_whole<Vec<T>>(row.from_left + (unit - begin));
        auto gate = [&](int p) { return load(row.gates + p * width + unit, count); };
        const Vec<T> candidate = gate(0), r = gate(1), z = gate(2), v = gate(3 + L);
        const Vec<T> above = row.up ? load(row.up + unit, count) : Vec<T>{};
        const Vec<T> beside = row.left ? load(row.left + unit, count) : Vec<T>{};
        Mixture<T, L> mixture;
        for (int lambda = 0; lambda < L; ++lambda) mixture.share[lambda] = gate(3 + lambda);
        for (int slot = 0; slot < Mixture<T, L>::most; ++slot) {
            const int source = form.slots[slot];
            mixture.state[slot] = source == kBelow && row.below ? load(row.below + unit, count)
                                  : source == kUp               ? above
                                  : source == kLeft             ? beside
                                                                : Vec<T>{};
        }
        mixture.mix(form.n_slots);
        const Vec<T> grad_mixed = grad - grad * z;
        const Vec<T> activation = grad * z * (T(1) - candidate * candidate);
        auto give = [&](int p, Vec<T> value) {
            store(row.grad_projected + (1 + p) * width + unit, value, count);
            store(row.grad_gates + p * width + unit, value, count);
        };
        store(row.grad_projected + unit, activation, count);
        give(0, activation * v * r * (T(1) - r));
        give(1, grad_mixed * z * (candidate - mixture.mixed));
        // Through the softmax of three slots and the sigmoid of two alike: λ (state − mixture).
        for (int lambda = 0; lambda < L; ++lambda)
            give(2 + lambda, grad_mixed * mixture.share[lambda] * (mixture.state[lambda] - mixture.mixed));
        give(2 + L, activation * r);
        for (int slot = 0; slot < Mixture<T, L>::most; ++slot) {
            const Vec<T> owed = grad_mixed * mixture.share[slot];
            const int source = form.slots[slot];
            if (source == kBelow && row.grad_below) store(row.grad_below + unit, owed, count);
            if (source == kUp) store(row.owed + (unit - begin), owed, count);
            if (source == kLeft) store(row.owed + form.left_side() * stride + (unit - begin), owed, count);
        }
        if (form.reads_up) store(row.neighbours + unit, above, count);
        if (form.reads_left) store(row.neighbours + form.left_side() * width + unit, beside, count);
    }
}

}  // namespace relatum
