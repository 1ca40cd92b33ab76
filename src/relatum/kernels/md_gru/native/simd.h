// Vectors of the width that the compiler's target has, how values lie in memory, and the functions of the gates.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define ALWAYS_INLINE inline __attribute__((always_inline))

namespace relatum {

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define RELATUM_AVX512 1
constexpr int kVectorBytes = 64;
constexpr int kRegisters = 32;
#elif defined(__AVX2__) && defined(__FMA__)
#define RELATUM_AVX2 1
constexpr int kVectorBytes = 32;
constexpr int kRegisters = 16;
#elif defined(__aarch64__)
#define RELATUM_NEON 1
constexpr int kVectorBytes = 16;
constexpr int kRegisters = 32;
#else
constexpr int kVectorBytes = 16;
constexpr int kRegisters = 16;
#endif

struct bfloat16 {
    uint16_t bits;
};
struct float16 {
    uint16_t bits;
};

// The type that values of a storage type are computed in.
template <class S>
struct ComputeOf {
    using type = float;
};
template <>
struct ComputeOf<double> {
    using type = double;
};
template <class S>
using Compute = typename ComputeOf<S>::type;

template <class T>
struct Vectors;
template <>
struct Vectors<float> {
    typedef float type __attribute__((vector_size(kVectorBytes)));
    typedef uint32_t bits __attribute__((vector_size(kVectorBytes)));
    typedef uint16_t half __attribute__((vector_size(kVectorBytes / 2)));
};
template <>
struct Vectors<double> {
    typedef double type __attribute__((vector_size(kVectorBytes)));
    typedef uint64_t bits __attribute__((vector_size(kVectorBytes)));
};
template <class T>
using Vec = typename Vectors<T>::type;
using Bits = Vectors<float>::bits;
using Half = Vectors<float>::half;
template <class T>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(T));

// A value in all lanes. Taking zero away changes nothing, and compilers know it; of adding zero they do not.
template <class T>
ALWAYS_INLINE Vec<T> spread(T value) {
    return value - Vec<T>{};
}

// a · b + c, rounded once. Compilers that are left to choose round twice in some loops and not in others.
#if defined(RELATUM_AVX512)
ALWAYS_INLINE Vec<float> multiply_add(Vec<float> a, Vec<float> b, Vec<float> c) {
    return (Vec<float>)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
ALWAYS_INLINE Vec<double> multiply_add(Vec<double> a, Vec<double> b, Vec<double> c) {
    return (Vec<double>)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
}
#elif defined(RELATUM_AVX2)
ALWAYS_INLINE Vec<float> multiply_add(Vec<float> a, Vec<float> b, Vec<float> c) {
    return (Vec<float>)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
ALWAYS_INLINE Vec<double> multiply_add(Vec<double> a, Vec<double> b, Vec<double> c) {
    return (Vec<double>)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
}
#elif defined(RELATUM_NEON)
ALWAYS_INLINE Vec<float> multiply_add(Vec<float> a, Vec<float> b, Vec<float> c) {
    return (Vec<float>)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
ALWAYS_INLINE Vec<double> multiply_add(Vec<double> a, Vec<double> b, Vec<double> c) {
    return (Vec<double>)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b);
}
#else
template <class V>
ALWAYS_INLINE V multiply_add(V a, V b, V c) {
    return a * b + c;
}
#endif

// Loads and stores of the first `count` lanes; what is beyond them in memory is neither read nor written.

template <class V, class P>
ALWAYS_INLINE V load_whole(const P* from) {
    V value;
    std::memcpy(&value, from, sizeof(V));
    return value;
}

template <class V, class P>
ALWAYS_INLINE V load_part(const P* from, int count) {
    constexpr int lanes = sizeof(V) / sizeof(P);
    P values[lanes] = {};
    for (int lane = 0; lane < count; ++lane) values[lane] = from[lane];
    return load_whole<V>(values);
}

template <class V, class P>
ALWAYS_INLINE void store_part(P* to, const V& value, int count) {
    P values[sizeof(V) / sizeof(P)];
    std::memcpy(values, &value, sizeof(V));
    for (int lane = 0; lane < count; ++lane) to[lane] = values[lane];
}

#if defined(RELATUM_AVX512)
template <>
ALWAYS_INLINE Vec<float> load_part<Vec<float>, float>(const float* from, int count) {
    return (Vec<float>)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), from);
}
template <>
ALWAYS_INLINE Vec<double> load_part<Vec<double>, double>(const double* from, int count) {
    return (Vec<double>)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), from);
}
template <>
ALWAYS_INLINE Half load_part<Half, uint16_t>(const uint16_t* from, int count) {
    return (Half)_mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), from);
}
template <>
ALWAYS_INLINE void store_part<Vec<float>, float>(float* to, const Vec<float>& value, int count) {
    _mm512_mask_storeu_ps(to, (__mmask16)((1u << count) - 1), (__m512)value);
}
template <>
ALWAYS_INLINE void store_part<Vec<double>, double>(double* to, const Vec<double>& value, int count) {
    _mm512_mask_storeu_pd(to, (__mmask8)((1u << count) - 1), (__m512d)value);
}
template <>
ALWAYS_INLINE void store_part<Half, uint16_t>(uint16_t* to, const Half& value, int count) {
    _mm256_mask_storeu_epi16(to, (__mmask16)((1u << count) - 1), (__m256i)value);
}
#elif defined(RELATUM_AVX2)
ALWAYS_INLINE __m256i first_of_8(int count) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
ALWAYS_INLINE __m256i first_of_4(int count) {
    return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}
