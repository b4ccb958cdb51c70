#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_target.h"

/// Entry points of libFuzzer.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tapestry::fuzz::feed_in_time({reinterpret_cast<const char*>(data), size});
  return 0;
}
