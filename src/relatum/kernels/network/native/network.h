// A whole network but for the characters of words: S_0 from the vectors of words, the layers, and the scores of tags.
#pragma once

#include <vector>

#include "dense.h"
#include "job.h"
#include "memory.h"
#include "pairing.h"
#include "rows.h"
#include "sequence.h"
#include "team.h"

// What the caller asks for; the structures in whole.py have the same fields.
extern "C" {
// A table-sequence layer, but for what depends on the batch. The scan is that of md_gru/native/scan.cpp.
struct NetworkLayer {
    const PairingJob* pairing;
    const Job* scan;
    const SequenceJob* sequence;
};
struct NetworkPart {
    const float* values;  // (rows, width)
    const int64_t* rows;  // (sentences, words): which of them is a word's; null where they are the words one by one
    int32_t n_rows, width;
};
struct NetworkJob {
    NetworkPart parts[3];  // what is known of words, side by side; of width 0 where there is none
    const float* maps;      // (sentences, words, words, maps)
    const int32_t* lengths;
    relatum::Dense projection, entity_scorer, relation_scorer;  // the last without weights where there is none
    const NetworkLayer* layers;
    int (*scan)(const void*);
    // Room for what is between the steps. Of a sequence, a table and the weights of attention there are `n_kept`, and
    // those of a layer take the place of the oldest; without attention its weights are not kept.
    float* initial;
    void* pairs;
    float* sequences;
    void* tables;
    float* attention;
    float* entity_logits;    // (sentences, words, entity tags)
    float* relation_logits;  // (sentences, words, words, relation tags)
    int32_t n_layers, n_rounds, n_kept, reads_sequence, on_diagonal, n_sentences, n_words, n_threads;
};
}

namespace relatum {

template <class S>
class Network {
   public:
    explicit Network(const NetworkJob& job) : job_(job) {
        for (int s = 0; s < job.n_sentences; ++s) {
            for (int i = 0; i < job.lengths[s]; ++i) words_.push_back({s, i});
            tables_.insert(tables_.end(), {s * job.n_words * job.n_words, job.n_words, job.lengths[s]});
        }
    }

    // Zero, one where there was no memory for it, or two where the parts are not what they should be.
    int run() {
        if (words_.empty()) return 0;
        if (!are_known()) return 2;
        if (!embed()) return 1;
        const int n_steps = job_.n_layers * job_.n_rounds;
        for (int step = 0; step < n_steps; ++step)
            if (const int failure = visit(step)) return failure;
        return score(n_steps - 1) ? 0 : 1;
    }

   private:
    struct Word {
        int sentence, word;
    };
    const NetworkJob& job_;
    std::vector<Word> words_;
    std::vector<int32_t> tables_;  // (sentences, 3): see `Scanner` in md_gru/fused.py

    // Which word it is among those of padded sentences.
    int64_t place(int row) const { return int64_t(words_[row].sentence) * job_.n_words + words_[row].word; }
    int64_t n_places() const { return int64_t(job_.n_sentences) * job_.n_words; }
    int table_width() const { return job_.layers->pairing->table_width; }

    float* sequence_after(int step) const {
        return step < 0 ? job_.initial : job_.sequences + step % job_.n_kept * n_places() * job_.projection.width;
    }
    S* table_after(int step) const {
        return static_cast<S*>(job_.tables) + step % job_.n_kept * n_places() * job_.n_words * table_width();
    }
    float* attention_of(int step) const {
        const int64_t size = n_places() * job_.n_words * job_.layers->sequence->n_heads;
        return job_.attention ? job_.attention + step % job_.n_kept * size : nullptr;
    }

    // Calls gather(row, to) for every word, multiplies, and puts the results where the words are.
    template <class Gather>
    void multiply_words(int begin, int end, const Dense& layer, float* rows, float* sums, float* results,
                        const Gather& gather) const {
        for (int64_t row = begin; row < end; ++row) gather(row, rows + (row - begin) * layer.depth);
        multiply_rows(rows, end - begin, layer, {layer.bias, sums, layer.width});
        for (int64_t row = begin; row < end; ++row)
            std::memcpy(results + place(row) * layer.width, sums + (row - begin) * layer.width,
                        layer.width * sizeof(float));
    }

