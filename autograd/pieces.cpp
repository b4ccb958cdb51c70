#include "autograd/pieces.h"

#include <utility>

namespace tapestry {

Pieces::Pass::Pass(Pieces& pieces) : outer_(std::exchange(active_, &pieces)) { pieces.next_ = 0; }

Pieces::Pass::~Pass() { active_ = outer_; }

std::vector<std::int32_t>& Pieces::next_call() {
  if (next_ == calls_.size()) calls_.emplace_back();
  return calls_[next_++];
}

}  // namespace tapestry
