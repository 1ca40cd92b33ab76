// Products of a few rows with weights that were packed before: C = A · B, C += A · B, or C = A · B plus a row.
//
// B is packed in panels of two vectors of columns, and the last one of one vector where that is enough; a panel of a
// block of K lies in the first cache while all rows pass by. Each value of C is summed in the order of K whatever the
// number of rows and columns, so results do not depend on how work is divided.
#pragma once

#include <algorithm>

#include "simd.h"

namespace relatum {

// One step of the sum: value by value.
template <class T>
struct PlainDot {
    using Left = T;      // A as it lies in memory
    using Element = T;   // what one step takes of a row of A
    static constexpr int per_step = 1;
    using Sum = T;
    using Right = Vec<T>;

    static ALWAYS_INLINE Right spread(Element a) { return a - Right{}; }
    static ALWAYS_INLINE Vec<T> step(Vec<T> sum, Right a, Right b) { return multiply_add(a, b, sum); }
    template <class S>
    static ALWAYS_INLINE Element element(const S* value, int64_t, int) {
        return widen(*value);
    }
    // As many elements as a vector has, side by side.
    template <class S>
    static ALWAYS_INLINE void copy(const S* from, Element* to) {
        store(to, load(from, kLanes<T>), kLanes<T>);
    }
};

// Two values of bfloat16 a step.
struct PairDot {
    using Left = bfloat16;
    using Element = uint32_t;
    static constexpr int per_step = 2;
    using Sum = float;
    using Right = Bits;

    static ALWAYS_INLINE Right spread(Element a) { return a - Right{}; }
    static ALWAYS_INLINE Vec<float> step(Vec<float> sum, Right a, Right b) {
#if defined(RELATUM_AVX512) && defined(__AVX512BF16__)
        return (Vec<float>)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
        sum = multiply_add((Vec<float>)(a & 0xffff0000u), (Vec<float>)(b & 0xffff0000u), sum);
        return multiply_add((Vec<float>)(a << 16), (Vec<float>)(b << 16), sum);
#endif
    }
    static void copy(const bfloat16*, Element*) {}  // pairs are never side by side
    static ALWAYS_INLINE Element element(const bfloat16* value, int64_t stride, int count) {
        return value[0].bits | (count > 1 ? static_cast<uint32_t>(value[stride].bits) << 16 : 0);
    }
};

template <class V>
ALWAYS_INLINE V held(V value) {
#if defined(__x86_64__)
    asm("" : "+v"(value));
#elif defined(__aarch64__)
    asm("" : "+w"(value));
#endif
    return value;
}

// With `Ahead`, the panel that follows in memory is read into the cache while all rows pass by one: for weights that
// are too many to stay there from call to call.
template <class Dot, bool Ahead = false>
class Panels {
   public:
    using Left = typename Dot::Left;
    using Sum = typename Dot::Sum;
    static constexpr int spare_rows = 0;

    // Values of Left in a row of A, zero beyond `k`.
    static int left_width(int k) { return steps(k) * Dot::per_step; }
    // Values of Sum in a row of C.
    static int sum_width(int n) { return (n + lanes - 1) / lanes * lanes; }
    static size_t packed_bytes(int k, int n) { return size_t(steps(k)) * sum_width(n) * sizeof(Element); }

