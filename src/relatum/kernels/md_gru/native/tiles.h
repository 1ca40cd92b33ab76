// The same products in tiles of 16 by 16 sums, 32 values of bfloat16 a step, by the matrix unit that some CPUs have.
//
// With RELATUM_EMULATE_TILES the unit's instructions are plain loops, so that packing and indexing can be tested on any
// machine.
#pragma once

#include "simd.h"

#if defined(__AMX_BF16__) && defined(__AMX_TILE__)
#define RELATUM_TILES 1
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(RELATUM_EMULATE_TILES)
#define RELATUM_TILES 1
#endif

#if defined(RELATUM_TILES)
namespace relatum {

constexpr int kTile = 16;       // rows and columns of sums
constexpr int kTileDepth = 32;  // values of a row of A

struct alignas(64) TileConfig {
    uint8_t palette = 1, start_row = 0, reserved[14] = {};
    uint16_t row_bytes[16] = {};
    uint8_t rows[16] = {};
};

#if defined(RELATUM_EMULATE_TILES)
struct EmulatedTiles {
    TileConfig config;
    uint8_t bytes[8][16][64];
};
inline thread_local EmulatedTiles emulated;

inline void tile_configure(const TileConfig& config) { emulated.config = config; }
inline void tile_free() {}
template <int N>
void tile_load(const void* from, int64_t stride) {
    for (int r = 0; r < emulated.config.rows[N]; ++r)
        std::memcpy(emulated.bytes[N][r], static_cast<const char*>(from) + r * stride, emulated.config.row_bytes[N]);
}
template <int N>
void tile_store(void* to, int64_t stride) {
    for (int r = 0; r < emulated.config.rows[N]; ++r)
        std::memcpy(static_cast<char*>(to) + r * stride, emulated.bytes[N][r], emulated.config.row_bytes[N]);
}
template <int N>
void tile_clear() {
    std::memset(emulated.bytes[N], 0, sizeof(emulated.bytes[N]));
}
template <int C, int A, int B>
void tile_multiply() {
    auto& t = emulated;
    for (int m = 0; m < t.config.rows[C]; ++m)
        for (int k = 0; k < t.config.row_bytes[A] / 4; ++k)
            for (int n = 0; n < t.config.row_bytes[C] / 4; ++n) {
                float sum;
                bfloat16 a[2], b[2];
                std::memcpy(&sum, &t.bytes[C][m][4 * n], 4);
                std::memcpy(a, &t.bytes[A][m][4 * k], 4);
                std::memcpy(b, &t.bytes[B][k][4 * n], 4);
                sum += widen(a[0]) * widen(b[0]);
                sum += widen(a[1]) * widen(b[1]);
                std::memcpy(&t.bytes[C][m][4 * n], &sum, 4);
            }
}
inline bool tiles_allowed() { return true; }
#else
// The numbers of tiles become text of instructions, so they must be digits where they stand.
#define RELATUM_TILE(N)                                                                                        \
    template <>                                                                                                \
    ALWAYS_INLINE void tile_load<N>(const void* from, int64_t stride) {                                        \
        _tile_loadd(N, from, stride);                                                                          \
    }                                                                                                          \
    template <>                                                                                                \
    ALWAYS_INLINE void tile_store<N>(void* to, int64_t stride) {                                               \
        _tile_stored(N, to, stride);                                                                           \
    }                                                                                                          \
    template <>                                                                                                \
    ALWAYS_INLINE void tile_clear<N>() {                                                                       \
        _tile_zero(N);                                                                                         \
    }
#define RELATUM_TILE_PRODUCT(C, A, B)                                                                          \
    template <>                                                                                                \
    ALWAYS_INLINE void tile_multiply<C, A, B>() {                                                              \
        _tile_dpbf16ps(C, A, B);                                                                               \
    }
template <int N>
void tile_load(const void* from, int64_t stride);
template <int N>
void tile_store(void* to, int64_t stride);
template <int N>
void tile_clear();
template <int C, int A, int B>
void tile_multiply();
RELATUM_TILE(0)
RELATUM_TILE(1)
RELATUM_TILE(2)
RELATUM_TILE(3)
RELATUM_TILE(4)
RELATUM_TILE(5)
RELATUM_TILE(6)
RELATUM_TILE(7)
RELATUM_TILE_PRODUCT(0, 4, 6)
RELATUM_TILE_PRODUCT(1, 4, 7)
RELATUM_TILE_PRODUCT(2, 5, 6)
RELATUM_TILE_PRODUCT(3, 5, 7)
ALWAYS_INLINE void tile_configure(const TileConfig& config) {
    // The instructions' definitions do not say what memory they read: all of it must have been written by now.
    asm volatile("" ::"r"(&config) : "memory");
    _tile_loadconfig(&config);
}
ALWAYS_INLINE void tile_free() { _tile_release(); }

// Linux gives the unit's registers to a process that has asked for them.
inline bool tiles_allowed() {
    static const bool allowed = [] {
        constexpr long request_permission = 0x1023, tile_data = 18;
        return syscall(SYS_arch_prctl, request_permission, tile_data) == 0;
    }();
    return allowed;
}
#endif

class Tiles {
   public:
    using Left = bfloat16;
    using Sum = float;
    static constexpr int spare_rows = kTile;  // tiles of equal height may reach beyond the last row

