// Memory that is asked for in parts, taken in one go, and kept for the next call.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

#include "system.h"

namespace relatum {

class Memory {
   public:
    // Of the calling thread.
    static Memory& own() {
        static thread_local Memory memory;
        return memory;
    }
    ~Memory() { free_pages(start_); }

    void begin() { places_.clear(), total_ = 0; }
    // The number of the part; one vector more than was asked for, so that whole vectors may be read at its end.
    int ask(size_t n_bytes) {
        places_.push_back(total_);
        total_ += (n_bytes + 127) / 64 * 64;
        return places_.size() - 1;
    }
    bool take() {
        if (total_ <= n_bytes_) return true;
        free_pages(start_);
        n_bytes_ = (total_ + 4095) / 4096 * 4096;
        start_ = static_cast<char*>(allocate_pages(n_bytes_));
        if (!start_) n_bytes_ = 0;
        return start_ != nullptr;
    }
    template <class P>
    P* part(int number) const {
        return reinterpret_cast<P*>(start_ + places_[number]);
    }
    void clear(int number) const {
        const size_t end = number + 1 < static_cast<int>(places_.size()) ? places_[number + 1] : total_;
        std::memset(start_ + places_[number], 0, end - places_[number]);
    }

   private:
    char* start_ = nullptr;
    size_t n_bytes_ = 0, total_ = 0;
    std::vector<size_t> places_;
};

}  // namespace relatum
