// Products of 8-bit integers: rows are rounded when they are read, weights when they are packed.
//
// In blocks of 128 values, a value of a row is low + step · q, with q from 0 to 255 and a low and a step of the row's own.
// A weight is step · w, with w from −127 to 127 and a step of its column's own. So the product of two blocks is
// row step · column step · Σ q w + low · column step · Σ w. Sums of integers are exact on every CPU. Blocks keep a large
// value from making the steps of all others large; in blocks of 128, errors are three fifths of those without blocks.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "product.h"
#include "result.h"
#include "rows.h"

namespace relatum {

template <>
struct Vectors<int32_t> {
    typedef int32_t type __attribute__((vector_size(kVectorBytes)));
};

// Four values a step: unsigned ones of a row by signed ones of the weights.
struct ByteDot {
    using Left = uint8_t;
    using Element = uint32_t;
    static constexpr int per_step = 4;
    using Sum = int32_t;
    using Right = Bits;

#if defined(RELATUM_NEON) && defined(__ARM_FEATURE_DOTPROD)
    static constexpr int shift = 128;  // the instruction takes signed values, 128 less than those of the row
    static ALWAYS_INLINE Right spread(Element a) { return (a ^ 0x80808080u) - Right{}; }
    static ALWAYS_INLINE Vec<int32_t> step(Vec<int32_t> sum, Right a, Right b) {
        return (Vec<int32_t>)vdotq_s32((int32x4_t)sum, (int8x16_t)a, (int8x16_t)b);
    }
#else
    static constexpr int shift = 0;
    static ALWAYS_INLINE Right spread(Element a) { return a - Right{}; }
    static ALWAYS_INLINE Vec<int32_t> step(Vec<int32_t> sum, Right a, Right b) {
#if defined(RELATUM_AVX512) && defined(__AVX512VNNI__)
        return (Vec<int32_t>)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)a, (__m512i)b);
#elif defined(RELATUM_AVX2) && defined(__AVXVNNI__)
        return (Vec<int32_t>)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)a, (__m256i)b);
#else
        const Vec<int32_t> even = pairs((Shorts)a & 0xff, (Shorts)((Shorts)b << 8) >> 8);
        const Vec<int32_t> odd = pairs((Shorts)((Unsigned)a >> 8), (Shorts)b >> 8);
        return sum + even + odd;
#endif
    }
#endif

    static void copy(const int8_t*, Element*) {}  // fours are never side by side
    static ALWAYS_INLINE Element element(const int8_t* value, int64_t stride, int count) {
        Element four = 0;
        for (int i = 0; i < std::min(count, per_step); ++i) four |= Element(uint8_t(value[i * stride])) << 8 * i;
        return four;
    }

   private:
    typedef int16_t Shorts __attribute__((vector_size(kVectorBytes)));
    typedef uint16_t Unsigned __attribute__((vector_size(kVectorBytes)));

    // Products of 16-bit integers, the two of a lane added.
    static ALWAYS_INLINE Vec<int32_t> pairs(Shorts a, Shorts b) {
#if defined(RELATUM_AVX512)
        return (Vec<int32_t>)_mm512_madd_epi16((__m512i)a, (__m512i)b);
#elif defined(RELATUM_AVX2)
        return (Vec<int32_t>)_mm256_madd_epi16((__m256i)a, (__m256i)b);
#else
        const Vec<int32_t> wide_a = (Vec<int32_t>)a, wide_b = (Vec<int32_t>)b;
        return (wide_a << 16 >> 16) * (wide_b << 16 >> 16) + (wide_a >> 16) * (wide_b >> 16);
#endif
    }
};

// Rows rounded to bytes, and their products; see `PlainRows`, which has the same functions.
class ByteRows {
    using Engine = Panels<ByteDot, true>;
    struct Scale {
        float low, step;
    };

   public:
    static constexpr int strip = 64;  // columns of the weights that stay together

    static size_t bytes(int n_rows, int depth) {
        return n_rows * (Engine::left_width(depth) + blocks(depth) * sizeof(Scale));
    }
    static size_t packed_bytes(int depth, int width) { return (width + strip - 1) / strip * strip_bytes(depth); }

    // Packs weights, (width, depth): strip after strip, block after block. A block is followed by the steps of its
    // columns and the sums of their weights.
    static void pack(const float* weights, int depth, int width, void* packed) {
        int8_t rounded[strip * block];
        int64_t columns[strip];
        for (int j = 0; j < strip; ++j) columns[j] = j * block;
        auto* to = static_cast<char*>(packed);
        for (int column = 0; column < width; column += strip)
            for (int begin = 0; begin < depth; begin += block) {
                const int length = std::min(block, depth - begin), n = std::min(strip, width - column);
                auto* steps = reinterpret_cast<float*>(to + weight_bytes(length));
                std::fill_n(steps, 2 * strip, 0.0f);
                for (int j = 0; j < n; ++j) {
                    const float* from = weights + int64_t(column + j) * depth + begin;
                    steps[j] = round_column(from, length, rounded + columns[j], steps[strip + j]);
                }
                Engine::pack(rounded, 1, columns, length, n, to);
                to += block_bytes(length);
            }
    }

    // `parts` has as many bytes as `bytes` says.
    ByteRows(void* parts, int n_rows, int depth)
        : scales_(static_cast<Scale*>(parts)),
          values_(reinterpret_cast<uint8_t*>(scales_ + int64_t(n_rows) * blocks(depth))),
          n_rows_(n_rows),
          depth_(depth),
          left_width_(Engine::left_width(depth)) {}

