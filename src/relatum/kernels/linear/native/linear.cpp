// A linear layer of split products; see split.h.

#include <algorithm>

#include "memory.h"
#include "split.h"
#include "team.h"

namespace relatum {
namespace {

#if defined(RELATUM_TILES)
// Whether there was memory for it.
bool run(const float* values, const void* weights, const Result& result, int n_rows, int depth, int n_threads) {
    Memory& memory = Memory::own();
    memory.begin();
    const int part = memory.ask(SplitRows::bytes(n_rows, depth));
    if (!memory.take()) return false;
    SplitRows rows(memory.part<char>(part), n_rows, depth);
    const int n_strips = (result.width + SplitRows::strip - 1) / SplitRows::strip;
    Barrier barrier;
    in_parallel(std::min(n_threads, n_strips), [&](int thread, int n_present) {
        const Team team{thread, n_present, &barrier};
        rows.read(values, team.begin(n_rows), team.end(n_rows));
        team.meet();
        rows.multiply(weights, team.begin(n_strips), team.end(n_strips), result);
    });
    return true;
}
#endif

}  // namespace
}  // namespace relatum

extern "C" {
RELATUM_EXPORT void relatum_use_threads(void* parallel, void* count, void* index) {
    relatum::threads = {reinterpret_cast<decltype(relatum::Threads::parallel)>(parallel),
                        reinterpret_cast<int (*)()>(count), reinterpret_cast<int (*)()>(index)};
}
#if defined(RELATUM_TILES)
// Whether the system lets this process use the unit.
RELATUM_EXPORT int relatum_linear_allowed() { return relatum::tiles_allowed(); }
// The arguments are those of `multiply` in cpu.py; zero, or one where there is no memory.
RELATUM_EXPORT int relatum_linear(const float* values, const void* weights, const float* bias, float* results,
                                  int n_rows, int depth, int width, int gelu, int n_threads) {
    if (n_rows < 1 || width < 1) return 0;
    const relatum::Result result{bias, results, width, gelu ? relatum::kGelu : relatum::kNothing};
    return !relatum::run(values, weights, result, n_rows, depth, n_threads);
}
#else
RELATUM_EXPORT int relatum_linear_allowed() { return 0; }
#endif
}