template <>
ALWAYS_INLINE Vec<float> load_part<Vec<float>, float>(const float* from, int count) {
    return (Vec<float>)_mm256_maskload_ps(from, first_of_8(count));
}
template <>
ALWAYS_INLINE Vec<double> load_part<Vec<double>, double>(const double* from, int count) {
    return (Vec<double>)_mm256_maskload_pd(from, first_of_4(count));
}
template <>
ALWAYS_INLINE void store_part<Vec<float>, float>(float* to, const Vec<float>& value, int count) {
    _mm256_maskstore_ps(to, first_of_8(count), (__m256)value);
}
template <>
ALWAYS_INLINE void store_part<Vec<double>, double>(double* to, const Vec<double>& value, int count) {
    _mm256_maskstore_pd(to, first_of_4(count), (__m256d)value);
}
#endif

template <class V, class P>
ALWAYS_INLINE V load_bare(const P* from, int count) {
    return count >= static_cast<int>(sizeof(V) / sizeof(P)) ? load_whole<V>(from) : load_part<V>(from, count);
}

template <class V, class P>
ALWAYS_INLINE void store_bare(P* to, const V& value, int count) {
    if (count >= static_cast<int>(sizeof(V) / sizeof(P)))
        std::memcpy(to, &value, sizeof(V));
    else
        store_part<V>(to, value, count);
}

ALWAYS_INLINE Vec<float> from_bfloat16(Half bits) { return (Vec<float>)(__builtin_convertvector(bits, Bits) << 16); }

// To nearest, ties to even; a not-a-number stays one. The instruction takes numbers below 10⁻³⁸ for zero.
ALWAYS_INLINE Half to_bfloat16(Vec<float> value) {
#if defined(RELATUM_AVX512) && defined(__AVX512BF16__)
    return (Half)_mm512_cvtneps_pbh((__m512)value);
#else
    Bits bits = (Bits)value;
    Bits rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    Bits quiet = (bits >> 16) | 0x40;
    return __builtin_convertvector(value != value ? quiet : rounded, Half);
#endif
}

