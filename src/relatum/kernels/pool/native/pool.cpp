// Threads of our own, where there is no OpenMP library to share them with, and what Python cannot ask the system.
//
// A pool is called as an OpenMP library is, see `Threads`: a thread that calls it has helpers of its own, which wait for
// its next call and end with it.

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <system_error>
#include <thread>

#include "team.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if defined(_WIN32)
#include <vector>

#include <windows.h>
#else
#include <unistd.h>
#endif

namespace relatum {
namespace {

// A forked child has none of its parent's threads.
int process() {
#if defined(_WIN32)
    return 0;
#else
    return getpid();
#endif
}

struct Place {
    int index = 0, count = 1;
};
thread_local Place place;

// The thread that calls and its helpers, as they see each other.
struct Crew {
    std::atomic<int> members{0};  // 0 until all helpers are there
    Barrier start, end;
    void (*work)(void*) = nullptr;  // null: the helpers end
    void* data = nullptr;
    int n_present = 0;  // as many members work, and the others wait
};

void help(const std::shared_ptr<Crew>& crew, int index) {
    while (!crew->members.load()) sleep_while(crew->members, 0);
    const int members = crew->members.load();
    for (;;) {
        crew->start.wait(members);
        if (!crew->work) return;
        place = {index, crew->n_present};
        if (index < crew->n_present) crew->work(crew->data);
        crew->end.wait(members);
    }
}

// The helpers of the thread that owns this.
class Helpers {
   public:
    ~Helpers() { dismiss(); }

    void run(void (*work)(void*), void* data, int n_threads) {
        if (process_ != process()) forget();
        if (n_threads > most_) hire(n_threads);
        const int n_present = std::min(n_threads, members());
        if (n_present < 2) return call(work, data, {});
        crew_->work = work, crew_->data = data, crew_->n_present = n_present;
        crew_->start.wait(members());
        call(work, data, {0, n_present});
        crew_->end.wait(members());
    }

   private:
    std::shared_ptr<Crew> crew_;
    int most_ = 1;  // that were asked for; the system may have given fewer
    int process_ = process();

    int members() const { return crew_ ? crew_->members.load() : 1; }

    static void call(void (*work)(void*), void* data, Place own) {
        place = own;
        work(data);
        place = {};
    }

    void hire(int n_threads) {
        dismiss();
        most_ = n_threads;
        int n_hired = 1;
        try {
            crew_ = std::make_shared<Crew>();
            for (; n_hired < n_threads; ++n_hired) std::thread(help, crew_, n_hired).detach();
        } catch (const std::system_error&) {
        } catch (const std::bad_alloc&) {
        }
        if (!crew_) return;
        crew_->members.store(n_hired);
        wake_all(crew_->members);
    }

    // Does not wait for the helpers: when a process of Windows ends, they are gone before this.
    void dismiss() {
        if (process_ != process()) return forget();
        if (crew_) crew_->work = nullptr, crew_->start.arrive(members());
        crew_.reset();
        most_ = 1;
    }

    // In a child the parent's threads are counted in and will never come.
    void forget() {
        if (crew_) new std::shared_ptr<Crew>(std::move(crew_));
        crew_.reset();
        most_ = 1, process_ = process();
    }
};

Helpers& helpers() {
    static thread_local Helpers own;
    return own;
}

#if defined(__x86_64__)
struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers ask_cpu(unsigned leaf) {
    Registers found;
    if (__get_cpuid_max(leaf & 0x80000000u, nullptr) >= leaf) __cpuid_count(leaf, 0, found.a, found.b, found.c, found.d);
    return found;
}

// The parts of registers that the system saves for a process.
unsigned saved_state() {
    constexpr unsigned system_tells = 1u << 27;
    if (!(ask_cpu(1).c & system_tells)) return 0;
    unsigned low, high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}
#endif

}  // namespace
}  // namespace relatum

extern "C" {
// As GOMP_parallel, omp_get_num_threads and omp_get_thread_num; called in a work of its own, the pool has one thread.
RELATUM_EXPORT void relatum_pool_run(void (*work)(void*), void* data, unsigned n_threads, unsigned) {
    if (relatum::place.count > 1) {
        const relatum::Place own = relatum::place;
        relatum::place = {};
        work(data);
        relatum::place = own;
        return;
    }
    relatum::helpers().run(work, data, static_cast<int>(n_threads));
}
RELATUM_EXPORT int relatum_pool_count() { return relatum::place.count; }
RELATUM_EXPORT int relatum_pool_index() { return relatum::place.index; }

// The number of cores, not of the threads that share them; 0 where the system is asked in another way.
RELATUM_EXPORT int relatum_pool_cores() {
#if defined(_WIN32)
    DWORD n_bytes = 0;
    GetLogicalProcessorInformation(nullptr, &n_bytes);
    std::vector<SYSTEM_LOGICAL_PROCESSOR_INFORMATION> entries(n_bytes / sizeof(SYSTEM_LOGICAL_PROCESSOR_INFORMATION));
    if (entries.empty() || !GetLogicalProcessorInformation(entries.data(), &n_bytes)) return 0;
    int n_cores = 0;
    for (const auto& entry : entries) n_cores += entry.Relationship == RelationProcessorCore;
    return n_cores;
#else
    return 0;
#endif
}

// Writes the CPU's flags that decide between variants, under the names that Linux gives them; `flags` holds 256 bytes.
// AMX is left out: a process of Windows would have to ask for it.
RELATUM_EXPORT void relatum_pool_cpu_flags(char* flags) {
    *flags = 0;
#if defined(__x86_64__)
    struct Flag {
        const char* name;
        unsigned known;
        int bit;
        unsigned state;
    };
    const relatum::Registers one = relatum::ask_cpu(1), seven = relatum::ask_cpu(7);
    const relatum::Registers more = relatum::ask_cpu(0x80000001u);
    constexpr unsigned none = 0, avx = 0x6, avx512 = 0xe6;
    const Flag all[] = {
        {"fma", one.c, 12, avx},           {"movbe", one.c, 22, none},        {"f16c", one.c, 29, avx},
        {"bmi1", seven.b, 3, none},        {"avx2", seven.b, 5, avx},         {"bmi2", seven.b, 8, none},
        {"avx512f", seven.b, 16, avx512},  {"avx512dq", seven.b, 17, avx512}, {"avx512cd", seven.b, 28, avx512},
        {"avx512bw", seven.b, 30, avx512}, {"avx512vl", seven.b, 31, avx512}, {"avx512_vnni", seven.c, 11, avx512},
        {"abm", more.c, 5, none},
    };
    const unsigned saved = relatum::saved_state();
    for (const Flag& flag : all)
        if ((flag.known >> flag.bit & 1) && (saved & flag.state) == flag.state) {
            std::strcat(flags, flag.name);
            std::strcat(flags, " ");
        }
#endif
}
}
