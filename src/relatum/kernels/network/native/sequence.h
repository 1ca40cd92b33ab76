// A layer of the sequence encoder: attention that the table guides, and a feed-forward network.
#pragma once

#include <vector>

#include "dense.h"
#include "memory.h"
#include "rows.h"
#include "split.h"
#include "team.h"

// What the caller asks for; `SequenceJob` in sequence.py has the same fields.
extern "C" struct SequenceJob {
    const float* sequence;  // (sentences, words, width)
    const void* table;      // (sentences, words, words, table width), of `dtype`: 0 is float32, 1 bfloat16
    const int32_t* lengths;
    const float* guide;  // (table width) by (heads), packed as a layer is
    relatum::Dense value, output, inner, outer;
    relatum::Norm attention_norm, norm;
    float* result;     // (sentences, words, width)
    float* attention;  // (sentences, heads, words, words); null where it is not wanted
    int32_t dtype, n_sentences, n_words, width, table_width, n_heads, activates, n_threads;
    int32_t splits;  // the weights of the layers, but for the guide, were packed for `SplitRows`
};

namespace relatum {

template <class S, class Rows = PlainRows>
class SequenceLayer {
   public:
    explicit SequenceLayer(const SequenceJob& job) : job_(job), width_(job.width) {
        for (int s = 0; s < job.n_sentences; ++s) {
            for (int i = 0; i < job.lengths[s]; ++i) words_.push_back({s, i});
            longest_ = std::max(longest_, job.lengths[s]);
        }
    }

    // Whether there was memory for it. Each thread has some of the words, and asks the others for nothing but values.
    bool run() {
        const int n_rows = words_.size(), lanes = kLanes<float>;
        if (!n_rows) return true;
        const int n_threads = std::max(1, std::min(job_.n_threads, n_rows / 4));
        Memory& memory = Memory::own();
        memory.begin();
        const size_t row_bytes = width_ * sizeof(float);
        const int of_words = memory.ask(n_rows * row_bytes), of_values = memory.ask(n_rows * row_bytes);
        std::vector<int> places;
        for (int thread = 0; thread < n_threads; ++thread) {
            places.push_back(memory.ask(most_rows * row_bytes));
            places.push_back(memory.ask(most_rows * row_bytes));
            places.push_back(memory.ask(size_t(most_rows) * job_.inner.width * sizeof(float)));
            places.push_back(memory.ask(size_t(longest_) * (job_.n_heads + lanes) * sizeof(float)));
            places.push_back(memory.ask(size_t(longest_) * job_.table_width * sizeof(float)));
            places.push_back(memory.ask(size_t(longest_) * job_.n_heads * sizeof(float)));
            places.push_back(memory.ask(Rows::bytes(most_rows, std::max(width_, job_.inner.width))));
        }
        if (!memory.take()) return false;
        sequence_ = memory.part<float>(of_words), values_ = memory.part<float>(of_values);
        Barrier barrier;
        in_parallel(n_threads, [&](int thread, int n_present) {
            const Team team{thread, n_present, &barrier};
            const int begin = team.begin(n_rows), end = team.end(n_rows);
            for (int row = begin; row < end; ++row)
                std::memcpy(sequence_ + int64_t(row) * width_, job_.sequence + place(row), row_bytes);
            const int* own = places.data() + 7 * thread;
            auto part = [&](int number) { return memory.part<float>(own[number]); };
            const Buffers buffers{part(0), part(1), part(2), part(3), part(4), part(5), part(6)};
            auto in_chunks = [&](auto&& work) {
                const int count = end - begin, n_chunks = (count + most_rows - 1) / most_rows;
                for (int chunk = 0; chunk < n_chunks; ++chunk)
                    work(begin + count * chunk / n_chunks, begin + count * (chunk + 1) / n_chunks);
            };
            in_chunks([&](int first, int last) {
                multiply_rows<Rows>(sequence_ + int64_t(first) * width_, last - first, job_.value,
                                    {job_.value.bias, values_ + int64_t(first) * width_, width_}, buffers.parts);
            });
            team.meet();
            in_chunks([&](int first, int last) { visit(first, last, buffers); });
        });
        return true;
    }