ALWAYS_INLINE Vec<float> from_float16(Half bits) {
#if defined(RELATUM_AVX512)
    return (Vec<float>)_mm512_cvtph_ps((__m256i)bits);
#elif defined(RELATUM_AVX2) && defined(__F16C__)
    return (Vec<float>)_mm256_cvtph_ps((__m128i)bits);
#elif defined(RELATUM_NEON)
    return (Vec<float>)vcvt_f32_f16((float16x4_t)bits);
#else
    Vec<float> value;
    for (int lane = 0; lane < kLanes<float>; ++lane) {
        _Float16 one;
        uint16_t raw = bits[lane];
        std::memcpy(&one, &raw, 2);
        value[lane] = static_cast<float>(one);
    }
    return value;
#endif
}

ALWAYS_INLINE Half to_float16(Vec<float> value) {
#if defined(RELATUM_AVX512)
    return (Half)_mm512_cvtps_ph((__m512)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(RELATUM_AVX2) && defined(__F16C__)
    return (Half)_mm256_cvtps_ph((__m256)value, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
#elif defined(RELATUM_NEON)
    return (Half)vcvt_f16_f32((float32x4_t)value);
#else
    Half bits;
    for (int lane = 0; lane < kLanes<float>; ++lane) {
        _Float16 one = static_cast<_Float16>(value[lane]);
        uint16_t raw;
        std::memcpy(&raw, &one, 2);
        bits[lane] = raw;
    }
    return bits;
#endif
}

ALWAYS_INLINE Vec<float> load(const float* from, int count) { return load_bare<Vec<float>>(from, count); }
ALWAYS_INLINE Vec<double> load(const double* from, int count) { return load_bare<Vec<double>>(from, count); }
ALWAYS_INLINE Vec<float> load(const bfloat16* from, int count) {
    return from_bfloat16(load_bare<Half>(reinterpret_cast<const uint16_t*>(from), count));
}
ALWAYS_INLINE Vec<float> load(const float16* from, int count) {
    return from_float16(load_bare<Half>(reinterpret_cast<const uint16_t*>(from), count));
}
ALWAYS_INLINE void store(float* to, Vec<float> value, int count) { store_bare(to, value, count); }
ALWAYS_INLINE void store(double* to, Vec<double> value, int count) { store_bare(to, value, count); }
ALWAYS_INLINE void store(bfloat16* to, Vec<float> value, int count) {
    store_bare(reinterpret_cast<uint16_t*>(to), to_bfloat16(value), count);
}
ALWAYS_INLINE void store(float16* to, Vec<float> value, int count) {
    store_bare(reinterpret_cast<uint16_t*>(to), to_float16(value), count);
}

ALWAYS_INLINE float widen(float value) { return value; }
ALWAYS_INLINE double widen(double value) { return value; }
ALWAYS_INLINE float widen(bfloat16 value) {
    const uint32_t bits = static_cast<uint32_t>(value.bits) << 16;
    float wide;
    std::memcpy(&wide, &bits, sizeof(wide));
    return wide;
}
ALWAYS_INLINE float widen(float16 value) { return from_float16(Half{value.bits})[0]; }

// Where one of them is not a number, it is b. Of the conditions compilers would make two instructions.
template <class T>
ALWAYS_INLINE Vec<T> larger(Vec<T> a, Vec<T> b) {
    return a > b ? a : b;
}
template <class T>
ALWAYS_INLINE Vec<T> smaller(Vec<T> a, Vec<T> b) {
    return a < b ? a : b;
}
#if defined(RELATUM_AVX512)
constexpr __mmask16 kAllLanes = 0xffff;  // without a mask, GCC warns of what its own header leaves open
template <>
ALWAYS_INLINE Vec<float> larger<float>(Vec<float> a, Vec<float> b) {
    return (Vec<float>)_mm512_maskz_max_ps(kAllLanes, (__m512)a, (__m512)b);
}
template <>
ALWAYS_INLINE Vec<float> smaller<float>(Vec<float> a, Vec<float> b) {
    return (Vec<float>)_mm512_maskz_min_ps(kAllLanes, (__m512)a, (__m512)b);
}
#elif defined(RELATUM_AVX2)
template <>
ALWAYS_INLINE Vec<float> larger<float>(Vec<float> a, Vec<float> b) {
    return (Vec<float>)_mm256_max_ps((__m256)a, (__m256)b);
}
template <>
ALWAYS_INLINE Vec<float> smaller<float>(Vec<float> a, Vec<float> b) {
    return (Vec<float>)_mm256_min_ps((__m256)a, (__m256)b);
}
#endif

// e^x = power · (1 + rest), with x = n ln 2 + f, power = 2^n, rest = e^f − 1 and |f| ≤ ln 2 / 2.
template <class T>
struct Exponential {
    Vec<T> power, rest;
};

template <class T>
struct Constants;
template <>
struct Constants<float> {
    static constexpr float lowest = -87, highest = 88;
    static constexpr float to_integer = 12582912;  // 1.5 · 2^23: adding it leaves n in the lowest bits
    static constexpr float log2_e = 1.44269504f, ln2_high = 0.693359375f, ln2_low = -2.12194440e-4f;
    static constexpr int mantissa = 23, degree = 7;
    static constexpr uint32_t one = 0x3f800000;
};
template <>
struct Constants<double> {
    static constexpr double lowest = -708, highest = 709;
    static constexpr double to_integer = 6755399441055744;  // 1.5 · 2^52
    static constexpr double log2_e = 1.4426950408889634, ln2_high = 0.693147180369123816490;
    static constexpr double ln2_low = 1.90821492927058770002e-10;
    static constexpr int mantissa = 52, degree = 13;
    static constexpr uint64_t one = 0x3ff0000000000000;
};

constexpr double one_over_factorial(int n) { return n < 2 ? 1.0 : one_over_factorial(n - 1) / n; }

// Horner's scheme of 1 + f/2! + f²/3! + …, written out by the compiler.
template <class T, int N>
ALWAYS_INLINE Vec<T> series(Vec<T> f) {
    constexpr T own = static_cast<T>(one_over_factorial(N));
    if constexpr (N == Constants<T>::degree)
        return spread<T>(own);
    else
        return series<T, N + 1>(f) * f + own;
}

template <class T>
ALWAYS_INLINE Exponential<T> exponential(Vec<T> x) {
    using C = Constants<T>;
    using Integers = typename Vectors<T>::bits;
    x = smaller<T>(spread<T>(C::highest), larger<T>(spread<T>(C::lowest), x));
    Vec<T> shifted = x * C::log2_e + C::to_integer;
    Vec<T> n = shifted - C::to_integer;
    Vec<T> f = (x - n * C::ln2_high) - n * C::ln2_low;
    Integers power = ((Integers)shifted << C::mantissa) + C::one;
    return {(Vec<T>)power, f * series<T, 1>(f)};
}

template <class T>
ALWAYS_INLINE Vec<T> exp(Vec<T> x) {
    Exponential<T> e = exponential<T>(x);
    return e.power * e.rest + e.power;
}

template <class T>
ALWAYS_INLINE Vec<T> sigmoid(Vec<T> x) {
    return T(1) / (T(1) + exp<T>(-x));
}

// (e^2x − 1) / (e^2x + 1), without a loss of digits near zero.
template <class T>
ALWAYS_INLINE Vec<T> tanh(Vec<T> x) {
    constexpr T far = sizeof(T) == 4 ? 20 : 40;
    const Vec<T> twice = smaller<T>(spread<T>(far), larger<T>(spread<T>(-far), x + x));
    Exponential<T> e = exponential<T>(twice);
    Vec<T> less_one = e.power * e.rest + (e.power - T(1));
    return less_one / (less_one + T(2));
}

}  // namespace relatum
