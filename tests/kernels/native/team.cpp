// Shares work among the threads of our own pool as compiled code does, and counts what is done wrong.

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "team.h"
#if !defined(_WIN32)
#include <sys/wait.h>
#include <unistd.h>
#endif

using namespace relatum;

extern "C" {
void relatum_pool_run(void (*work)(void*), void* data, unsigned n_threads, unsigned flags);
int relatum_pool_count();
int relatum_pool_index();
}

namespace {

std::atomic<int> failures{0};

void check(bool right, const char* what) {
    if (right) return;
    ++failures;
    std::printf("wrong: %s\n", what);
}

// The members of a team write their shares of a row, meet, and read those of all others.
void check_team(int n_threads) {
    constexpr int n_steps = 5, width = 100;
    std::vector<int> row(width);
    Barrier barrier;
    std::atomic<int> n_present{0};
    in_parallel(n_threads, [&](int thread, int members) {
        ++n_present;
        const Team team{thread, members, &barrier};
        for (int step = 0; step < n_steps; ++step) {
            for (int i = team.begin(width); i < team.end(width); ++i) row[i] += step;
            team.meet();
            int sum = 0;
            for (int value : row) sum += value;
            check(sum == width * step * (step + 1) / 2, "a sum of what all members wrote");
            team.meet();
        }
    });
    check(n_present == n_threads, "the number of threads");
}

void check_tasks(int n_tasks, int n_threads) {
    std::vector<std::atomic<int>> visits(n_tasks);
    share_out(n_tasks, n_threads, [&](int task, int, int member, int) { visits[task] += member == 0; });
    for (auto& count : visits) check(count == 1, "the visits of a task");
}

void check_all() {
    for (int n_threads : {1, 2, 5, 3}) {
        for (int round = 0; round < 3; ++round) check_team(n_threads);
        for (int n_tasks : {1, 7}) check_tasks(n_tasks, n_threads);
    }
}

// Work that is shared out within work is done by the thread alone.
void check_nested() {
    in_parallel(3, [](int, int) { in_parallel(3, [](int, int members) { check(members == 1, "nested threads"); }); });
    check(relatum_pool_count() == 1 && relatum_pool_index() == 0, "the place of a thread after its work");
}

#if !defined(_WIN32)
void check_child() {
    const int child = fork();
    if (!child) {
        alarm(60);
        check_all();
        _exit(failures != 0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    check(status == 0, "a forked child");
}
#endif

}  // namespace

int main() {
    threads = {relatum_pool_run, relatum_pool_count, relatum_pool_index};
    check_all();
    check_nested();
#if !defined(_WIN32)
    check_child();
#endif
    std::vector<std::thread> callers;
    for (int i = 0; i < 3; ++i) callers.emplace_back(check_all);
    for (auto& caller : callers) caller.join();
    for (int i = 0; i < 30; ++i) std::thread(check_team, 3).join();  // their helpers end with them
    check_all();
    std::printf("%d wrong\n", failures.load());
    return failures != 0;
}
