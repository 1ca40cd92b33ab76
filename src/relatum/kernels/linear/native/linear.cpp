// Products with weights that never change, on the matrix unit, more exact than the unit is.
//
// The unit multiplies bfloat16, which has 8 bits. Here each number is the sum of two of them, a high and a low part,
// which have 16 together: x · w = xl · wh + xh · wh + xh · wl; what is left out, xl · wl, is as small as the rest that
// the parts do not hold. Sums are float32. The caller packs the weights, see `pack` in cpu.py.

#include <algorithm>

#include "memory.h"
#include "team.h"
#include "tiles.h"

namespace relatum {
namespace {

#if defined(RELATUM_TILES)

// What the caller asks for; the arguments of `multiply` in cpu.py.
struct Product {
    const float* values;  // (n_rows, depth)
    const bfloat16* weights;
    const float* bias;  // null where there is none
    float* results;     // (n_rows, width)
    int n_rows, depth, width, n_threads;
};

constexpr int kTileValues = kTile * kTileDepth;
constexpr int kPair = 2 * kTile;                // rows and columns of sums that are made at once
constexpr size_t kNearBytes = size_t(1) << 20;  // of rows that all weights pass by: half a second cache

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

// Two tiles of rows by two of columns, or one where there is no other. A step of the rows is a tile of high parts and
// one of low parts; a step of the weights is the high parts of all columns, and then the low ones.
struct Block {
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

template <bool Gelu>
class Linear {
   public:
    explicit Linear(const Product& job) : job_(job) {
        // Tiles of equal height: the unit takes as long as a tile is high.
        n_tiles_ = (job.n_rows + kTile - 1) / kTile;
        height_ = (job.n_rows + n_tiles_ - 1) / n_tiles_;
        n_steps_ = (job.depth + kTileDepth - 1) / kTileDepth;
        n_pairs_ = (job.width + kPair - 1) / kPair;
    }

    // Whether there was memory for it.
    bool run() {
        Memory& memory = Memory::own();
        memory.begin();
        const int part = memory.ask(size_t(n_tiles_) * tile_size() * sizeof(bfloat16));
        if (!memory.take()) return false;
        parts_ = memory.part<bfloat16>(part);
        Barrier barrier;
        in_parallel(std::min(job_.n_threads, n_pairs_), [&](int thread, int n_threads) {
            const int n_rows = n_tiles_ * height_;
            for (int row = n_rows * thread / n_threads; row < n_rows * (thread + 1) / n_threads; ++row) split(row);
            barrier.wait(n_threads);
            multiply(n_pairs_ * thread / n_threads, n_pairs_ * (thread + 1) / n_threads);
        });
        return true;
    }

   private:
    const Product& job_;
    int n_tiles_, height_, n_steps_, n_pairs_;
    bfloat16* parts_ = nullptr;

    int64_t tile_size() const { return int64_t(n_steps_) * 2 * kTileValues; }

    // Both parts of a row, zero beyond its end and beyond the last row.
    void split(int row) const {
        constexpr int lanes = kLanes<float>;
        const float* from = job_.values + int64_t(row) * job_.depth;
        bfloat16* to = parts_ + row / height_ * tile_size() + row % height_ * kTileDepth;
        const int depth = row < job_.n_rows ? job_.depth : 0;
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

    // All rows by some pairs of columns. As many rows as the cache holds pass by all of these before others do.
    void multiply(int first, int last) const {
        TileConfig config;
        for (int tile = 0; tile < 8; ++tile) {
            config.row_bytes[tile] = 64;
            config.rows[tile] = tile < 6 ? height_ : kTile;
        }
        tile_configure(config);
        const int most = std::max(2, int(kNearBytes / (tile_size() * sizeof(bfloat16))));
        const int n_chunks = (n_tiles_ + most - 1) / most;
        const int chunk = ((n_tiles_ + n_chunks - 1) / n_chunks + 1) / 2 * 2;
        for (int tile = 0; tile < n_tiles_; tile += chunk)
            for (int pair = first; pair < last; ++pair)
                multiply_pair(pair, tile, std::min(n_tiles_, tile + chunk), pair + 1 < last);
        tile_free();
#if !defined(RELATUM_EMULATE_TILES)
        asm volatile("" ::: "memory");
#endif
    }

    void multiply_pair(int pair, int begin, int end, bool more) const {
        alignas(64) float sums[kPair * kPair];
        const int64_t strip = 2 * tile_size();  // of a pair's weights
        const int n_passes = (end - begin + 1) / 2;
        Block block;
        block.next_rows = tile_size(), block.n_steps = n_steps_, block.sums = sums;
        block.weights = job_.weights + pair * strip;
        block.ahead = reinterpret_cast<const char*>(block.weights + strip);
        // The lines of a step are shared out among the passes.
        block.n_ahead = more ? (4 * kTileValues * int(sizeof(bfloat16)) / 64 + n_passes - 1) / n_passes : 0;
        for (int tile = begin; tile < end; tile += 2) {
            block.rows = parts_ + tile * tile_size();
            block.run(tile + 1 < end, job_.width - pair * kPair > kTile);
            block.ahead += int64_t(n_steps_) * block.n_ahead * 64;
            finish(sums, tile * height_, pair * kPair);
            if (tile + 1 < end) finish(sums + kTile * kPair, (tile + 1) * height_, pair * kPair);
        }
    }

    void finish(const float* sums, int first_row, int first_column) const {
        constexpr int lanes = kLanes<float>;
        const int last_row = std::min(job_.n_rows, first_row + height_);
        const int width = std::min(kPair, job_.width - first_column);
        for (int row = first_row; row < last_row; ++row, sums += kPair) {
            float* to = job_.results + int64_t(row) * job_.width + first_column;
            for (int i = 0; i < width; i += lanes) {
                Vec<float> value = load(sums + i, lanes);
                if (job_.bias) value += load(job_.bias + first_column + i, width - i);
                if constexpr (Gelu) value = gelu(value);
                store(to + i, value, width - i);
            }
        }
    }
};

#endif

}  // namespace
}  // namespace relatum

extern "C" {
void relatum_use_threads(void* parallel, void* count, void* index) {
    relatum::threads = {reinterpret_cast<decltype(relatum::Threads::parallel)>(parallel),
                        reinterpret_cast<int (*)()>(count), reinterpret_cast<int (*)()>(index)};
}
#if defined(RELATUM_TILES)
// Whether the system lets this process use the unit.
int relatum_linear_allowed() { return relatum::tiles_allowed(); }
// Zero, or one where there is no memory.
int relatum_linear(const float* values, const void* weights, const float* bias, float* results, int n_rows, int depth,
                   int width, int gelu, int n_threads) {
    if (n_rows < 1 || width < 1) return 0;
    const auto* packed = static_cast<const relatum::bfloat16*>(weights);
    const relatum::Product job{values, packed, bias, results, n_rows, depth, width, n_threads};
    return gelu ? !relatum::Linear<true>(job).run() : !relatum::Linear<false>(job).run();
}
#else
int relatum_linear_allowed() { return 0; }
#endif
}
