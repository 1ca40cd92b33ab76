// The order in which cells are visited: sentences, tasks, and the cells of an anti-diagonal.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace relatum {

struct Sentence {
    int64_t first, row;  // the first cell of its table, and the cells from one row of it to the next
    int n;

    int n_diagonals() const { return 2 * n - 1; }
    int begin(int diagonal) const { return std::max(0, diagonal - n + 1); }
    int end(int diagonal) const { return std::min(diagonal, n - 1) + 1; }
    // The cell in row i and column j as seen from a corner; −1 outside the table.
    int64_t cell(int i, int j, int corner) const {
        if (i < 0 || j < 0) return -1;
        return first + (corner & 1 ? n - 1 - i : i) * row + (corner & 2 ? n - 1 - j : j);
    }
};

// One direction of a few sentences, whose diagonals pass in step.
struct Task {
    int direction;
    const Sentence* begin;
    const Sentence* end;
    int n_rows, n_diagonals;
};

// A cell of a diagonal, its neighbours, and at which rows of the next diagonal the cells are that read it.
struct Row {
    int64_t cell, up, left;
    int read_as_up, read_as_left;
};

// Appends the rows of a diagonal.
inline void append_rows(const Task& task, int corner, int diagonal, std::vector<Row>& rows) {
    int after = 0;
    for (const Sentence* s = task.begin; s != task.end; ++s) {
        if (diagonal >= s->n_diagonals()) continue;
        const bool is_last = diagonal + 1 == s->n_diagonals();
        const int begin_after = s->begin(diagonal + 1), end_after = is_last ? begin_after : s->end(diagonal + 1);
        auto place = [&](int row) { return row >= begin_after && row < end_after ? after + row - begin_after : -1; };
        for (int i = s->begin(diagonal); i < s->end(diagonal); ++i) {
            const int j = diagonal - i;
            rows.push_back({s->cell(i, j, corner), s->cell(i - 1, j, corner), s->cell(i, j - 1, corner), place(i + 1),
                            place(i)});
        }
        after += end_after - begin_after;
    }
}

// All sentences that have words, the longest first; `tables` as the `Scanner` of fused.py has them.
inline std::vector<Sentence> sentences_of(const int32_t* tables, int n) {
    std::vector<Sentence> sentences;
    for (int s = 0; s < n; ++s)
        if (tables[3 * s + 2] > 0) sentences.push_back({tables[3 * s], tables[3 * s + 1], tables[3 * s + 2]});
    auto is_longer = [](const Sentence& a, const Sentence& b) { return a.n > b.n; };
    std::stable_sort(sentences.begin(), sentences.end(), is_longer);
    return sentences;
}

// Tasks, the largest first. Sentences share one while the diagonals of all have no more than `max_rows` cells, and
// while each of the threads gets a few tasks.
inline std::vector<Task> tasks_of(const std::vector<Sentence>& sentences, int n_directions, int n_threads,
                                  int max_rows) {
    std::vector<Task> tasks;
    const int n = sentences.size(), fair = std::max(1, n * n_directions / (4 * n_threads));
    for (int first = 0, last = 0; first < n; first = last) {
        int rows = 0;
        do rows += sentences[last++].n;
        while (last < n && last - first < fair && rows + sentences[last].n <= max_rows);
        for (int direction = 0; direction < n_directions; ++direction)
            tasks.push_back({direction, sentences.data() + first, sentences.data() + last, rows,
                             sentences[first].n_diagonals()});
    }
    return tasks;
}

}  // namespace relatum
