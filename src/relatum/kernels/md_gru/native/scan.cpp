// The scan over the anti-diagonals of tables, forward and backward; see the `Scanner` of fused.py for what goes in and
// what comes out.
//
// Where there are more threads than tasks, the hidden units of a task are divided into slices: a thread computes all
// gates of its own units, and waits for the others after every diagonal.

#include <type_traits>

#include "cells.h"
#include "job.h"
#include "memory.h"
#include "product.h"
#include "tasks.h"
#include "team.h"
#include "tiles.h"

namespace relatum {
namespace {

enum class Way { kForward, kBackward, kLayer };

template <class S, class Engine>
class Scan {
    using T = Compute<S>;
    using Left = typename Engine::Left;
    static constexpr bool same_left = std::is_same<Left, T>::value;

   public:
    Scan(const Job& job, Way way) : job_(job), way_(way), memory_(Memory::own()) {
        form_.width = job.width;
        form_.n_slots = job.n_slots;
        form_.n_lambdas = job.n_lambdas;
        std::copy(job.slots, job.slots + 3, form_.slots);
        form_.reads_up = job.reads_up;
        form_.reads_left = job.reads_left;
    }

    // Whether there was memory for it.
    bool run() {
        const std::vector<Sentence> sentences = sentences_of(job_.tables, job_.n_sentences);
        const std::vector<Task> tasks = tasks_of(sentences, job_.n_directions, job_.n_threads, job_.max_rows);
        if (tasks.empty()) return true;
        const int n_tasks = tasks.size();
        n_slices_ = std::max(1, std::min(job_.n_threads / n_tasks, n_vectors() / 2));
        const int n_threads = std::min(job_.n_threads, n_tasks * n_slices_);
        int most_rows = 0;
        for (const Task& task : tasks) most_rows = std::max(most_rows, task.n_rows);
        if (!prepare(most_rows, n_threads)) return false;
        pack(n_threads);
        std::vector<Barrier> barriers(n_threads);
        share_out(n_tasks, n_threads, [&](int task, int team, int member, int members) {
            auto wait = [&] { barriers[team].wait(members); };
            const Scratch& scratch = scratch_[team];
            switch (form_.n_lambdas) {
                case 0:
                    return visit<0>(tasks[task], scratch, member, members, wait);
                case 1:
                    return visit<1>(tasks[task], scratch, member, members, wait);
                default:
                    return visit<3>(tasks[task], scratch, member, members, wait);
            }
        });
        return true;
    }

   private:
    // Numbers of parts of memory. `left` are the left operands of the recurrent product: forward the neighbours'
    // states, of each member, backward the gradients of the gates, two diagonals in turn; `around` are the same states
    // as numbers to compute with, where the operand's are others. `sums` are what products yield, of each slice,
    // backward two diagonals in turn. Of a whole layer, `inputs` and `below` are the operands of each member.
    struct Scratch {
        std::vector<int> around, left, sums, inputs, below;
    };

    const Job& job_;
    const Way way_;
    Memory& memory_;
    Form form_;
    int n_slices_ = 1;
    std::vector<Scratch> scratch_;                           // of each team
    std::vector<int> packed_, packed_inputs_, packed_below_;  // of each direction and slice
    std::vector<int> bias_;

    bool is_layer() const { return way_ == Way::kLayer; }
    bool is_backward() const { return way_ == Way::kBackward; }
    int n_vectors() const { return (job_.width + kLanes<T> - 1) / kLanes<T>; }
    int slice_begin(int slice) const { return std::min(job_.width, n_vectors() * slice / n_slices_ * kLanes<T>); }
    int slice_width(int slice) const { return slice_begin(slice + 1) - slice_begin(slice); }

    // The depth of the recurrent product, and how many groups of a slice's units its columns are.
    int depth() const { return (is_backward() ? form_.n_parts() : form_.n_sides()) * job_.width; }
    int n_groups() const { return is_backward() ? form_.n_sides() : form_.n_parts(); }
    int n_columns(int slice) const { return n_groups() * slice_width(slice); }
    // Values of a row of sums: of a layer, u stands before the others.
    int sum_width(int slice) const {
        return Engine::sum_width(n_columns(slice)) + (is_layer() ? slice_width(slice) : 0);
    }

