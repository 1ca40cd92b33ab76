// A BERT from its pieces to the vectors of words and the attention between them, in one call.
//
// The pieces of a few sentences lie one after the other as rows, without padding, and these go through all layers
// before others do, so that what is between the layers stays in the cache. Threads take groups of sentences; where
// there are fewer groups than threads, they divide the columns of every product among themselves.

#include <algorithm>
#include <cmath>
#include <vector>

#include "bytes.h"
#include "dense.h"
#include "memory.h"
#include "rows.h"
#include "split.h"
#include "team.h"

// What the caller asks for; the structures in cpu.py have the same fields.
extern "C" {
struct EncoderLayer {
    relatum::Dense projection, output, inner, outer;
    relatum::Norm attention_norm, norm;
};
struct EncoderJob {
    const void* pieces;      // (vocabulary, width), of `dtype`: 0 is float32, 1 bfloat16, 2 float16
    const float* positions;  // (positions, width), with what is added to every piece
    relatum::Norm norm;
    const EncoderLayer* layers;
    const int32_t* rows;      // of all sentences: the piece
    const int32_t* starts;    // (sentences + 1): where a sentence begins in `rows`
    const int32_t* words;     // of all sentences: where a word begins in its sentence, and at last where the last ends
    const int32_t* n_words;   // of the sentences
    float* vectors;           // (sentences, most words, mixed · width), zero where there is no word; so are the maps
    float* maps;              // (sentences, most words, most words, layers · heads); null where not wanted
    int32_t dtype, n_sentences, most_words, width, inner_width, n_layers, n_heads;
    int32_t n_kept;           // the last layers, whose mean is wanted; or 0 for all states side by side
    int32_t first_piece;      // the vector of a word is that of its first piece, not the mean
    int32_t mean_attention;   // what the pieces of a word attend to is averaged, not added up
    int32_t products, n_threads, max_rows, n_pieces, n_positions;  // products: see `Products`
};
}

namespace relatum {
namespace {

using Engine = Panels<PlainDot<float>>;

// How rows are multiplied with weights: see dense.h, split.h and bytes.h.
enum Products : int32_t { kPlain, kSplit, kBytes };

bool are_known(const EncoderJob& job) {
    for (int s = 0; s < job.n_sentences; ++s)
        if (job.starts[s + 1] - job.starts[s] > job.n_positions) return false;
    return std::all_of(job.rows + job.starts[0], job.rows + job.starts[job.n_sentences],
                       [&](int32_t piece) { return 0 <= piece && piece < job.n_pieces; });
}

// Sentences whose rows lie one after the other, and where each begins.
struct Group {
    std::vector<int> sentences, starts;
    int n_rows = 0, longest = 0;
};

// Buffers of a team.
struct Buffers {
    float *hidden, *between, *projected, *read, *inner, *kept;
    char* parts;
};

// Buffers of a thread: for the attention of one head, and for the maps of all heads of a layer.
struct Scratch {
    float *scores, *packed, *attended, *sums, *maps;
    int64_t* columns;
};

template <class Rows>
class Encoder {
   public:
    explicit Encoder(const EncoderJob& job) : job_(job), width_(job.width), head_width_(job.width / job.n_heads) {
        const int32_t* words = job.words;
        for (int s = 0; s < job.n_sentences; ++s) words_.push_back(words), words += job.n_words[s] + 1;
    }

    // Whether there was memory for it.
    bool run() {
        for (int s = 0; s < job_.n_sentences; ++s)
            if (!n_pieces(s)) clear_beyond(s, {});  // those with pieces are cleared by whoever reads them
        divide();
        const int n_groups = groups_.size();
        if (!n_groups) return true;
        const int n_threads = std::min(job_.n_threads, n_groups * most_members);
        if (!prepare(n_threads)) return false;
        std::vector<Barrier> barriers(n_threads);
        share_out(n_groups, n_threads, [&](int group, int team, int member, int members) {
            visit(groups_[group], buffers_[team], scratch_[members > 1 ? team * members + member : team],
                  {member, members, &barriers[team]});
        });
        return true;
    }

   private:
    static constexpr int most_members = 64;

