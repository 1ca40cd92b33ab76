// Products of float32 with weights that were packed before, some columns at a time.
#pragma once

#include <algorithm>

#include "product.h"
#include "result.h"

namespace relatum {

// Rows as they lie, and their products; see `SplitRows`, which has the same functions.
class PlainRows {
    using Engine = Panels<PlainDot<float>, true>;

   public:
    static constexpr int strip = 64;  // columns of the weights that stay together

    static size_t bytes(int, int) { return 0; }
    static size_t packed_bytes(int depth, int width) { return Engine::packed_bytes(depth, width); }

    // Packs weights, (width, depth): strip after strip, so that threads can take strips.
    static void pack(const float* weights, int depth, int width, float* packed) {
        int64_t columns[strip];
        for (int column = 0; column < width; column += strip) {
            const int n = std::min(strip, width - column);
            for (int j = 0; j < n; ++j) columns[j] = int64_t(j) * depth;
            Engine::pack(weights + int64_t(column) * depth, 1, columns, depth, n, packed + int64_t(column) * depth);
        }
    }

    PlainRows(void*, int n_rows, int depth) : n_rows_(n_rows), depth_(depth) {}

    void read(const float* values, int, int) { values_ = values; }

    void multiply(const void* weights, int first, int last, const Result& result) const {
        alignas(64) float sums[most_rows * strip];
        const int n_groups = (n_rows_ + most_rows - 1) / most_rows;
        for (int one = first; one < last; ++one) {
            const int column = one * strip, width = std::min(strip, result.width - column);
            const float* packed = static_cast<const float*>(weights) + int64_t(column) * depth_;
            for (int group = 0; group < n_groups; ++group) {
                const int begin = int64_t(n_rows_) * group / n_groups, end = int64_t(n_rows_) * (group + 1) / n_groups;
                Engine::multiply(values_ + int64_t(begin) * depth_, depth_, end - begin, packed, depth_, width, sums,
                                 strip, false);
                result.write(sums, strip, begin, end - begin, column, width);
            }
        }
    }

   private:
    static constexpr int most_rows = 48;  // whose sums lie in the first cache

    const float* values_ = nullptr;
    int n_rows_, depth_;
};

// A layer whose weights were packed for the kind of rows that it is given.
struct Dense {
    const void* weights;
    const float* bias;
    int depth, width;
};

// A product of rows of float32, with all columns of a layer; `parts` has as many bytes as the kind of rows wants.
template <class Rows = PlainRows>
void multiply_rows(const float* values, int n_rows, const Dense& layer, const Result& result, void* parts = nullptr) {
    Rows rows(parts, n_rows, layer.depth);
    rows.read(values, 0, n_rows);
    rows.multiply(layer.weights, 0, (layer.width + Rows::strip - 1) / Rows::strip, result);
}

}  // namespace relatum
