// A bidirectional LSTM over the characters of words, of which the last states are wanted.
#pragma once

#include <algorithm>
#include <vector>

#include "memory.h"
#include "simd.h"
#include "team.h"

// What the caller asks for; `_CharactersJob` in characters.py has the same fields. A gate has `padded` columns, a
// multiple of the lanes of any vector, of which the first `width` are real; gates are in the order i, f, g, o.
extern "C" struct CharactersJob {
    const int64_t* characters;  // of one word after the other
    const int64_t* lengths;     // of the words
    const float* projected;     // (2, characters, 4 · padded): what a character adds to the gates, biases and all
    const float* recurrent;     // (2, width, 4 · padded)
    float* vectors;             // (words, 2 · width)
    int32_t n_words, n_given, n_characters, width, padded, n_threads;  // n_given: characters of all words
};

namespace relatum {

class Characters {
   public:
    explicit Characters(const CharactersJob& job) : job_(job), starts_(job.n_words + 1) {
        for (int word = 0; word < job.n_words; ++word) starts_[word + 1] = starts_[word] + job.lengths[word];
    }

    // Whether the words have these characters, and all are among those that there are.
    bool are_known() const {
        return starts_.back() == job_.n_given &&
               std::all_of(job_.characters, job_.characters + job_.n_given,
                           [&](int64_t one) { return 0 <= one && one < job_.n_characters; });
    }

    // Whether there was memory for it.
    bool run() {
        const int n_words = job_.n_words;
        const int n_threads = std::max(1, std::min(job_.n_threads, n_words / 8));
        Memory& memory = Memory::own();
        memory.begin();
        std::vector<int> places;
        for (int thread = 0; thread < n_threads; ++thread)
            places.push_back(memory.ask(6 * job_.padded * sizeof(float)));
        if (!memory.take()) return false;
        in_parallel(n_threads, [&](int thread, int n_present) {
            float* gates = memory.part<float>(places[thread]);
            for (int word = thread; word < n_words; word += n_present)
                for (int direction = 0; direction < 2; ++direction) read(word, direction, gates);
        });
        return true;
    }

   private:
    const CharactersJob& job_;
    std::vector<int64_t> starts_;

    void read(int word, int direction, float* gates) const {
        constexpr int lanes = kLanes<float>;
        const int padded = job_.padded, wide = 4 * padded;
        float *hidden = gates + wide, *cell = hidden + padded;
        const float* recurrent = job_.recurrent + int64_t(direction) * job_.width * wide;
        const int64_t* characters = job_.characters + starts_[word];
        const int length = starts_[word + 1] - starts_[word];
        std::memset(hidden, 0, 2 * padded * sizeof(float));
        for (int step = 0; step < length; ++step) {
            const int64_t character = characters[direction ? length - 1 - step : step];
            const float* projected = job_.projected + (direction * int64_t(job_.n_characters) + character) * wide;
            for (int i = 0; i < wide; i += 4 * lanes) {
                Vec<float> sums[4];
                for (int v = 0; v < 4; ++v) sums[v] = load(projected + i + v * lanes, lanes);
                if (step)
                    for (int k = 0; k < job_.width; ++k) {
                        const Vec<float> state = spread(hidden[k]);
                        const float* row = recurrent + int64_t(k) * wide + i;
                        for (int v = 0; v < 4; ++v)
                            sums[v] = multiply_add(state, load(row + v * lanes, lanes), sums[v]);
                    }
                for (int v = 0; v < 4; ++v) store(gates + i + v * lanes, sums[v], lanes);
            }
            for (int i = 0; i < padded; i += lanes) {
                auto gate = [&](int number) { return load(gates + number * padded + i, lanes); };
                const Vec<float> kept = sigmoid<float>(gate(1)) * load(cell + i, lanes);
                const Vec<float> now = sigmoid<float>(gate(0)) * tanh<float>(gate(2)) + kept;
                store(cell + i, now, lanes);
                store(hidden + i, sigmoid<float>(gate(3)) * tanh<float>(now), lanes);
            }
        }
        std::memcpy(job_.vectors + (int64_t(word) * 2 + direction) * job_.width, hidden, job_.width * sizeof(float));
    }
};

}  // namespace relatum