    const EncoderJob& job_;
    const int width_, head_width_;
    std::vector<const int32_t*> words_;
    std::vector<Group> groups_;
    std::vector<Buffers> buffers_;
    std::vector<Scratch> scratch_;

    int n_pieces(int sentence) const { return job_.starts[sentence + 1] - job_.starts[sentence]; }

    // Groups of about the same size, as many as give all threads the same work: each sentence, the longest first, goes
    // to the group that has the fewest rows.
    void divide() {
        const int n_rows = job_.starts[job_.n_sentences] - job_.starts[0];
        const int of_all = job_.max_rows * job_.n_threads;  // rows of as many groups as there are threads
        const int wanted = n_rows <= job_.max_rows ? 1 : std::max(1, (n_rows + of_all / 2) / of_all) * job_.n_threads;
        std::vector<int> order;
        for (int s = 0; s < job_.n_sentences; ++s)
            if (n_pieces(s)) order.push_back(s);
        std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return n_pieces(a) > n_pieces(b); });
        groups_.resize(std::min<int>(wanted, order.size()));
        auto is_smaller = [](const Group& a, const Group& b) { return a.n_rows < b.n_rows; };
        for (int s : order) {
            Group& group = *std::min_element(groups_.begin(), groups_.end(), is_smaller);
            group.sentences.push_back(s), group.starts.push_back(group.n_rows);
            group.n_rows += n_pieces(s), group.longest = std::max(group.longest, n_pieces(s));
        }
        std::stable_sort(groups_.begin(), groups_.end(),
                         [&](const Group& a, const Group& b) { return is_smaller(b, a); });
    }

    bool prepare(int n_threads) {
        int64_t rows = 0, longest = 0;
        for (const Group& group : groups_) {
            rows = std::max<int64_t>(rows, group.n_rows);
            longest = std::max<int64_t>(longest, group.longest);
        }
        const int64_t lanes = kLanes<float>, columns = longest + lanes, depth = std::max(width_, job_.inner_width);
        Memory& memory = Memory::own();
        memory.begin();
        std::vector<int> places;
        auto ask = [&](size_t count) { places.push_back(memory.ask(count * sizeof(float))); };
        for (int team = 0; team < n_threads; ++team) {  // as many as there may be; what nobody uses is never touched
            for (const int64_t wide : {width_, width_, 3 * width_, width_, job_.inner_width, width_}) ask(rows * wide);
            ask((Rows::bytes(rows, depth) + sizeof(float) - 1) / sizeof(float));
        }
        for (int thread = 0; thread < n_threads; ++thread) {
            ask(longest * columns);
            ask(std::max(Engine::packed_bytes(head_width_, longest), Engine::packed_bytes(longest, head_width_)) /
                sizeof(float));
            ask(longest * (head_width_ + lanes));
            ask(columns);
            ask(job_.maps ? longest * longest * job_.n_heads : 0);
            ask(2 * std::max<int64_t>(longest, head_width_));
        }
        if (!memory.take()) return false;
        int next = 0;
        auto part = [&] { return memory.part<float>(places[next++]); };
        for (int team = 0; team < n_threads; ++team) {
            Buffers one{};
            one.hidden = part(), one.between = part(), one.projected = part(), one.read = part(), one.inner = part();
            one.kept = part(), one.parts = memory.part<char>(places[next++]);
            buffers_.push_back(one);
        }
        for (int thread = 0; thread < n_threads; ++thread) {
            Scratch one{};
            one.scores = part(), one.packed = part(), one.attended = part(), one.sums = part();
            one.maps = part();
            one.columns = memory.part<int64_t>(places[next++]);
            scratch_.push_back(one);
        }
        return true;
    }