    // Where the values of a cell lie in a tensor with `n` groups of H values for each direction.
    int64_t at(int64_t cell, int direction, int n) const {
        return (cell * job_.n_directions + direction) * n * job_.width;
    }

    bool prepare(int most_rows, int n_teams) {
        memory_.begin();
        const size_t rows = most_rows + Engine::spare_rows;
        const size_t sum_rows = is_layer() ? rows + job_.chunk_rows : rows;
        const int n_left = is_backward() ? 2 : n_slices_, n_turns = is_backward() ? 2 : 1;
        for (int i = 0; i < job_.n_directions * n_slices_; ++i) {
            const int slice = i % n_slices_, n = n_columns(slice);
            packed_.push_back(memory_.ask(Engine::packed_bytes(depth(), n)));
            if (!is_layer()) continue;
            packed_inputs_.push_back(memory_.ask(Engine::packed_bytes(job_.input_width, n)));
            packed_below_.push_back(memory_.ask(job_.below ? Engine::packed_bytes(job_.width, n) : 0));
            bias_.push_back(memory_.ask(sum_width(slice) * sizeof(T)));
        }
        for (int team = 0; team < n_teams; ++team) {
            Scratch own;
            auto operands = [&](std::vector<int>& parts, size_t n_rows, int k) {
                parts.push_back(memory_.ask(n_rows * Engine::left_width(k) * sizeof(Left)));
            };
            for (int i = 0; i < n_left; ++i) {
                operands(own.left, rows, depth());
                own.around.push_back(
                    same_left || is_backward() ? own.left.back() : memory_.ask(rows * depth() * sizeof(T)));
                if (!is_layer()) continue;
                operands(own.inputs, sum_rows, job_.input_width);
                operands(own.below, sum_rows, job_.below ? job_.width : 0);
            }
            for (int i = 0; i < n_slices_ * n_turns; ++i)
                own.sums.push_back(memory_.ask(sum_rows * sum_width(i / n_turns) * sizeof(T)));
            scratch_.push_back(own);
        }
        if (!memory_.take()) return false;
        // Operands may be wider than what is written to them, and must be zero there.
        if (!same_left)
            for (const Scratch& own : scratch_)
                for (const auto* parts : {&own.left, &own.inputs, &own.below})
                    for (int part : *parts) memory_.clear(part);
        return true;
    }

    void pack(int n_threads) {
        const int n_packed = job_.n_directions * n_slices_;
        in_parallel(n_threads, [&](int thread, int n_present) {
            for (int i = thread; i < n_packed; i += n_present) pack_one(i, i / n_slices_, i % n_slices_);
        });
    }

    void pack_one(int i, int direction, int slice) {
        const int begin = slice_begin(slice), own = slice_width(slice), n = n_columns(slice);
        std::vector<int64_t> columns;
        for (int group = 0; group < n_groups(); ++group)
            for (int unit = begin; unit < begin + own; ++unit) columns.push_back(int64_t(group) * job_.width + unit);
        const int64_t of_direction = direction * job_.recurrent_direction;
        const S* weights = static_cast<const S*>(job_.recurrent) + of_direction;
        void* packed = memory_.part<void>(packed_[i]);
        if (is_backward()) {
            for (int64_t& column : columns) column *= job_.recurrent_row;
            return Engine::pack(weights, 1, columns.data(), depth(), n, packed);
        }
        Engine::pack(weights, job_.recurrent_row, columns.data(), depth(), n, packed);
        if (!is_layer()) return;
        if (job_.below)
            Engine::pack(static_cast<const S*>(job_.below_weight) + of_direction, job_.recurrent_row, columns.data(),
                         job_.width, n, memory_.part<void>(packed_below_[i]));
        // The columns of the input are r, z, λ…, candidate; here u comes first.
        std::rotate(columns.begin(), columns.end() - own, columns.end());
        Engine::pack(static_cast<const S*>(job_.input_weight) + direction * job_.input_direction, job_.input_row,
                     columns.data(), job_.input_width, n, memory_.part<void>(packed_inputs_[i]));
        const int64_t all = int64_t(form_.n_parts()) * job_.width;
        const S* of_input = static_cast<const S*>(job_.input_bias) + direction * all;
        const S* of_state = static_cast<const S*>(job_.state_bias) + direction * all;
        T* bias = memory_.part<T>(bias_[i]);
        std::fill(bias, bias + sum_width(slice), T(0));
        for (int j = 0; j < n; ++j) bias[j] += widen(of_input[columns[j]]);
        std::rotate(columns.begin(), columns.begin() + own, columns.end());
        for (int j = 0; j < n; ++j) bias[own + j] += widen(of_state[columns[j]]);
    }

