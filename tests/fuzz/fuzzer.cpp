// SPDX-License-Identifier: BSD-3-Clause
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz.h"

/// Called by libFuzzer with generated inputs for the target TAPESTRY_FUZZ_TARGET.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tapestry::fuzz::feed_in_time(TAPESTRY_FUZZ_TARGET, {reinterpret_cast<const char*>(data), size});
  return 0;
}