    static int left_width(int k) { return depth(k) * kTileDepth; }
    static int sum_width(int n) { return (n + kTile - 1) / kTile * kTile; }
    static size_t packed_bytes(int k, int n) { return size_t(left_width(k)) * sum_width(n) * sizeof(bfloat16); }

    // A tile of B is 16 pairs of rows by 16 columns, the two values of a pair side by side; tiles of the same columns
    // follow each other.
    static void pack(const bfloat16* weights, int64_t row_stride, const int64_t* columns, int k, int n, void* packed) {
        auto* to = static_cast<uint16_t*>(packed);
        for (int column = 0; column < sum_width(n); column += kTile)
            for (int row = 0; row < left_width(k); ++row) {
                uint16_t* pairs = to + size_t(column) * left_width(k) + (row / 2) * 2 * kTile + row % 2;
                for (int j = 0; j < kTile; ++j)
                    pairs[2 * j] = row < k && column + j < n ? weights[row * row_stride + columns[column + j]].bits : 0;
            }
    }

    static void multiply(const bfloat16* a, int a_width, int m, const void* packed, int k, int n, float* c, int c_width,
                         bool add) {
        multiply(a, a_width, m, packed, k, n, c, c_width, add ? c : nullptr, c_width);
    }

    // See `Panels`.
    static void multiply(const bfloat16* a, int a_width, int m, const void* packed, int k, int n, float* c, int c_width,
                         const float* base, int base_width) {
        const int n_rows = (m + kTile - 1) / kTile, height = (m + n_rows - 1) / n_rows;
        const int n_columns = sum_width(n) / kTile, n_steps = depth(k);
        TileConfig config;
        for (int tile = 0; tile < 8; ++tile) {
            config.row_bytes[tile] = 64;
            config.rows[tile] = tile < 6 ? height : kTile;
        }
        tile_configure(config);
        const auto* b = static_cast<const bfloat16*>(packed);
        const int64_t b_size = int64_t(left_width(k)) * kTile, a_bytes = int64_t(a_width) * 2, c_bytes = c_width * 4;
        for (int j = 0; j < n_columns; j += 2)
            for (int i = 0; i < n_rows; i += 2) {
                Block block;
                block.a = a + int64_t(i) * height * a_width, block.a_bytes = a_bytes;
                block.b = b + j * b_size, block.b_next = b_size;
                block.c = c + int64_t(i) * height * c_width + j * kTile, block.c_bytes = c_bytes;
                block.a_next = int64_t(height) * a_width, block.c_next = int64_t(height) * c_width;
                block.base = base ? base + int64_t(i) * height * base_width + j * kTile : nullptr;
                block.base_bytes = int64_t(base_width) * 4, block.base_next = int64_t(height) * base_width;
                block.n_steps = n_steps;
                const bool two_rows = i + 1 < n_rows, two_columns = j + 1 < n_columns;
                if (two_rows && two_columns)
                    block.run<true, true>();
                else if (two_rows)
                    block.run<true, false>();
                else if (two_columns)
                    block.run<false, true>();
                else
                    block.run<false, false>();
            }
        tile_free();
#if !defined(RELATUM_EMULATE_TILES)
        asm volatile("" ::: "memory");
#endif
    }

   private:
    static int depth(int k) { return (k + kTileDepth - 1) / kTileDepth; }

    struct Block {
        const bfloat16* a;
        int64_t a_bytes, a_next;
        const bfloat16* b;
        int64_t b_next;
        float* c;
        int64_t c_bytes, c_next;
        const float* base;
        int64_t base_bytes, base_next;
        int n_steps;

        template <bool TwoRows, bool TwoColumns>
        ALWAYS_INLINE void run() const {
            if (base) {
                tile_load<0>(base, base_bytes);
                if constexpr (TwoColumns) tile_load<1>(base + kTile, base_bytes);
                if constexpr (TwoRows) tile_load<2>(base + base_next, base_bytes);
                if constexpr (TwoRows && TwoColumns) tile_load<3>(base + base_next + kTile, base_bytes);
            } else {
                tile_clear<0>();
                if constexpr (TwoColumns) tile_clear<1>();
                if constexpr (TwoRows) tile_clear<2>();
                if constexpr (TwoRows && TwoColumns) tile_clear<3>();
            }
            for (int step = 0; step < n_steps; ++step) {
                const bfloat16* right = b + step * kTileDepth * kTile;
                tile_load<4>(a + step * kTileDepth, a_bytes);
                tile_load<6>(right, 64);
                tile_multiply<0, 4, 6>();
                if constexpr (TwoRows) {
                    tile_load<5>(a + a_next + step * kTileDepth, a_bytes);
                    tile_multiply<2, 5, 6>();
                }
                if constexpr (TwoColumns) {
                    tile_load<7>(right + b_next, 64);
                    tile_multiply<1, 4, 7>();
                    if constexpr (TwoRows) tile_multiply<3, 5, 7>();
                }
            }
            tile_store<0>(c, c_bytes);
            if constexpr (TwoColumns) tile_store<1>(c + kTile, c_bytes);
            if constexpr (TwoRows) tile_store<2>(c + c_next, c_bytes);
            if constexpr (TwoRows && TwoColumns) tile_store<3>(c + c_next + kTile, c_bytes);
        }
    };
};

}  // namespace relatum
#endif
