// Work for threads: tasks of their own where there are enough of them, and shares of one task where there are not.
#pragma once

#include <atomic>
#include <cstdint>

#include "system.h"

namespace relatum {

// The functions of the OpenMP library that torch has loaded, so that both use the same threads; the caller finds them.
// Such libraries have them under the names that GCC gave them. Elsewhere they are those of pool.cpp.
struct Threads {
    void (*parallel)(void (*work)(void*), void* data, unsigned n_threads, unsigned flags) = nullptr;
    int (*count)() = nullptr;
    int (*index)() = nullptr;
};
inline Threads threads;

// Calls work(thread, number of threads) in up to `n_threads` threads.
template <class Work>
void in_parallel(int n_threads, const Work& work) {
    if (n_threads < 2 || !threads.parallel) return work(0, 1);
    auto call = [](void* data) { (*static_cast<const Work*>(data))(threads.index(), threads.count()); };
    threads.parallel(call, const_cast<Work*>(&work), n_threads, 0);
}

// Threads that work on the same task meet here after every step. A thread that has waited for some 50 µs goes to
// sleep: on a busy machine the one that it waits for may need its core.
class Barrier {
   public:
    void wait(int members) {
        if (members == 1) return;
        const int round = round_.load(std::memory_order_relaxed);
        if (arrive(members)) return;
        for (int spins = 0; spins < kSpins; ++spins) {
            if (round_.load(std::memory_order_acquire) != round) return;
#if defined(__x86_64__)
            __builtin_ia32_pause();
#elif defined(__aarch64__)
            asm volatile("yield");
#endif
        }
        sleepers_.fetch_add(1);  // before it looks once more: whoever ends the round sees one of the two
        while (round_.load() == round) sleep_while(round_, round);
        sleepers_.fetch_sub(1);
    }
    // Counts in a thread that does not wait; true if it was the last one.
    bool arrive(int members) {
        const int round = round_.load(std::memory_order_relaxed);
        if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 != members) return false;
        arrived_.store(0, std::memory_order_relaxed);
        round_.store(round + 1);
        if (sleepers_.load()) wake_all(round_);
        return true;
    }

   private:
    static constexpr int kSpins = 2000;

    alignas(64) std::atomic<int> arrived_{0};
    alignas(64) std::atomic<int> round_{0};
    std::atomic<int> sleepers_{0};
};

// One of the threads that work on the same task.
struct Team {
    int member = 0, members = 1;
    Barrier* barrier = nullptr;

    void meet() const { barrier->wait(members); }
    // The member's share of so many things.
    int begin(int64_t count) const { return count * member / members; }
    int end(int64_t count) const { return count * (member + 1) / members; }
};

// Calls visit(task, team, member, members) so that every task is visited by all members of one team.
template <class Visit>
void share_out(int n_tasks, int n_threads, const Visit& visit) {
    std::atomic<int> next{0};
    in_parallel(n_threads, [&](int thread, int n_present) {
        const int members = n_present / n_tasks;
        if (members > 1) {
            if (thread / members < n_tasks) visit(thread / members, thread / members, thread % members, members);
        } else {
            for (int task = next++; task < n_tasks; task = next++) visit(task, thread, 0, 1);
        }
    });
}

}  // namespace relatum