    // Packs B[i][j] = weights[i · row_stride + columns[j]].
    template <class S>
    static void pack(const S* weights, int64_t row_stride, const int64_t* columns, int k, int n, void* packed) {
        auto* to = static_cast<Element*>(packed);
        const int depth = steps(k), n_blocks = blocks(depth);
        for (int block = 0; block < n_blocks; ++block) {
            const int begin = depth * block / n_blocks, end = depth * (block + 1) / n_blocks;
            for (int column = 0; column < sum_width(n); column += panel) {
                const int width = sum_width(n) - column < panel ? lanes : panel;
                const int real = n - column < width ? n - column : width;
                auto copy = [&](int i, int j) {
                    const int at = i * Dot::per_step;
                    const S* from = weights + at * row_stride + (j < real ? columns[column + j] : 0);
                    to[(i - begin) * width + j] = j < real ? Dot::element(from, row_stride, k - at) : Element{};
                };
                bool together = Dot::per_step == 1 && real == width;
                for (int j = 1; together && j < width; ++j) together = columns[column + j] == columns[column] + j;
                if (together)
                    for (int i = begin; i < end; ++i)
                        for (int j = 0; j < width; j += lanes)
                            Dot::copy(weights + i * row_stride + columns[column] + j, to + (i - begin) * width + j);
                else if (row_stride == 1 && Dot::per_step == 1)  // along the rows of what is read
                    for (int j = 0; j < width; ++j) {
                        const S* from = weights + (j < real ? columns[column + j] : 0);
                        Element* at = to + j;
                        for (int i = begin; i < end; ++i, at += width)
                            *at = j < real ? Dot::element(from + i, 1, 1) : Element{};
                    }
                else if (row_stride == 1)
                    for (int j = 0; j < width; ++j)
                        for (int i = begin; i < end; ++i) copy(i, j);
                else
                    for (int i = begin; i < end; ++i)
                        for (int j = 0; j < width; ++j) copy(i, j);
                to += (end - begin) * width;
            }
        }
    }

    static void multiply(const Left* a, int a_width, int m, const void* packed, int k, int n, Sum* c, int c_width,
                         bool add) {
        multiply(a, a_width, m, packed, k, n, c, c_width, add ? c : nullptr, c_width);
    }

    // To what is in `base`, whose rows are `base_width` apart: 0 where all are the same row. Null for nothing.
    static void multiply(const Left* a, int a_width, int m, const void* packed, int k, int n, Sum* c, int c_width,
                         const Sum* base, int base_width) {
        const auto* b = static_cast<const Element*>(packed);
        const auto* left = reinterpret_cast<const Element*>(a);
        a_width /= Dot::per_step;
        const int depth = steps(k), width = sum_width(n), n_blocks = blocks(depth);
        const int n_groups = (m + most_rows - 1) / most_rows;
        for (int block = 0; block < n_blocks; ++block) {
            const int begin = depth * block / n_blocks, length = depth * (block + 1) / n_blocks - begin;
            const Element* panels = b + size_t(begin) * width;
            if (block) base = c, base_width = c_width;
            // Groups of rows differ by one at most, and the largest says how many panels a kernel takes at once.
            const int at_once = panels_at_once((m + n_groups - 1) / n_groups);
            int column = 0;
            for (; column + at_once * panel <= width; column += at_once * panel)
                rows(left + begin, a_width, m, n_groups, panels + size_t(column) * length, length, c + column, c_width,
                     base ? base + column : nullptr, base_width, at_once);
            for (; column + panel <= width; column += panel)
                rows(left + begin, a_width, m, n_groups, panels + size_t(column) * length, length, c + column, c_width,
                     base ? base + column : nullptr, base_width, 1);
            if (column < width)
                rows(left + begin, a_width, m, n_groups, panels + size_t(column) * length, length, c + column, c_width,
                     base ? base + column : nullptr, base_width, 0);
        }
    }

   private:
    using Element = typename Dot::Element;
    static constexpr int lanes = kLanes<Sum>;
    static constexpr int panel = 2 * lanes;
    static constexpr int most_sums = kRegisters == 32 ? 28 : 12;
    static constexpr int most_wide = kRegisters == 32 ? 24 : 12;  // where several panels are taken at once
    static constexpr int most_rows = most_sums / 2;
    static constexpr int block_steps = 256;

    static int steps(int k) { return (k + Dot::per_step - 1) / Dot::per_step; }
    static int blocks(int depth) { return (depth + block_steps - 1) / block_steps; }
    static constexpr int panels_at_once(int n_rows) {
        return n_rows * 8 <= most_wide ? 4 : n_rows * 4 <= most_wide ? 2 : 1;
    }

    // What one group of rows reads ahead: its share of as many bytes as it multiplies with, some of them at each step.
    struct Coming {
        const char* start = nullptr;
        int step = 0;

        static Coming of(const Element* b, int size, int group, int n_groups, int length) {
            const int64_t n_bytes = int64_t(size) * sizeof(Element), share = n_bytes / n_groups;
            return {reinterpret_cast<const char*>(b) + n_bytes + share * group, int((share + length - 1) / length)};
        }
    };