    template <int L, class Wait>
    void visit(const Task& task, const Scratch& scratch, int member, int members, const Wait& wait) {
        if (is_backward())
            retreat<L>(task, scratch, member, members, wait);
        else
            advance<L>(task, scratch, member, members, wait);
    }

    // A row of the table as an operand; zero for no cell.
    static void copy_operand(const S* from, int n, Left* to) {
        if (!from)
            std::memset(static_cast<void*>(to), 0, n * sizeof(Left));
        else if constexpr (std::is_same<S, Left>::value)
            std::memcpy(static_cast<void*>(to), from, n * sizeof(Left));
        else
            for (int i = 0; i < n; i += kLanes<T>) store(to + i, load(from + i, n - i), n - i);
    }

    // What does not depend on the neighbours, for some diagonals at once: u, r, z, λ…, v of a layer.
    void project(const std::vector<Row>& rows, int direction, const Scratch& scratch, int member, int members) {
        const int n_rows = rows.size();
        const int x_width = Engine::left_width(job_.input_width), below_width = Engine::left_width(job_.width);
        Left* inputs = memory_.part<Left>(scratch.inputs[member]);
        Left* below = memory_.part<Left>(scratch.below[member]);
        for (int r = 0; r < n_rows; ++r) {
            const S* x = static_cast<const S*>(job_.inputs) + rows[r].cell * job_.input_width;
            copy_operand(x, job_.input_width, inputs + int64_t(r) * x_width);
            if (job_.below)
                copy_operand(static_cast<const S*>(job_.below) + at(rows[r].cell, direction, 1), job_.width,
                             below + int64_t(r) * below_width);
        }
        for (int slice = member; slice < n_slices_; slice += members) {
            const int i = direction * n_slices_ + slice, c_width = sum_width(slice), n = n_columns(slice);
            T* sums = memory_.part<T>(scratch.sums[slice]);
            const T* bias = memory_.part<T>(bias_[i]);
            // The input adds to all but v. Its last columns may reach into v's, which so come after it.
            Engine::multiply(inputs, x_width, n_rows, memory_.part<void>(packed_inputs_[i]), job_.input_width, n, sums,
                             c_width, bias, 0);
            for (int r = 0; r < n_rows; ++r)
                std::memcpy(sums + int64_t(r) * c_width + n, bias + n, (c_width - n) * sizeof(T));
            if (job_.below)
                Engine::multiply(below, below_width, n_rows, memory_.part<void>(packed_below_[i]), job_.width, n,
                                 sums + slice_width(slice), c_width, true);
        }
    }