    void visit(const Group& group, const Buffers& own, const Scratch& scratch, const Team& team) const {
        const int begin = team.begin(group.n_rows), end = team.end(group.n_rows);
        for (int sentence : group.sentences) clear_beyond(sentence, team);
        embed(group, own, begin, end);
        keep(group, own, team, 0);
        for (int number = 0; number < job_.n_layers; ++number) {
            const EncoderLayer& layer = job_.layers[number];
            multiply(group, own, team, own.hidden, layer.projection,
                     {layer.projection.bias, own.projected, 3 * width_});
            team.meet();
            const int n_sentences = group.sentences.size(), n_heads = job_.n_heads * n_sentences;
            for (int i = 0; i < n_sentences; ++i) {
                const int before = i * job_.n_heads, most = job_.n_heads;
                attend(group, own, scratch, i, std::clamp(team.begin(n_heads) - before, 0, most),
                       std::clamp(team.end(n_heads) - before, 0, most), number);
            }
            team.meet();
            multiply(group, own, team, own.read, layer.output,
                     {layer.output.bias, own.between, width_, kNothing, own.hidden});
            team.meet();
            normalise(layer.attention_norm, own, begin, end);
            multiply(group, own, team, own.hidden, layer.inner,
                     {layer.inner.bias, own.inner, job_.inner_width, kGelu});
            team.meet();
            multiply(group, own, team, own.inner, layer.outer,
                     {layer.outer.bias, own.between, width_, kNothing, own.hidden});
            team.meet();
            normalise(layer.norm, own, begin, end);
            keep(group, own, team, number + 1);
        }
        if (job_.n_kept) {
            team.meet();
            pool(group, team, own.kept, width_, 0);
            team.meet();
        }
    }

    // The rows must have been written by this member, or by all before they met.
    void multiply(const Group& group, const Buffers& own, const Team& team, const float* values, const Dense& layer,
                  const Result& result) const {
        Rows rows(own.parts, group.n_rows, layer.depth);
        rows.read(values, team.begin(group.n_rows), team.end(group.n_rows));
        team.meet();
        const int n_strips = (layer.width + Rows::strip - 1) / Rows::strip;
        rows.multiply(layer.weights, team.begin(n_strips), team.end(n_strips), result);
    }

    void normalise(const Norm& norm, const Buffers& own, int begin, int end) const {
        for (int64_t row = begin; row < end; ++row)
            norm.apply(own.between + row * width_, own.hidden + row * width_, width_);
    }

    // Sets to zero what is there for words that a sentence does not have.
    void clear_beyond(int sentence, const Team& team) const {
        const int64_t n_words = job_.n_words[sentence], most = job_.most_words;
        const int64_t wide = int64_t(job_.n_kept ? 1 : job_.n_layers + 1) * width_;
        const int64_t n_maps = int64_t(job_.n_layers) * job_.n_heads;
        if (n_words == most) return;
        if (!team.member)
            std::fill_n(job_.vectors + (sentence * most + n_words) * wide, (most - n_words) * wide, 0.0f);
        if (!job_.maps) return;
        for (int64_t word = team.begin(most); word < team.end(most); ++word) {
            const int64_t first = word < n_words ? n_words : 0;
            std::fill_n(job_.maps + ((sentence * most + word) * most + first) * n_maps, (most - first) * n_maps, 0.0f);
        }
    }

    void embed(const Group& group, const Buffers& own, int begin, int end) const {
        if (job_.dtype == 1) return embed(static_cast<const bfloat16*>(job_.pieces), group, own, begin, end);
        if (job_.dtype == 2) return embed(static_cast<const float16*>(job_.pieces), group, own, begin, end);
        embed(static_cast<const float*>(job_.pieces), group, own, begin, end);
    }

    template <class S>
    void embed(const S* pieces, const Group& group, const Buffers& own, int begin, int end) const {
        size_t i = 0;
        for (int row = begin; row < end; ++row) {
            while (i + 1 < group.starts.size() && row >= group.starts[i + 1]) ++i;
            const int place = row - group.starts[i];
            const S* piece = pieces + int64_t(job_.rows[job_.starts[group.sentences[i]] + place]) * width_;
            const float* position = job_.positions + int64_t(place) * width_;
            float* to = own.hidden + int64_t(row) * width_;
            for (int at = 0; at < width_; at += kLanes<float>)
                store(to + at, load(piece + at, width_ - at) + load(position + at, width_ - at), width_ - at);
            job_.norm.apply(to, to, width_);
        }
    }