    static void rows(const Element* a, int a_width, int m, int n_groups, const Element* b, int length, Sum* c,
                     int c_width, const Sum* base, int64_t base_width, int at_once) {
        for (int group = 0; group < n_groups; ++group) {
            const int first = m * group / n_groups, n_rows = m * (group + 1) / n_groups - first;
            const Element* own = a + int64_t(first) * a_width;
            const Coming coming = Ahead ? Coming::of(b, length * panel * std::max(at_once, 1), group, n_groups, length)
                                        : Coming{};
            choose<most_rows>(n_rows, own, a_width, b, length, c + int64_t(first) * c_width, c_width,
                              base ? base + first * base_width : nullptr, base_width, at_once, coming);
        }
    }

    template <int R>
    static ALWAYS_INLINE void choose(int n_rows, const Element* a, int a_width, const Element* b, int length, Sum* c,
                                     int c_width, const Sum* base, int64_t base_width, int at_once, Coming coming) {
        if constexpr (R > 0) {
            if (n_rows != R)
                return choose<R - 1>(n_rows, a, a_width, b, length, c, c_width, base, base_width, at_once, coming);
            if constexpr (R * 8 <= most_wide)
                if (at_once == 4) return kernel<R, 2, 4>(a, a_width, b, length, c, c_width, base, base_width, coming);
            if constexpr (R * 4 <= most_wide)
                if (at_once == 2) return kernel<R, 2, 2>(a, a_width, b, length, c, c_width, base, base_width, coming);
            if (at_once == 1) return kernel<R, 2, 1>(a, a_width, b, length, c, c_width, base, base_width, coming);
            kernel<R, 1, 1>(a, a_width, b, length, c, c_width, base, base_width, coming);
        }
    }

    // R rows by P panels of V vectors, all sums in registers.
    template <int R, int V, int P>
    static __attribute__((noinline)) void kernel(const Element* a, int64_t a_width, const Element* b, int length,
                                                 Sum* c, int64_t c_width, const Sum* base, int64_t base_width,
                                                 Coming coming) {
        Vec<Sum> sums[R][P * V];
        const int64_t panel_size = int64_t(length) * V * lanes;
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
            for (int v = 0; v < P * V; ++v)
                sums[r][v] = Vec<Sum>{};
        for (int i = 0; i < length; ++i) {
            if constexpr (Ahead) {
                __builtin_prefetch(coming.start, 0, 2);
                coming.start += coming.step;
            }
            // Whichever operand is used more often stays in registers; a compiler would rather read it again.
            if constexpr (P == 1) {
                typename Dot::Right right[V];
#pragma GCC unroll 2
                for (int v = 0; v < V; ++v) right[v] = held(load_whole<typename Dot::Right>(b + v * lanes));
#pragma GCC unroll 16
                for (int r = 0; r < R; ++r) {
                    const typename Dot::Right left = held(Dot::spread(a[r * a_width]));
#pragma GCC unroll 2
                    for (int v = 0; v < V; ++v) sums[r][v] = Dot::step(sums[r][v], left, right[v]);
                }
            } else {
                typename Dot::Right left[R];
#pragma GCC unroll 16
                for (int r = 0; r < R; ++r) left[r] = held(Dot::spread(a[r * a_width]));
#pragma GCC unroll 16
                for (int v = 0; v < P * V; ++v) {
                    const auto* from = b + v / V * panel_size + v % V * lanes;
                    const auto right = held(load_whole<typename Dot::Right>(from));
#pragma GCC unroll 16
                    for (int r = 0; r < R; ++r) sums[r][v] = Dot::step(sums[r][v], left[r], right);
                }
            }
            ++a;
            b += V * lanes;
        }
#pragma GCC unroll 16
        for (int r = 0; r < R; ++r)
#pragma GCC unroll 16
            for (int v = 0; v < P * V; ++v) {
                // Added at the end: sums of their own have smaller errors than one long one.
                Sum* to = c + r * c_width + v * lanes;
                Vec<Sum> total = sums[r][v];
                if (base) total += load_whole<Vec<Sum>>(base + r * base_width + v * lanes);
                std::memcpy(to, &total, sizeof(total));
            }
    }
};

}  // namespace relatum
