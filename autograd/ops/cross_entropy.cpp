#include "autograd/ops/cross_entropy.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>
#include <xtensor/xtensor.hpp>

#include "autograd/error.h"
#include "autograd/kernels/cross_entropy.h"
#include "autograd/operation.h"

namespace tapestry {
namespace {

/// Target ids in row-major order, -1 where ignored.
using Targets = std::vector<std::int32_t, kernels::PoolAllocator<std::int32_t>>;

void require_fitting(const Tensor& logits, const Ids& targets, double label_smoothing) {
  if (logits.rank() != 3 || logits.shape()[0] != targets.shape()[0] ||
      logits.shape()[1] != targets.shape()[1] || logits.shape()[2] == 0) {
    throw ShapeError(
        fmt::format("cross_entropy: logits have shape {}, expected ({}, {}, "
                    "vocabulary) (targets are ({}, {}))",
                    to_string(logits.shape()), targets.shape()[0], targets.shape()[1],
                    targets.shape()[0], targets.shape()[1]));
  }
  if (!(label_smoothing >= 0 && label_smoothing < 1)) {
    throw ValueError(fmt::format("cross_entropy: label_smoothing is {}, expected 0 <= alpha < 1",
                                 label_smoothing));
  }
}

Targets checked_targets(const Ids& ids, std::int32_t ignored_id, std::size_t vocabulary) {
  Targets targets(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int32_t id = ids.data()[i];
    if (id != ignored_id && (id < 0 || static_cast<std::size_t>(id) >= vocabulary)) {
      throw ValueError(fmt::format("cross_entropy: target ({}, {}) is {}, expected 0 <= id < {}",
                                   i / ids.shape()[1], i % ids.shape()[1], id, vocabulary));
    }
    targets[i] = id == ignored_id ? -1 : id;
  }
  return targets;
}

std::size_t count_kept(const Targets& targets) {
  return static_cast<std::size_t>(
      std::count_if(targets.begin(), targets.end(), [](std::int32_t id) { return id >= 0; }));
}

/// Where forward leaves a number for its caller, if anywhere. A copy of the operation, which may
/// run again when the caller is gone, leaves it nowhere.
struct Destination {
  double* place;
  explicit Destination(double* to) : place(to) {}
  Destination(Destination&&) = default;
  Destination(const Destination&) : place(nullptr) {}
  void put(double value) const {
    if (place != nullptr) *place = value;
  }
};

/// Pairs of values as what the kernel makes of each row.
template <class T>
kernels::LogSumExp<T>* of_rows(std::span<T> pairs) {
  return reinterpret_cast<kernels::LogSumExp<T>*>(pairs.data());
}
template <class T>
const kernels::LogSumExp<T>* of_rows(std::span<const T> pairs) {
  return reinterpret_cast<const kernels::LogSumExp<T>*>(pairs.data());
}

struct CrossEntropy {
  static constexpr const char* name = "cross_entropy";
  Targets targets;
  double label_smoothing;
  double normalizer;
  Destination nll_sum;
  Tensor logits{};
  Tensor log_sums{};  // (rows, 2): a LogSumExp each

  kernels::CrossEntropyProblem problem() const {
    return {.rows = targets.size(),
            .vocabulary = logits.shape().back(),
            .targets = targets.data(),
            .label_smoothing = label_smoothing};
  }

  Tensor forward(const Tensor& x) {
    logits = x;
    log_sums = Tensor::empty({targets.size(), 2}, x.dtype());
    const auto sums = dispatch(x.dtype(), [&]<class T>() {
      return kernels::cross_entropy(problem(), x.values<T>().data(),
                                    of_rows(log_sums.mutable_values<T>()));
    });
    nll_sum.put(sums.negative_log_likelihood);
    return Tensor::scalar(sums.loss / normalizer, x.dtype());
  }

  void backward(const Tensor& dy, Gradient dlogits) const {
    dispatch(dy.dtype(), [&]<class T>() {
      kernels::cross_entropy_backward(problem(), logits.values<T>().data(),
                                      of_rows(log_sums.values<T>()),
                                      static_cast<T>(dy.item() / normalizer), dlogits.target<T>());
    });
  }
};

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Ids& targets, const CrossEntropyOptions& options,
                     double* nll_sum) {
  require_fitting(logits, targets, options.label_smoothing);
  Targets checked = checked_targets(targets, options.ignored_id, logits.shape()[2]);
  const std::size_t normalizer = options.normalizer != 0 ? options.normalizer : count_kept(checked);
  if (normalizer == 0) {
    throw ValueError(
        fmt::format("cross_entropy: all {} targets are ignored (id {}), expected at "
                    "least one that counts",
                    checked.size(), options.ignored_id));
  }
  return apply(CrossEntropy{.targets = std::move(checked),
                            .label_smoothing = options.label_smoothing,
                            .normalizer = static_cast<double>(normalizer),
                            .nll_sum = Destination(nll_sum)},
               logits);
}

}  // namespace tapestry
