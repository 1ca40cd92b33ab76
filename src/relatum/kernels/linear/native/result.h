// What becomes of the sums of a product: bias, a function, and rows to add.
#pragma once

#include "simd.h"

namespace relatum {

enum Then : int { kNothing, kGelu, kRelu };

// x Φ(x), with the error function as e^(−x²/2) times a polynomial of t = 1 / (1 + 0.3 |x| / √2), fitted so that its
// relative error is below 2 · 10⁻⁸. The side of the small tail has no difference to lose digits in.
ALWAYS_INLINE Vec<float> gelu(Vec<float> x) {
    const Vec<float> size = x < 0.0f ? -x : x;
    const Vec<float> t = 1.0f / (1.0f + size * 0.212132034f);
    Vec<float> series = spread<float>(-0.12943407893180847f);
    series = series * t + 0.48509645462036133f;
    series = series * t - 0.5112264752388f;
    series = series * t + 0.5463950634002686f;
    series = series * t - 0.09363126009702682f;
    series = series * t + 0.21443627774715424f;
    series = series * t + 0.14848242700099945f;
    series = series * t + 0.17069193720817566f;
    series = series * t + 0.16918961703777313f;
    const Vec<float> tail = 0.5f * t * series * exp<float>(-0.5f * x * x);
    return x * (x < 0.0f ? tail : 1.0f - tail);
}

// Where the results of a product go, one row after the other.
struct Result {
    const float* bias;  // null where there is none
    float* values;
    int width;
    Then then = kNothing;
    const float* added = nullptr;  // rows of the same width, added to the results; null where there are none

    // Sums of some rows and columns, whose rows are `stride` apart.
    void write(const float* sums, int stride, int first_row, int n_rows, int column, int n_columns) const {
        if (then == kGelu) return write<kGelu>(sums, stride, first_row, n_rows, column, n_columns);
        if (then == kRelu) return write<kRelu>(sums, stride, first_row, n_rows, column, n_columns);
        write<kNothing>(sums, stride, first_row, n_rows, column, n_columns);
    }

   private:
    template <Then Applied>
    void write(const float* sums, int stride, int first_row, int n_rows, int column, int n_columns) const {
        constexpr int lanes = kLanes<float>;
        for (int row = first_row; row < first_row + n_rows; ++row, sums += stride) {
            const int64_t at = int64_t(row) * width + column;
            for (int i = 0; i < n_columns; i += lanes) {
                Vec<float> value = load(sums + i, n_columns - i);
                if (bias) value += load(bias + column + i, n_columns - i);
                if constexpr (Applied == kGelu) value = gelu(value);
                if constexpr (Applied == kRelu) value = larger<float>(value, Vec<float>{});
                if (added) value += load(added + at + i, n_columns - i);
                store(values + at + i, value, n_columns - i);
            }
        }
    }
};

}  // namespace relatum
