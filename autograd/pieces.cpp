#include "autograd/pieces.h"

#include <fmt/format.h>

#include <utility>

#include "autograd/error.h"

namespace tapestry {

Pieces::Pass::Pass(Pieces& pieces) : pieces_(pieces), outer_(std::exchange(active_, &pieces)) {
  pieces.next_ = 0;
}

Pieces::Pass::~Pass() {
  active_ = outer_;
  pieces_.noted_ = true;
}

std::span<const std::int32_t> Pieces::noted_call(const char* operation, std::size_t n) {
  const Call* const call = next_ < calls_.size() ? &calls_[next_++] : nullptr;
  if (call != nullptr && call->operation == operation && call->pieces.size() == n) {
    return call->pieces;
  }
  throw ValueError(fmt::format(
      "{}: called with {} elements where there was {} before, expected the same operations in the "
      "same order whatever the values",
      operation, n,
      call == nullptr ? "no more call"
                      : fmt::format("{} with {}", call->operation, call->pieces.size())));
}

}  // namespace tapestry