    // Calls work(begin, end, parts) with a share of the words and so many parts of memory, of so many values each.
    template <class Work>
    bool share_words(std::initializer_list<int64_t> of_word, int64_t of_thread, const Work& work) const {
        const int n_rows = words_.size(), n_threads = std::max(1, std::min(job_.n_threads, n_rows / 4));
        Memory& memory = Memory::own();
        memory.begin();
        std::vector<int> whole, own;
        for (const int64_t size : of_word) whole.push_back(memory.ask(n_rows * size * sizeof(float)));
        for (int thread = 0; thread < n_threads; ++thread) own.push_back(memory.ask(of_thread * sizeof(float)));
        if (!memory.take()) return false;
        in_parallel(n_threads, [&](int thread, int n_present) {
            const Team team{thread, n_present, nullptr};
            const int begin = team.begin(n_rows), end = team.end(n_rows);
            float* parts[2] = {};
            int next = 0;
            for (const int64_t size : of_word) parts[next] = memory.part<float>(whole[next]) + begin * size, ++next;
            work(begin, end, parts[0], parts[1], memory.part<float>(own[thread]));
        });
        return true;
    }

    // Whether the parts are as wide as what reads them, and have the rows that are asked for.
    bool are_known() const {
        int width = 0;
        for (const NetworkPart& part : job_.parts) width += part.width;
        if (width != job_.projection.depth) return false;
        for (const NetworkPart& part : job_.parts)
            for (int row = 0; row < int(words_.size()); ++row)
                if (part.width && (row_of(part, row) < 0 || row_of(part, row) >= part.n_rows)) return false;
        return true;
    }

    int64_t row_of(const NetworkPart& part, int row) const { return part.rows ? part.rows[place(row)] : place(row); }

    bool embed() const {
        const Dense& layer = job_.projection;
        auto gather = [&](int row, float* to) {
            for (const NetworkPart& part : job_.parts) {
                if (!part.width) continue;
                std::memcpy(to, part.values + row_of(part, row) * part.width, part.width * sizeof(float));
                to += part.width;
            }
        };
        return share_words({layer.depth, layer.width}, 0, [&](int begin, int end, float* rows, float* sums, float*) {
            multiply_words(begin, end, layer, rows, sums, job_.initial, gather);
        });
    }

    int visit(int step) const {
        const NetworkLayer& layer = job_.layers[step % job_.n_layers];
        const float* before = sequence_after(step - 1);
        S* table = table_after(step);
        PairingJob pairing = *layer.pairing;
        pairing.sequence = job_.reads_sequence ? before : job_.initial;
        pairing.lengths = job_.lengths, pairing.maps = job_.maps, pairing.wide_maps = 1, pairing.table = job_.pairs;
        pairing.n_sentences = job_.n_sentences, pairing.n_words = job_.n_words, pairing.n_threads = job_.n_threads;
        if (!Pairing<S>(pairing).run()) return 1;
        Job scan = *layer.scan;
        scan.inputs = job_.pairs, scan.states = table, scan.tables = tables_.data();
        scan.n_sentences = job_.n_sentences, scan.n_threads = job_.n_threads;
        const bool reads_below = step && scan.below_weight;
        scan.below = reads_below ? table_after(step - 1) : nullptr;
        if (!reads_below) scan.below_weight = nullptr;
        if (job_.scan(&scan)) return 1;
        SequenceJob sequence = *layer.sequence;
        sequence.sequence = before, sequence.table = table, sequence.lengths = job_.lengths;
        sequence.result = sequence_after(step), sequence.attention = attention_of(step);
        sequence.n_sentences = job_.n_sentences, sequence.n_words = job_.n_words, sequence.n_threads = job_.n_threads;
        return run_sequence<S>(sequence);
    }

    // Of words, from the last sequence or from the diagonal of the last table; and of cells.
    bool score(int step) const {
        const Dense &of_words = job_.entity_scorer, &of_cells = job_.relation_scorer;
        const float* sequence = sequence_after(step);
        const S* table = table_after(step);
        const int64_t width = table_width(), row_size = job_.n_words * width;
        return share_words(
            {of_words.depth, of_words.width}, row_size,
            [&](int begin, int end, float* rows, float* sums, float* wide) {
                multiply_words(begin, end, of_words, rows, sums, job_.entity_logits, [&](int row, float* to) {
                    const float* from = sequence + place(row) * of_words.depth;
                    if (job_.on_diagonal)
                        from = widened(table + place(row) * row_size + words_[row].word * width, width, to);
                    if (from != to) std::memcpy(to, from, of_words.depth * sizeof(float));
                });
                if (!of_cells.weights) return;
                for (int row = begin; row < end; ++row) {
                    const int n = job_.lengths[words_[row].sentence];
                    float* logits = job_.relation_logits + place(row) * job_.n_words * of_cells.width;
                    multiply_rows(widened(table + place(row) * row_size, n * width, wide), n, of_cells,
                                  {of_cells.bias, logits, of_cells.width});
                }
            });
    }
};

}  // namespace relatum
