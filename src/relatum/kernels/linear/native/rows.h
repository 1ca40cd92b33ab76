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
            if (width - i < lanes)
                for (int lane = width - i; lane < lanes; ++lane) value[lane] = 0;
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
    float highest = values[0];
    for (int i = 1; i < count; ++i) highest = values[i] > highest ? values[i] : highest;
    Vec<float> sum{};
    for (int i = 0; i < count; i += lanes) {
        Vec<float> power = exp<float>((load(values + i, count - i) - highest) * scale);
        if (count - i < lanes)
            for (int lane = count - i; lane < lanes; ++lane) power[lane] = 0;
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
