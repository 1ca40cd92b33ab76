// Compares vectors, gates, number types and products of the compiled code with plain loops, on the CPU it runs on.

#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "bytes.h"
#include "product.h"
#include "rows.h"

using namespace relatum;

namespace {

int failures = 0;

void check(bool right, const char* what, double found = 0, double expected = 0) {
    if (right) return;
    ++failures;
    std::printf("wrong: %s: found %.9g, expected %.9g\n", what, found, expected);
}

template <class T>
void check_gates() {
    const T tolerance = sizeof(T) == 4 ? T(2e-7) : T(1e-15);
    for (double x = -30; x <= 30; x += 0.37) {
        auto close = [&](T found, double expected, const char* what) {
            check(std::abs(found - expected) <= tolerance * (1 + std::abs(expected)), what, found, expected);
        };
        const T value = static_cast<T>(x);
        close(exp<T>(spread<T>(value))[kLanes<T> - 1], std::exp(double(value)), "exp");
        close(sigmoid<T>(spread<T>(value))[0], 1 / (1 + std::exp(-double(value))), "sigmoid");
        close(tanh<T>(spread<T>(value))[kLanes<T> - 1], std::tanh(double(value)), "tanh");
    }
}

// All numbers in 16 bits come back from float32; what lies between two of them goes to the nearer one.
template <class S>
void check_halves(int exponent_bits) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
        const uint32_t exponent = (bits & 0x7fff) >> (15 - exponent_bits);
        if (exponent == (1u << exponent_bits) - 1) continue;  // infinite or not a number
        if (exponent == 0) continue;                          // some CPUs take these for zero
        S from{static_cast<uint16_t>(bits)}, to{};
        store(&to, load(&from, 1), 1);
        check(to.bits == bits, "16 bits there and back", to.bits, bits);
        S next{static_cast<uint16_t>(bits + 1)}, nearest{};
        if (((bits + 1) & 0x7fff) >> (15 - exponent_bits) == (1u << exponent_bits) - 1) continue;
        const float low = widen(from), high = widen(next), between = low + (high - low) * 0.25f;
        store(&nearest, spread<float>(between), 1);
        check(nearest.bits == bits, "rounding to 16 bits", nearest.bits, bits);
    }
}

void check_parts() {
    float from[2 * kLanes<float>], to[2 * kLanes<float>];
    for (int i = 0; i < 2 * kLanes<float>; ++i) from[i] = i + 1;
    for (int count = 1; count <= kLanes<float>; ++count) {
        for (float& value : to) value = -1;
        store(to, load(from, count), count);
        for (int i = 0; i < 2 * kLanes<float>; ++i) {
            const float expected = i < count ? i + 1 : -1;
            check(to[i] == expected, "part of a vector", to[i], expected);
        }
        check(total(first_lanes(load(from, kLanes<float>), count)) == count * (count + 1) / 2, "first lanes");
        check(highest(from, count) == count, "highest", highest(from, count), count);
    }
    for (int count = 1; count <= 2 * kLanes<float>; ++count)
        for (int place = 0; place < count; ++place) {
            float values[2 * kLanes<float>] = {};
            for (int i = 0; i < count; ++i) values[i] = i == place ? -3 : 2 + (i == count - 1 - place);
            const Extremes found = extremes(values, count);
            check(found.low == -3, "lowest", found.low, -3);
            const float expected = count == 1 ? -3 : 2 * place == count - 1 ? 2 : 3;
            check(found.high == expected, "highest of all", found.high, expected);
        }
}

