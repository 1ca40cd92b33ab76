// Products with weights that never change, on the matrix unit, more exact than the unit is.
//
// The unit multiplies bfloat16, which has 8 bits. Here each number is the sum of two of them, a high and a low part,
// which have 16 together: x · w = xl · wh + xh · wh + xh · wl; what is left out, xl · wl, is as small as the rest that
// the parts do not hold. Sums are float32. The caller packs the weights, see `pack` in linear/cpu.py.
#pragma once

#include <algorithm>

#include "result.h"
#include "tiles.h"

#if defined(RELATUM_TILES)
namespace relatum {

constexpr int kTileValues = kTile * kTileDepth;
constexpr int kPair = 2 * kTile;                // rows and columns of sums that are made at once
constexpr size_t kNearBytes = size_t(1) << 20;  // of rows that all weights pass by: half a second cache

// Two tiles of rows by two of columns, or one where there is no other. A step of the rows is a tile of high parts and
// one of low parts; a step of the weights is the high parts of all columns, and then the low ones.
struct SplitBlock {
    const bfloat16* rows;
    int64_t next_rows;
    const bfloat16* weights;
    int n_steps;
    float* sums;  // kPair by kPair
    // Weights that come next, read into the cache a few lines a step.
    const char* ahead;
    int n_ahead;

    template <bool TwoRows, bool TwoColumns>
    ALWAYS_INLINE void run() const {
        constexpr int columns = (TwoColumns ? 2 : 1) * kTileValues;
        const bfloat16 *a = rows, *b = weights;
        const char* next = ahead;
        tile_clear<0>();
        if constexpr (TwoColumns) tile_clear<1>();
        if constexpr (TwoRows) tile_clear<2>();
        if constexpr (TwoRows && TwoColumns) tile_clear<3>();
        for (int step = 0; step < n_steps; ++step) {
            for (int line = 0; line < n_ahead; ++line, next += 64) __builtin_prefetch(next, 0, 2);
            tile_load<4>(a + kTileValues, 64);  // low · high
            tile_load<6>(b, 64);
            tile_multiply<0, 4, 6>();
            if constexpr (TwoRows) {
                tile_load<5>(a + next_rows + kTileValues, 64);
                tile_multiply<2, 5, 6>();
            }
            if constexpr (TwoColumns) {
                tile_load<7>(b + kTileValues, 64);
                tile_multiply<1, 4, 7>();
                if constexpr (TwoRows) tile_multiply<3, 5, 7>();
            }
            tile_load<4>(a, 64);  // high · high
            tile_multiply<0, 4, 6>();
            if constexpr (TwoColumns) tile_multiply<1, 4, 7>();
            if constexpr (TwoRows) {
                tile_load<5>(a + next_rows, 64);
                tile_multiply<2, 5, 6>();
                if constexpr (TwoColumns) tile_multiply<3, 5, 7>();
            }
            tile_load<6>(b + columns, 64);  // high · low
            tile_multiply<0, 4, 6>();
            if constexpr (TwoRows) tile_multiply<2, 5, 6>();
            if constexpr (TwoColumns) {
                tile_load<7>(b + columns + kTileValues, 64);
                tile_multiply<1, 4, 7>();
                if constexpr (TwoRows) tile_multiply<3, 5, 7>();
            }
            a += 2 * kTileValues;
            b += 2 * columns;
        }
        tile_store<0>(sums, kPair * 4);
        if constexpr (TwoColumns) tile_store<1>(sums + kTile, kPair * 4);
        if constexpr (TwoRows) tile_store<2>(sums + kTile * kPair, kPair * 4);
        if constexpr (TwoRows && TwoColumns) tile_store<3>(sums + kTile * kPair + kTile, kPair * 4);
    }

    void run(bool two_rows, bool two_columns) const {
        if (two_rows && two_columns)
            run<true, true>();
        else if (two_rows)
            run<true, false>();
        else if (two_columns)
            run<false, true>();
        else
            run<false, false>();
    }
};

// Rows in two parts, tile by tile, and their products.
class SplitRows {
   public:
    static constexpr int strip = kPair;  // columns of the weights that stay together

    static size_t bytes(int n_rows, int depth) {
        return (n_rows + kTile - 1) / kTile * tile_size(depth) * sizeof(bfloat16);
    }

    static size_t packed_bytes(int depth, int width) {
        return (width + kTile - 1) / kTile * tile_size(depth) * sizeof(bfloat16);
    }