    template <int L, class Wait>
    void advance(const Task& task, const Scratch& scratch, int member, int members, const Wait& wait) {
        const int d = task.direction, width = job_.width, n_parts = form_.n_parts(), k = depth();
        T* around = memory_.part<T>(scratch.around[member]);
        Left* left = memory_.part<Left>(scratch.left[member]);
        const int left_width = Engine::left_width(k), around_width = same_left ? left_width : k;
        auto* projected = static_cast<S*>(job_.projected);
        auto* states = static_cast<S*>(job_.states);
        const auto* below = static_cast<const S*>(job_.below);
        std::vector<Row> rows;
        std::vector<int> ends;  // of the diagonals at hand
        for (int diagonal = 0; diagonal < task.n_diagonals;) {
            // A layer projects some diagonals at once, so that its weights are read less often.
            rows.clear(), ends.clear();
            do {
                append_rows(task, job_.corners[d], diagonal + ends.size(), rows);
                ends.push_back(rows.size());
            } while (is_layer() && ends.back() < job_.chunk_rows && diagonal + int(ends.size()) < task.n_diagonals);
            if (is_layer()) project(rows, d, scratch, member, members);
            for (size_t step = 0; step < ends.size(); ++step, ++diagonal) {
                const int first = step ? ends[step - 1] : 0, n_rows = ends[step] - first;
                for (int r = 0; r < n_rows; ++r) {
                    auto gather = [&](int64_t cell, int side) {
                        const S* from = cell < 0 ? nullptr : states + at(cell, d, 1);
                        copy_operand(from, width, left + int64_t(r) * left_width + side * width);
                        if constexpr (!same_left) {
                            T* to = around + int64_t(r) * around_width + side * width;
                            for (int i = 0; i < width; i += kLanes<T>)
                                store(to + i, from ? load(from + i, width - i) : Vec<T>{}, width - i);
                        }
                    };
                    if (form_.reads_up) gather(rows[first + r].up, 0);
                    if (form_.reads_left) gather(rows[first + r].left, form_.left_side());
                }
                // A product that reaches beyond its rows must not change what was projected for the diagonals after.
                std::memset(static_cast<void*>(left + int64_t(n_rows) * left_width), 0,
                            size_t(Engine::spare_rows) * left_width * sizeof(Left));
                for (int slice = member; slice < n_slices_; slice += members) {
                    const int begin = slice_begin(slice), own = slice_width(slice), c_width = sum_width(slice);
                    T* sums = memory_.part<T>(scratch.sums[slice]);
                    if (is_layer()) sums += int64_t(first) * c_width;
                    Engine::multiply(left, left_width, n_rows, memory_.part<void>(packed_[d * n_slices_ + slice]), k,
                                     n_columns(slice), sums + (is_layer() ? own : 0), c_width, is_layer());
                    for (int r = 0; r < n_rows; ++r) {
                        const int64_t cell = rows[first + r].cell;
                        const T* neighbours = around + int64_t(r) * around_width;
                        const ForwardRow<S> row{is_layer() ? nullptr : projected + at(cell, d, 1 + n_parts),
                                                sums + int64_t(r) * c_width,
                                                below ? below + at(cell, d, 1) : nullptr,
                                                neighbours,
                                                neighbours + form_.left_side() * width,
                                                states + at(cell, d, 1)};
                        forward_cell<S, L>(form_, row, begin, begin + own, job_.keep);
                    }
                }
                wait();
            }
        }
    }