template <class Dot, class Left>
void check_products() {
    using Engine = Panels<Dot>;
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (int m : {1, 2, 5, 13, 14, 15, 31})
        for (int n : {1, 3, 8, 17, 64})
            for (int k : {1, 2, 33, 300}) {
                std::vector<float> left(m * k), right(k * n), sums(m * Engine::sum_width(n));
                for (float& value : left) value = normal(random);
                for (float& value : right) value = normal(random);
                const int width = Engine::left_width(k);
                std::vector<Left> rows(m * width), weights(k * n);
                for (int i = 0; i < m; ++i)
                    for (int j = 0; j < k; ++j) store(&rows[i * width + j], spread<float>(left[i * k + j]), 1);
                for (int i = 0; i < k * n; ++i) store(&weights[i], spread<float>(right[i]), 1);
                std::vector<int64_t> columns(n);
                for (int j = 0; j < n; ++j) columns[j] = j;
                std::vector<char> packed(Engine::packed_bytes(k, n));
                Engine::pack(weights.data(), n, columns.data(), k, n, packed.data());
                Engine::multiply(rows.data(), width, m, packed.data(), k, n, sums.data(), Engine::sum_width(n), false);
                for (int i = 0; i < m; ++i)
                    for (int j = 0; j < n; ++j) {
                        double expected = 0, size = 1;
                        for (int x = 0; x < k; ++x) {
                            const double term = double(widen(rows[i * width + x])) * double(widen(weights[x * n + j]));
                            expected += term, size += std::abs(term);
                        }
                        const double found = sums[i * Engine::sum_width(n) + j];
                        check(std::abs(found - expected) <= 1e-6 * size, "product", found, expected);
                    }
            }
}

// Rows and weights of random values, or of the largest that there are. A value that lies between two steps may be
// rounded either way, which one product in a hundred may show.
void check_bytes() {
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    int64_t n_exact = 0, n_products = 0;
    for (int m : {1, 2, 14, 15, 49})
        for (int n : {1, 17, 64, 130})
            for (int k : {1, 3, 4, 33, 1100}) {
                const bool extreme = m == 2;
                std::vector<float> rows(m * k), weights(n * k), bias(n), found(m * n);
                for (float& value : rows) value = normal(random);
                for (float& value : weights) value = extreme ? (normal(random) > 0 ? 1.0f : -1.0f) : normal(random);
                for (float& value : bias) value = normal(random);
                if (extreme)
                    for (float& value : rows) value = normal(random) > 0 ? 3.0f : -1.0f;
                std::vector<char> packed(ByteRows::packed_bytes(k, n)), parts(ByteRows::bytes(m, k));
                ByteRows::pack(weights.data(), k, n, packed.data());
                ByteRows own(parts.data(), m, k);
                own.read(rows.data(), 0, m / 2), own.read(rows.data(), m / 2, m);
                own.multiply(packed.data(), 0, (n + ByteRows::strip - 1) / ByteRows::strip, {bias.data(), found.data(), n});
                for (int i = 0; i < m; ++i)
                    for (int j = 0; j < n; ++j) {
                        double expected = bias[j], size = std::abs(bias[j]), one_more = 0;
                        for (int begin = 0; begin < k; begin += 128) {
                            const int length = std::min(128, k - begin);
                            const float *row = &rows[i * k + begin], *column = &weights[j * k + begin];
                            const float low = *std::min_element(row, row + length);
                            const float range = *std::max_element(row, row + length) - low;
                            float most = 0;
                            for (int x = 0; x < length; ++x) most = std::max(most, std::abs(column[x]));
                            for (int x = 0; x < length; ++x) {
                                const double q = range > 0 ? std::floor(double(row[x] - low) * 255 / range + 0.5) : 0;
                                const double w = std::round(double(column[x]) * 127 / most) * most / 127;
                                const double term = (low + q * range / 255) * w;
                                expected += term, size += std::abs(term);
                                const double of_row = std::abs(w) * range / 255;
                                const double of_column = double(std::abs(row[x])) * most / 127;
                                one_more = std::max({one_more, of_row, of_column});
                            }
                        }
                        const double error = std::abs(found[i * n + j] - expected);
                        check(error <= 1e-6 * size + 1.001 * one_more, "product of bytes", found[i * n + j], expected);
                        n_exact += error <= 1e-6 * size, ++n_products;
                    }
            }
    check(n_exact >= 0.99 * n_products, "exact products of bytes", n_exact, n_products);
}

}  // namespace

int main() {
    check_gates<float>();
    check_gates<double>();
    check_halves<bfloat16>(8);
    check_halves<float16>(5);
    check_parts();
    check_products<PlainDot<float>, float>();
    check_products<PairDot, bfloat16>();
    check_bytes();
    std::printf("vectors of %d bytes: %d wrong\n", kVectorBytes, failures);
    return failures != 0;
}