   private:
    static constexpr int most_rows = 96;
    using Guide = Panels<PlainDot<float>>;
    struct Word {
        int sentence, word;
    };
    struct Buffers {
        float *read, *middle, *inner, *scores, *cells, *weights, *parts;
    };
    const SequenceJob& job_;
    const int width_;
    int longest_ = 0;
    std::vector<Word> words_;
    float *sequence_ = nullptr, *values_ = nullptr;

    // Where a word's vector is among those of padded sentences.
    int64_t place(int row) const {
        return (int64_t(words_[row].sentence) * job_.n_words + words_[row].word) * width_;
    }

    void visit(int begin, int end, const Buffers& own) const {
        const int n = end - begin;
        for (int row = begin; row < end; ++row) attend(row, own, own.read + int64_t(row - begin) * width_);
        multiply_rows<Rows>(own.read, n, job_.output,
                            {job_.output.bias, own.middle, width_, job_.activates ? kRelu : kNothing,
                             sequence_ + int64_t(begin) * width_},
                            own.parts);
        for (int64_t row = 0; row < n; ++row)
            job_.attention_norm.apply(own.middle + row * width_, own.middle + row * width_, width_);
        multiply_rows<Rows>(own.middle, n, job_.inner, {job_.inner.bias, own.inner, job_.inner.width, kRelu},
                            own.parts);
        multiply_rows<Rows>(own.inner, n, job_.outer, {job_.outer.bias, own.read, width_, kNothing, own.middle},
                            own.parts);
        for (int row = begin; row < end; ++row)
            job_.norm.apply(own.read + int64_t(row - begin) * width_, job_.result + place(row), width_);
    }

    // What a word reads of all words of its sentence.
    void attend(int row, const Buffers& own, float* read) const {
        constexpr int lanes = kLanes<float>;
        const int sentence = words_[row].sentence, word = words_[row].word, n = job_.lengths[sentence];
        const int n_heads = job_.n_heads, head_width = width_ / n_heads, score_width = Guide::sum_width(n_heads);
        const S* table = static_cast<const S*>(job_.table) +
                         (int64_t(sentence) * job_.n_words + word) * job_.n_words * job_.table_width;
        const float* cells = widened(table, int64_t(n) * job_.table_width, own.cells);
        Guide::multiply(cells, job_.table_width, n, job_.guide, job_.table_width, n_heads, own.scores, score_width,
                        false);
        const float* values = values_ + (int64_t(row) - word) * width_;
        for (int head = 0; head < n_heads; ++head) {
            float* weights = own.weights + head * n;
            for (int j = 0; j < n; ++j) weights[j] = own.scores[j * score_width + head];
            softmax(weights, n, 1);
            if (job_.attention) {
                const int64_t at = (int64_t(sentence) * n_heads + head) * job_.n_words + word;
                std::memcpy(job_.attention + at * job_.n_words, weights, n * sizeof(float));
            }
            for (int i = 0; i < head_width; i += lanes) {
                Vec<float> even{}, odd{};  // two sums, for one would wait for itself at every word
                const float* from = values + head * head_width + i;
                const int count = head_width - i;
                int j = 0;
                for (; j + 2 <= n; j += 2, from += 2 * width_) {
                    even = multiply_add(spread(weights[j]), load(from, count), even);
                    odd = multiply_add(spread(weights[j + 1]), load(from + width_, count), odd);
                }
                if (j < n) even = multiply_add(spread(weights[j]), load(from, count), even);
                store(read + head * head_width + i, even + odd, count);
            }
        }
    }
};

// Zero, one where there was no memory for it, or two where products cannot be split.
template <class S>
int run_sequence(const SequenceJob& job) {
    if (!job.splits) return !SequenceLayer<S>(job).run();
#if defined(RELATUM_TILES)
    return !SequenceLayer<S, SplitRows>(job).run();
#else
    return 2;
#endif
}

}  // namespace relatum
