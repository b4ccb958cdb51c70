#include "autograd/frozen_branches.h"

#include <fmt/format.h>

#include "autograd/error.h"

namespace tapestry {

FrozenBranches::Pass::Pass(FrozenBranches& branches) : active_(&branches), branches_(branches) {
  branches.next_ = 0;
}

FrozenBranches::Pass::~Pass() { branches_.recorded_ = true; }

std::span<const std::int32_t> FrozenBranches::recorded_call(const char* operation, std::size_t n) {
  const Call* const call = next_ < calls_.size() ? &calls_[next_++] : nullptr;
  if (call != nullptr && call->operation == operation && call->branches.size() == n) {
    return call->branches;
  }
  throw ValueError(fmt::format(
      "{}: called with {} elements where there was {} before, expected the same operations in the "
      "same order whatever the values",
      operation, n,
      call == nullptr ? "no more call"
                      : fmt::format("{} with {}", call->operation, call->branches.size())));
}

}  // namespace tapestry