    // Takes down what a layer says, or the embeddings: rows that this member has written.
    void keep(const Group& group, const Buffers& own, const Team& team, int state) const {
        if (!job_.n_kept) {
            team.meet();
            return pool(group, team, own.hidden, (job_.n_layers + 1) * width_, state * width_);
        }
        const int place = state - (job_.n_layers + 1 - job_.n_kept);
        if (place < 0) return;
        const int64_t begin = int64_t(team.begin(group.n_rows)) * width_;
        const int64_t end = int64_t(team.end(group.n_rows)) * width_;
        for (int64_t i = begin; i < end; i += kLanes<float>) {
            Vec<float> sum = load(own.hidden + i, end - i);
            if (place > 0) sum += load(own.kept + i, end - i);
            if (state == job_.n_layers) sum /= float(job_.n_kept);
            store(own.kept + i, sum, end - i);
        }
    }

    // Vectors of words from those of their pieces, to a part of a wider row.
    void pool(const Group& group, const Team& team, const float* values, int total_width, int offset) const {
        for (size_t i = 0; i < group.sentences.size(); ++i) {
            const int s = group.sentences[i];
            for (int word = team.begin(job_.n_words[s]); word < team.end(job_.n_words[s]); ++word) {
                const int begin = words_[s][word], end = job_.first_piece ? begin + 1 : words_[s][word + 1];
                const float share = 1.0f / (end - begin);
                const float* from = values + int64_t(group.starts[i] + begin) * width_;
                float* to = job_.vectors + (int64_t(s) * job_.most_words + word) * total_width + offset;
                for (int at = 0; at < width_; at += kLanes<float>) {
                    Vec<float> sum = load(from + at, width_ - at);
                    for (int piece = 1; piece < end - begin; ++piece)
                        sum += load(from + piece * width_ + at, width_ - at);
                    store(to + at, sum * share, width_ - at);
                }
            }
        }
    }

    // Some heads of one sentence.
    void attend(const Group& group, const Buffers& own, const Scratch& scratch, int i, int first_head, int last_head,
                int layer) const {
        const int sentence = group.sentences[i];
        for (int head = first_head; head < last_head; ++head) {
            const int row_width = attend_with(own, scratch, group.starts[i], n_pieces(sentence), head);
            if (job_.maps) pool_attention(scratch, sentence, head - first_head, row_width);
        }
        if (job_.maps && first_head < last_head)
            write_maps(scratch, sentence, layer * job_.n_heads + first_head, last_head - first_head);
    }

    // Leaves scores in rows of the width that it returns.
    int attend_with(const Buffers& own, const Scratch& scratch, int64_t first, int n, int head) const {
        const int wide = 3 * width_, row_width = Engine::sum_width(n);
        const float* query = own.projected + first * wide + head * head_width_;
        const float *key = query + width_, *value = query + 2 * width_;
        for (int i = 0; i < n; ++i) scratch.columns[i] = int64_t(i) * wide;
        Engine::pack(key, 1, scratch.columns, head_width_, n, scratch.packed);
        Engine::multiply(query, wide, n, scratch.packed, head_width_, n, scratch.scores, row_width, false);
        const float scale = 1 / std::sqrt(float(head_width_));
        for (int64_t i = 0; i < n; ++i) softmax(scratch.scores + i * row_width, n, scale);
        for (int i = 0; i < head_width_; ++i) scratch.columns[i] = i;
        Engine::pack(value, wide, scratch.columns, n, head_width_, scratch.packed);
        const int attended_width = Engine::sum_width(head_width_);
        Engine::multiply(scratch.scores, row_width, n, scratch.packed, n, head_width_, scratch.attended,
                         attended_width, false);
        for (int64_t i = 0; i < n; ++i)
            std::memcpy(own.read + (first + i) * width_ + head * head_width_, scratch.attended + i * attended_width,
                        head_width_ * sizeof(float));
        return row_width;
    }

