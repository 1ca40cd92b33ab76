// The table of word pairs that a table encoder starts from: ReLU(second · [ReLU(rows_i + columns_j); maps_ij] + bias).
#pragma once

#include <type_traits>
#include <vector>

#include "dense.h"
#include "memory.h"
#include "team.h"
#include "tiles.h"

// What the caller asks for; `PairingJob` in pairing.py has the same fields.
extern "C" struct PairingJob {
    const float* sequence;  // (sentences, words, width)
    const int32_t* lengths;
    const void* maps;       // (sentences, words, words, maps), of `dtype`: 0 is float32, 1 bfloat16; or float32
    relatum::Dense first;   // to rows and columns, side by side
    const void* second;     // packed by `relatum_pairing_pack`
    const float* second_bias;
    void* table;  // (sentences, words, words, table width), of `dtype`
    int32_t dtype, n_sentences, n_words, width, table_width, n_maps, n_threads;
    int32_t wide_maps;  // the maps are float32, whatever the table is
};

namespace relatum {

// The engine for tables of a type.
template <class S>
struct PairingEngine {
    using type = Panels<PlainDot<float>>;
};
template <>
struct PairingEngine<bfloat16> {
#if defined(RELATUM_TILES)
    using type = Tiles;
#else
    using type = Panels<PairDot>;
#endif
};

template <class S>
class Pairing {
   public:
    using Engine = typename PairingEngine<S>::type;
    using Left = typename Engine::Left;

    explicit Pairing(const PairingJob& job) : job_(job), depth_(job.table_width + job.n_maps) {
        for (int s = 0; s < job.n_sentences; ++s)
            for (int i = 0; i < job.lengths[s]; ++i) words_.push_back({s, i});
    }

    static size_t packed_bytes(int depth, int width) { return Engine::packed_bytes(depth, width); }
    // The weights are (width, depth).
    static void pack(const S* weights, int depth, int width, void* packed) {
        std::vector<int64_t> columns(width);
        for (int j = 0; j < width; ++j) columns[j] = int64_t(j) * depth;
        Engine::pack(weights, 1, columns.data(), depth, width, packed);
    }

    // Whether there was memory for it.
    bool run() {
        const int n_rows = words_.size(), wide = 2 * job_.table_width;
        if (!n_rows) return true;
        const int n_threads = std::max(1, std::min(job_.n_threads, n_rows / 4));
        const int left_width = Engine::left_width(depth_), sum_width = Engine::sum_width(job_.table_width);
        Memory& memory = Memory::own();
        memory.begin();
        const int of_words = memory.ask(size_t(n_rows) * job_.width * sizeof(float));
        const int of_parts = memory.ask(size_t(n_rows) * wide * sizeof(float));
        std::vector<int> left, sums;
        for (int thread = 0; thread < n_threads; ++thread) {
            left.push_back(memory.ask(size_t(most_rows + Engine::spare_rows) * left_width * sizeof(Left)));
            sums.push_back(memory.ask(size_t(most_rows + Engine::spare_rows) * sum_width * sizeof(float)));
        }
        if (!memory.take()) return false;
        for (int part : left) memory.clear(part);
        auto* sequence = memory.part<float>(of_words);
        auto* parts = memory.part<float>(of_parts);
        Barrier barrier;
        in_parallel(n_threads, [&](int thread, int n_present) {
            const Team team{thread, n_present, &barrier};
            const int begin = team.begin(n_rows), end = team.end(n_rows);
            for (int64_t row = begin; row < end; ++row)
                std::memcpy(sequence + row * job_.width, job_.sequence + place(row) * job_.width,
                            job_.width * sizeof(float));
            PlainRows rows(nullptr, end - begin, job_.width);
            rows.read(sequence + int64_t(begin) * job_.width, begin, end);
            rows.multiply(job_.first.weights, 0, (wide + PlainRows::strip - 1) / PlainRows::strip,
                          {job_.first.bias, parts + int64_t(begin) * wide, wide});
            team.meet();
            for (int row = begin; row < end; ++row)
                pair(row, parts, memory.part<Left>(left[thread]), left_width, memory.part<float>(sums[thread]),
                     sum_width);
        });
        return true;
    }

   private:
    static constexpr int most_rows = 48;
    struct Word {
        int sentence, word;
    };
    const PairingJob& job_;
    const int depth_;
    std::vector<Word> words_;

    // Which word it is among those of padded sentences.
    int64_t place(int row) const { return int64_t(words_[row].sentence) * job_.n_words + words_[row].word; }

    void add_maps(Left* to, int64_t from) const {
        if (!job_.wide_maps || std::is_same_v<S, float>) {
            std::memcpy(to, static_cast<const S*>(job_.maps) + from, job_.n_maps * sizeof(S));
            return;
        }
        const float* maps = static_cast<const float*>(job_.maps) + from;
        for (int i = 0; i < job_.n_maps; i += kLanes<float>)
            store(to + i, load(maps + i, job_.n_maps - i), job_.n_maps - i);
    }

    // All cells of the row of a word, some at a time.
    void pair(int row, const float* parts, Left* left, int left_width, float* sums, int sum_width) const {
        constexpr int lanes = kLanes<float>;
        const int sentence = words_[row].sentence, n = job_.lengths[sentence], width = job_.table_width;
        const int64_t cell = place(row) * job_.n_words;
        const float* own = parts + int64_t(row) * 2 * width;
        const float* others = parts + (int64_t(row) - words_[row].word) * 2 * width + width;
        S* table = static_cast<S*>(job_.table) + cell * width;
        const int n_blocks = (n + most_rows - 1) / most_rows;
        for (int block = 0; block < n_blocks; ++block) {
            const int begin = int64_t(n) * block / n_blocks, end = int64_t(n) * (block + 1) / n_blocks;
            for (int64_t j = begin; j < end; ++j) {
                Left* to = left + (j - begin) * left_width;
                for (int i = 0; i < width; i += lanes) {
                    const Vec<float> sum = load(own + i, width - i) + load(others + j * 2 * width + i, width - i);
                    store(to + i, larger<float>(sum, Vec<float>{}), width - i);
                }
                add_maps(to + width, (cell + j) * job_.n_maps);
            }
            Engine::multiply(left, left_width, end - begin, job_.second, depth_, width, sums, sum_width, false);
            for (int64_t j = begin; j < end; ++j)
                for (int i = 0; i < width; i += lanes) {
                    const Vec<float> bias = load(job_.second_bias + i, width - i);
                    const Vec<float> sum = load(sums + (j - begin) * sum_width + i, width - i) + bias;
                    store(table + j * width + i, larger<float>(sum, Vec<float>{}), width - i);
                }
        }
    }
};

}  // namespace relatum