    // `parts` has as many bytes as `bytes` says.
    SplitRows(void* parts, int n_rows, int depth)
        : parts_(static_cast<bfloat16*>(parts)), n_rows_(n_rows), depth_(depth), n_steps_(steps(depth)) {
        // Tiles of equal height: the unit takes as long as a tile is high.
        n_tiles_ = (n_rows + kTile - 1) / kTile;
        height_ = (n_rows + n_tiles_ - 1) / n_tiles_;
    }

    // Reads some rows. Those beyond the last, of which there are fewer than tiles, come with it.
    void read(const float* values, int begin, int end) {
        for (int row = begin; row < end; ++row) split(values + int64_t(row) * depth_, row, depth_);
        if (end == n_rows_)
            for (int row = n_rows_; row < n_tiles_ * height_; ++row) split(values, row, 0);
    }

    // All rows by some strips of columns. As many rows as the cache holds pass by all of these before others do.
    void multiply(const void* weights, int first, int last, const Result& result) const {
        TileConfig config;
        for (int tile = 0; tile < 8; ++tile) {
            config.row_bytes[tile] = 64;
            config.rows[tile] = tile < 6 ? height_ : kTile;
        }
        tile_configure(config);
        const int most = std::max(2, int(kNearBytes / (tile_size(depth_) * sizeof(bfloat16))));
        const int n_chunks = (n_tiles_ + most - 1) / most;
        const int chunk = ((n_tiles_ + n_chunks - 1) / n_chunks + 1) / 2 * 2;
        for (int tile = 0; tile < n_tiles_; tile += chunk)
            for (int pair = first; pair < last; ++pair)
                multiply_pair(static_cast<const bfloat16*>(weights), pair, tile, std::min(n_tiles_, tile + chunk),
                              pair + 1 < last, result);
        tile_free();
#if !defined(RELATUM_EMULATE_TILES)
        asm volatile("" ::: "memory");
#endif
    }

   private:
    bfloat16* parts_;
    int n_rows_, depth_, n_steps_, n_tiles_, height_;

    static int steps(int depth) { return (depth + kTileDepth - 1) / kTileDepth; }
    static int64_t tile_size(int depth) { return int64_t(steps(depth)) * 2 * kTileValues; }

    // Both parts of a row, zero beyond its end.
    void split(const float* from, int row, int depth) const {
        constexpr int lanes = kLanes<float>;
        bfloat16* to = parts_ + row / height_ * tile_size(depth_) + row % height_ * kTileDepth;
        for (int step = 0; step < n_steps_; ++step, to += 2 * kTileValues)
            for (int i = 0; i < kTileDepth; i += lanes) {
                const int count = depth - step * kTileDepth - i;
                const Vec<float> value = count > 0 ? load(from + step * kTileDepth + i, count) : Vec<float>{};
                const Half high = to_bfloat16(value);
                const Half low = to_bfloat16(value - from_bfloat16(high));
                std::memcpy(to + i, &high, sizeof(high));
                std::memcpy(to + kTileValues + i, &low, sizeof(low));
            }
    }

    void multiply_pair(const bfloat16* weights, int pair, int begin, int end, bool more, const Result& result) const {
        alignas(64) float sums[kPair * kPair];
        const int64_t tile_size = SplitRows::tile_size(depth_);
        const int column = pair * kPair, width = std::min(kPair, result.width - column);
        const int n_passes = (end - begin + 1) / 2;
        SplitBlock block;
        block.next_rows = tile_size, block.n_steps = n_steps_, block.sums = sums;
        block.weights = weights + pair * 2 * tile_size;
        block.ahead = reinterpret_cast<const char*>(block.weights + 2 * tile_size);
        // The lines of a step are shared out among the passes.
        block.n_ahead = more ? (4 * kTileValues * int(sizeof(bfloat16)) / 64 + n_passes - 1) / n_passes : 0;
        for (int tile = begin; tile < end; tile += 2) {
            block.rows = parts_ + tile * tile_size;
            block.run(tile + 1 < end, width > kTile);
            block.ahead += int64_t(n_steps_) * block.n_ahead * 64;
            for (int one = tile; one < std::min(end, tile + 2); ++one)
                result.write(sums + (one - tile) * kTile * kPair, kPair, one * height_,
                             std::min(height_, n_rows_ - one * height_), column, width);
        }
    }
};

}  // namespace relatum
#endif