    // How much words attend to words, from the scores of their pieces.
    void pool_attention(const Scratch& scratch, int sentence, int map, int row_width) const {
        const int n_words = job_.n_words[sentence];
        const int32_t* words = words_[sentence];
        float* to = scratch.maps + int64_t(map) * n_words * n_words;
        for (int word = 0; word < n_words; ++word, to += n_words) {
            const int begin = words[word], end = words[word + 1], last = words[n_words];
            const float* from = scratch.scores + int64_t(begin) * row_width;
            if (end - begin > 1) {  // all its pieces together
                const float share = job_.mean_attention ? 1.0f / (end - begin) : 1;
                for (int i = 0; i < last; ++i) {
                    float sum = from[i];
                    for (int piece = 1; piece < end - begin; ++piece) sum += from[int64_t(piece) * row_width + i];
                    scratch.sums[i] = sum * share;
                }
                from = scratch.sums;
            }
            for (int other = 0; other < n_words; ++other) {
                float sum = from[words[other]];
                for (int i = words[other] + 1; i < words[other + 1]; ++i) sum += from[i];
                to[other] = sum;
            }
        }
    }

    // Puts a cell's values side by side. Written one map at a time, each value would be in another line of the cache.
    void write_maps(const Scratch& scratch, int sentence, int first, int count) const {
        const int n_words = job_.n_words[sentence];
        const int64_t n_maps = int64_t(job_.n_layers) * job_.n_heads, n_cells = int64_t(n_words) * n_words;
        float* to = job_.maps + int64_t(sentence) * job_.most_words * job_.most_words * n_maps + first;
        const float* from = scratch.maps;
        for (int word = 0; word < n_words; ++word, to += (job_.most_words - n_words) * n_maps)
            for (int other = 0; other < n_words; ++other, ++from, to += n_maps)
                for (int map = 0; map < count; ++map) to[map] = from[map * n_cells];
    }
};

}  // namespace
}  // namespace relatum

extern "C" {
RELATUM_EXPORT void relatum_use_threads(void* parallel, void* count, void* index) {
    relatum::threads = {reinterpret_cast<decltype(relatum::Threads::parallel)>(parallel),
                        reinterpret_cast<int (*)()>(count), reinterpret_cast<int (*)()>(index)};
}
// Packs weights, (width, depth), into as many bytes as the next function says; weights to be split are packed elsewhere.
RELATUM_EXPORT void relatum_encoder_pack(const float* weights, int depth, int width, int products, void* packed) {
    if (products == relatum::kBytes) return relatum::ByteRows::pack(weights, depth, width, packed);
    relatum::PlainRows::pack(weights, depth, width, static_cast<float*>(packed));
}
RELATUM_EXPORT int64_t relatum_encoder_packed_bytes(int depth, int width, int products) {
#if defined(RELATUM_TILES)
    if (products == relatum::kSplit) return relatum::SplitRows::packed_bytes(depth, width);
#endif
    if (products == relatum::kBytes) return relatum::ByteRows::packed_bytes(depth, width);
    return products == relatum::kPlain ? relatum::PlainRows::packed_bytes(depth, width) : 0;
}
// Asks for large pages of memory that nobody has written to: all weights are read for every sentence, which from small
// pages takes longer. The system may do as it likes.
RELATUM_EXPORT void relatum_encoder_advise(void* start, int64_t n_bytes) {
    constexpr uintptr_t page = 4096;
    const uintptr_t begin = (reinterpret_cast<uintptr_t>(start) + page - 1) / page * page;
    const uintptr_t end = (reinterpret_cast<uintptr_t>(start) + n_bytes) / page * page;
    if (end > begin) relatum::ask_for_large_pages(reinterpret_cast<void*>(begin), end - begin);
}
// Zero; one where there is no memory; two where products cannot be split; three where a piece or a position is beyond
// those that there are.
RELATUM_EXPORT int relatum_encoder(const EncoderJob* job) {
    if (!relatum::are_known(*job)) return 3;
    if (job->products == relatum::kPlain) return !relatum::Encoder<relatum::PlainRows>(*job).run();
    if (job->products == relatum::kBytes) return !relatum::Encoder<relatum::ByteRows>(*job).run();
#if defined(RELATUM_TILES)
    if (relatum::tiles_allowed()) return !relatum::Encoder<relatum::SplitRows>(*job).run();
#endif
    return 2;
}
}
