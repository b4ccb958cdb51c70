#pragma once

#include <cstdint>
#include <vector>

#include "autograd/ids.h"
#include "autograd/kernels/cross_entropy.h"
#include "autograd/kernels/memory.h"
#include "autograd/ops/losses.h"

/// Shared by the operations that compute a cross entropy. Internal.
namespace tapestry {

/// The targets of a cross entropy, checked, with the weights of their losses: label smoothing and
/// normalizer.
class Targets {
 public:
  /// Throws ValueError, naming `operation`, for the reasons that cross_entropy gives.
  Targets(const char* operation, const Ids& ids, std::size_t vocabulary,
          const CrossEntropyOptions& options);

  /// Refers to these targets.
  kernels::CrossEntropyProblem problem() const {
    return {.rows = ids_.size(),
            .vocabulary = vocabulary_,
            .targets = ids_.data(),
            .label_smoothing = label_smoothing_};
  }
  std::size_t size() const { return ids_.size(); }
  /// Targets that are not ignored.
  std::size_t num_kept() const { return num_kept_; }
  double normalizer() const { return normalizer_; }

 private:
  std::vector<std::int32_t, kernels::PoolAllocator<std::int32_t>> ids_;  // -1 where ignored
  std::size_t vocabulary_;
  std::size_t num_kept_ = 0;
  double label_smoothing_;
  double normalizer_;
};

}  // namespace tapestry
