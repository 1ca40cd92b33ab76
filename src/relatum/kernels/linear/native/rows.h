// Steps on rows of vectors: norms, softmax, and other types of numbers.
#pragma once

#include <algorithm>
#include <cmath>

#include "simd.h"

namespace relatum {

ALWAYS_INLINE float total(Vec<float> values) {
    float sum = 0;
    for (int lane = 0; lane < kLanes<float>; ++lane) sum += values[lane];
    return sum;
}

// By halves: one lane after the other would take longer than all else.
ALWAYS_INLINE float highest_lane(Vec<float> values) {
    typedef float Four __attribute__((vector_size(16)));
    constexpr int n_parts = kVectorBytes / sizeof(Four);
    Four parts[n_parts];
    std::memcpy(parts, &values, sizeof(values));
    auto join = [](Four a, Four b) { return a > b ? a : b; };
    if constexpr (n_parts == 4) parts[0] = join(parts[0], parts[2]), parts[1] = join(parts[1], parts[3]);
    if constexpr (n_parts > 1) parts[0] = join(parts[0], parts[1]);
    const Four two = join(parts[0], Four{parts[0][2], parts[0][3]});
    return join(two, Four{two[1]})[0];
}

// Of at least one value.
ALWAYS_INLINE float highest(const float* values, int count) {
    constexpr int lanes = kLanes<float>;
    if (count < lanes) return *std::max_element(values, values + count);
    Vec<float> most = load_whole<Vec<float>>(values + count - lanes);  // those that are met again change nothing
    for (int i = 0; i + lanes < count; i += lanes) most = larger<float>(load_whole<Vec<float>>(values + i), most);
    return highest_lane(most);
}

struct Extremes {
    float low, high;
};

// Of at least one value.
ALWAYS_INLINE Extremes extremes(const float* values, int count) {
    constexpr int lanes = kLanes<float>;
    if (count < lanes) return {*std::min_element(values, values + count), *std::max_element(values, values + count)};
    Vec<float> most = load_whole<Vec<float>>(values + count - lanes), least = most;
    for (int i = 0; i + lanes < count; i += lanes) {
        const Vec<float> value = load_whole<Vec<float>>(values + i);
        most = larger<float>(value, most), least = smaller<float>(value, least);
    }
    return {-highest_lane(-least), highest_lane(most)};
}

// The first `count` lanes, and zero in the others.
ALWAYS_INLINE Vec<float> first_lanes(Vec<float> values, int count) {
    constexpr float numbers[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    return load_whole<Vec<float>>(numbers) < float(count) ? values : Vec<float>{};
}

struct Norm {
    const float *weight, *bias;
    float epsilon;

    // May be done in place.
    void apply(const float* from, float* to, int width) const {
        constexpr int lanes = kLanes<float>;
        Vec<float> sum{};
        for (int i = 0; i < width; i += lanes) sum += load(from + i, width - i);
        const float mean = total(sum) / width;
        Vec<float> squares{};
        for (int i = 0; i < width; i += lanes) {
            Vec<float> value = load(from + i, width - i) - mean;
            if (width - i < lanes) value = first_lanes(value, width - i);
            squares = multiply_add(value, value, squares);
        }
        const float scale = 1 / std::sqrt(total(squares) / width + epsilon);
        for (int i = 0; i < width; i += lanes) {
            const Vec<float> value = (load(from + i, width - i) - mean) * scale;
            store(to + i, value * load(weight + i, width - i) + load(bias + i, width - i), width - i);
        }
    }
};

// In place, of `scale` times the values; at least one of them must be finite.
inline void softmax(float* values, int count, float scale) {
    constexpr int lanes = kLanes<float>;
    const float most = highest(values, count);
    Vec<float> sum{};
    for (int i = 0; i < count; i += lanes) {
        Vec<float> power = exp<float>((load(values + i, count - i) - most) * scale);
        if (count - i < lanes) power = first_lanes(power, count - i);
        sum += power;
        store(values + i, power, count - i);
    }
    const float share = 1 / total(sum);
    for (int i = 0; i < count; i += lanes) store(values + i, load(values + i, count - i) * share, count - i);
}

// Values in float32: as they lie, where they are that already.
inline const float* widened(const float* values, int64_t, float*) { return values; }
inline const float* widened(const bfloat16* values, int64_t count, float* to) {
    for (int64_t i = 0; i < count; i += kLanes<float>)
        store(to + i, load(values + i, std::min<int64_t>(count - i, kLanes<float>)),
              std::min<int64_t>(count - i, kLanes<float>));
    return to;
}

}  // namespace relatum
