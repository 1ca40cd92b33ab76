// What differs between operating systems: sleeping until a number changes, memory, and the names that a library exports.
//
// With RELATUM_PORTABLE, Linux sleeps as macOS does, so that the tests can run that code.
#pragma once

#include <atomic>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#if defined(_WIN32)
#include <malloc.h>
#elif defined(__linux__) && !defined(RELATUM_PORTABLE)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#else
#include <unistd.h>

#include <condition_variable>
#include <mutex>
#endif
#if defined(__linux__)
#include <sys/mman.h>
#endif

#if defined(_WIN32)
#define RELATUM_EXPORT __declspec(dllexport)
// Declared here since <windows.h> makes macros of words like `far`.
extern "C" {
__declspec(dllimport) int __stdcall WaitOnAddress(volatile void*, void*, size_t, unsigned long);
__declspec(dllimport) void __stdcall WakeByAddressAll(void*);
}
#else
#define RELATUM_EXPORT __attribute__((visibility("default")))
#endif

namespace relatum {

static_assert(sizeof(std::atomic<int>) == sizeof(int), "the system takes the address of an int");

#if defined(_WIN32)

// Sleeps if the number has this value; wakes up after `wake_all`, or earlier.
inline void sleep_while(std::atomic<int>& number, int value) {
    WaitOnAddress(&number, &value, sizeof(value), 0xffffffff);
}
inline void wake_all(std::atomic<int>& number) { WakeByAddressAll(&number); }

#elif defined(__linux__) && !defined(RELATUM_PORTABLE)

inline void sleep_while(std::atomic<int>& number, int value) {
    syscall(SYS_futex, &number, FUTEX_WAIT_PRIVATE, value, nullptr, nullptr, 0);
}
inline void wake_all(std::atomic<int>& number) {
    syscall(SYS_futex, &number, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

#else

struct Bed {
    std::mutex mutex;
    std::condition_variable changed;
};

// Numbers share a few condition variables. These are never destroyed, since threads may sleep when the process ends; and
// a forked child has others, since those of its parent count on threads that the child has not.
class Beds {
   public:
    static Bed& of(const void* address) {
        static std::atomic<Beds*> all{nullptr};
        Beds* own = all.load();
        if (!own || own->process_ != getpid()) {
            Beds* const fresh = new Beds;
            if (all.compare_exchange_strong(own, fresh))
                own = fresh;
            else
                delete fresh;
        }
        return own->beds_[reinterpret_cast<uintptr_t>(address) / 64 % n_beds];
    }

   private:
    static constexpr size_t n_beds = 64;
    const int process_ = getpid();
    Bed beds_[n_beds];
};

inline void sleep_while(std::atomic<int>& number, int value) {
    Bed& bed = Beds::of(&number);
    std::unique_lock<std::mutex> lock(bed.mutex);
    if (number.load() == value) bed.changed.wait(lock);
}
// The caller has changed the number: whoever looked at it before holds the mutex until it sleeps.
inline void wake_all(std::atomic<int>& number) {
    Bed& bed = Beds::of(&number);
    { std::lock_guard<std::mutex> lock(bed.mutex); }
    bed.changed.notify_all();
}

#endif

// Memory that begins at a page, of a size that is a multiple of 4096; null where there is none.
inline void* allocate_pages(size_t n_bytes) {
#if defined(_WIN32)
    return _aligned_malloc(n_bytes, 4096);
#else
    return std::aligned_alloc(4096, n_bytes);
#endif
}
inline void free_pages(void* pages) {
#if defined(_WIN32)
    _aligned_free(pages);
#else
    std::free(pages);
#endif
}

// Asks for large pages; does nothing where they cannot be asked for. `start` begins a page.
inline void ask_for_large_pages([[maybe_unused]] void* start, [[maybe_unused]] size_t n_bytes) {
#if defined(__linux__)
    madvise(start, n_bytes, MADV_HUGEPAGE);
#endif
}

}  // namespace relatum