    template <int L, class Wait>
    void retreat(const Task& task, const Scratch& scratch, int member, int members, const Wait& wait) {
        const int d = task.direction, n_parts = form_.n_parts(), n_sides = form_.n_sides(), k = depth();
        const int left_width = Engine::left_width(k);
        const auto* states = static_cast<const S*>(job_.states);
        const auto* below = static_cast<const S*>(job_.below);
        auto* grad_below = static_cast<S*>(job_.grad_below);
        std::vector<Row> rows;
        for (int diagonal = task.n_diagonals - 1; diagonal >= 0; --diagonal) {
            const int turn = diagonal % 2;
            rows.clear();
            append_rows(task, job_.corners[d], diagonal, rows);
            const int n_rows = rows.size();
            Left* left = memory_.part<Left>(scratch.left[turn]);
            for (int slice = member; slice < n_slices_; slice += members) {
                T* sums = memory_.part<T>(scratch.sums[2 * slice + turn]);
                const T* after = memory_.part<T>(scratch.sums[2 * slice + 1 - turn]);
                const int begin = slice_begin(slice), own = slice_width(slice), c_width = sum_width(slice);
                auto owing = [&](bool reads, int place, int side) {
                    return reads && place >= 0 ? after + int64_t(place) * c_width + side * own : nullptr;
                };
                auto read = [&](bool reads, int64_t cell) {
                    return reads && cell >= 0 ? states + at(cell, d, 1) : nullptr;
                };
                for (int r = 0; r < n_rows; ++r) {
                    const Row& place = rows[r];
                    const BackwardRow<S, Left> row{
                        static_cast<const S*>(job_.grad) + at(place.cell, d, 1),
                        owing(form_.reads_up, place.read_as_up, 0),
                        owing(form_.reads_left, place.read_as_left, form_.left_side()),
                        static_cast<const S*>(job_.gates) + at(place.cell, d, 1 + n_parts),
                        below ? below + at(place.cell, d, 1) : nullptr,
                        read(form_.reads_up, place.up),
                        read(form_.reads_left, place.left),
                        static_cast<S*>(job_.projected) + at(place.cell, d, 1 + n_parts),
                        left + int64_t(r) * left_width,
                        grad_below ? grad_below + at(place.cell, d, 1) : nullptr,
                        static_cast<S*>(job_.neighbours) + at(place.cell, d, n_sides),
                        sums + int64_t(r) * c_width};
                    backward_cell<S, Left, L>(form_, row, begin, begin + own);
                }
            }
            wait();
            for (int slice = member; slice < n_slices_; slice += members)
                Engine::multiply(left, left_width, n_rows, memory_.part<void>(packed_[d * n_slices_ + slice]), k,
                                 n_columns(slice), memory_.part<T>(scratch.sums[2 * slice + turn]), sum_width(slice),
                                 true);
        }
    }
};

template <class S, class Engine>
int run(const Job& job, Way way) {
    return Scan<S, Engine>(job, way).run() ? 0 : 1;
}

// With RELATUM_DTYPE a library is made for one type only, which takes a third of the time.
#if defined(RELATUM_DTYPE)
constexpr bool made_for(int dtype) { return dtype == RELATUM_DTYPE; }
#else
constexpr bool made_for(int) { return true; }
#endif

template <class = void>
int dispatch(const Job& job, Way way) {
    if constexpr (made_for(0))
        if (job.dtype == 0) return run<float, Panels<PlainDot<float>>>(job, way);
    if constexpr (made_for(1))
        if (job.dtype == 1) return run<double, Panels<PlainDot<double>>>(job, way);
    if constexpr (made_for(2))
        if (job.dtype == 2) {
#if defined(RELATUM_TILES)
            if (tiles_allowed()) return run<bfloat16, Tiles>(job, way);
#endif
#if defined(__AVX512BF16__) || defined(RELATUM_EMULATE_PAIRS)
            return run<bfloat16, Panels<PairDot>>(job, way);
#else
            return run<bfloat16, Panels<PlainDot<float>>>(job, way);
#endif
        }
    if constexpr (made_for(3))
        if (job.dtype == 3) return run<float16, Panels<PlainDot<float>>>(job, way);
    return 2;
}

}  // namespace
}  // namespace relatum

// All return 0, 1 where there was no memory, 2 where the type of numbers is unknown.
extern "C" {
RELATUM_EXPORT void relatum_use_threads(void* parallel, void* count, void* index) {
    relatum::threads = {reinterpret_cast<decltype(relatum::Threads::parallel)>(parallel),
                        reinterpret_cast<int (*)()>(count), reinterpret_cast<int (*)()>(index)};
}
RELATUM_EXPORT int relatum_md_gru_forward(const Job* job) { return relatum::dispatch<>(*job, relatum::Way::kForward); }
RELATUM_EXPORT int relatum_md_gru_backward(const Job* job) { return relatum::dispatch<>(*job, relatum::Way::kBackward); }
RELATUM_EXPORT int relatum_md_gru_layer(const Job* job) { return relatum::dispatch<>(*job, relatum::Way::kLayer); }
}
