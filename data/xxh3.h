#pragma once

#include <xxhash.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace tapestry {

/// XXH3 (64 bits) of bytes that come piece by piece; where the pieces end does not count.
class Xxh3 {
 public:
  Xxh3() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_64bits_reset(state_.get());
  }

  void add(const void* bytes, std::size_t count) {
    if (count > 0) XXH3_64bits_update(state_.get(), bytes, count);
  }

  std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace tapestry