    void read(const float* values, int begin, int end) {
        for (int64_t row = begin; row < end; ++row) {
            Scale* scale = scales_ + row * blocks(depth_);
            for (int at = 0; at < depth_; at += block)
                *scale++ = round_row(values + row * depth_ + at, values_ + row * left_width_ + at,
                                     std::min(block, depth_ - at));
        }
    }

    void multiply(const void* weights, int first, int last, const Result& result) const {
        alignas(64) float products[most_rows * strip];
        const int n_groups = (n_rows_ + most_rows - 1) / most_rows;
        for (int one = first; one < last; ++one) {
            const int column = one * strip, width = std::min(strip, result.width - column);
            const char* packed = static_cast<const char*>(weights) + one * strip_bytes(depth_);
            for (int group = 0; group < n_groups; ++group) {
                const int begin = int64_t(n_rows_) * group / n_groups, end = int64_t(n_rows_) * (group + 1) / n_groups;
                multiply_blocks(packed, begin, end, width, products);
                result.write(products, strip, begin, end - begin, column, width);
            }
        }
    }

   private:
    static constexpr int most_rows = 48;  // whose sums lie in the first cache
    static constexpr int block = 128;     // values that have a step in common
    static constexpr float least = 1e-36;  // smaller ranges are none: the steps in them could not be counted in float32
    typedef uint8_t Bytes __attribute__((vector_size(kLanes<float>)));

    Scale* scales_;
    uint8_t* values_;
    int n_rows_, depth_, left_width_;

    static int blocks(int depth) { return (depth + block - 1) / block; }
    static size_t weight_bytes(int length) { return Engine::packed_bytes(length, strip); }
    static size_t block_bytes(int length) { return weight_bytes(length) + 2 * strip * sizeof(float); }
    static size_t strip_bytes(int depth) {
        const int rest = depth % block;
        return depth / block * block_bytes(block) + (rest ? block_bytes(rest) : 0);
    }

    // Returns the step, and sets the sum of the rounded weights.
    static float round_column(const float* from, int length, int8_t* to, float& sum) {
        float most = 0;
        bool finite = true;
        for (int i = 0; i < length; ++i) most = std::max(most, std::abs(from[i])), finite &= bool(std::isfinite(from[i]));
        const float per_step = finite && most > least ? 127 / most : 0;
        int total = 0;
        for (int i = 0; i < length; ++i) total += to[i] = per_step > 0 ? int8_t(std::lround(from[i] * per_step)) : 0;
        const float step = finite ? most / 127 : std::numeric_limits<float>::quiet_NaN();
        sum = total * step;
        return step;
    }

    static Scale round_row(const float* from, uint8_t* to, int length) {
        constexpr int lanes = kLanes<float>;
        const auto [low, high] = extremes(from, length);
        const float per_step = high - low > least ? 255 / (high - low) : 0;
        Vec<float> odd{};  // above 0 where a value is infinite or not a number, which no byte can tell
        for (int i = 0; i < length; i += lanes) {
            const int count = std::min(lanes, length - i);
            const Vec<float> above = load(from + i, count) - low;
            odd = above * 0.0f == 0.0f ? odd : spread<float>(1);
            const Vec<float> steps = multiply_add(above, spread<float>(per_step), spread<float>(0.5f));
            const Bytes bytes = __builtin_convertvector(__builtin_convertvector(steps, Vec<int32_t>), Bytes);
            std::memcpy(to + i, &bytes, count);
        }
        return {low, highest_lane(odd) > 0 ? std::numeric_limits<float>::quiet_NaN() : (high - low) / 255};
    }

    void multiply_blocks(const char* packed, int begin, int end, int width, float* products) const {
        alignas(64) int32_t sums[most_rows * strip];
        for (int number = 0; number < blocks(depth_); ++number) {
            const int at = number * block, length = std::min(block, depth_ - at);
            Engine::multiply(values_ + int64_t(begin) * left_width_ + at, left_width_, end - begin, packed, length,
                             width, sums, strip, false);
            const auto* steps = reinterpret_cast<const float*>(packed + weight_bytes(length));
            for (int row = begin; row < end; ++row) {
                const Scale scale = scales_[int64_t(row) * blocks(depth_) + number];
                const int place = (row - begin) * strip;
                add(scale, steps, sums + place, products + place, width, number > 0);
            }
            packed += block_bytes(length);
        }
    }

    static ALWAYS_INLINE void add(Scale row, const float* steps, const int32_t* sums, float* products, int width,
                                  bool more) {
        for (int i = 0; i < width; i += kLanes<float>) {
            const Vec<float> step = load_whole<Vec<float>>(steps + i), total = load_whole<Vec<float>>(steps + strip + i);
            const Vec<float> sum = __builtin_convertvector(load_whole<Vec<int32_t>>(sums + i), Vec<float>);
            const Vec<float> before = more ? load_whole<Vec<float>>(products + i) : Vec<float>{};
            const Vec<float> low = spread<float>(row.low + ByteDot::shift * row.step);
            const Vec<float> product = multiply_add(sum * step, spread<float>(row.step), multiply_add(total, low, before));
            std::memcpy(products + i, &product, sizeof(product));
        }
    }
};

}  // namespace relatum
