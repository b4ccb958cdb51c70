#include "autograd/ops/cross_entropy.h"

#include <fmt/format.h>

#include <span>
#include <xtensor/xtensor.hpp>

#include "autograd/error.h"
#include "autograd/kernels/cross_entropy.h"
#include "autograd/operation.h"
#include "autograd/ops/destination.h"
#include "autograd/ops/targets.h"

namespace tapestry {
namespace {

void require_fitting(const Tensor& logits, const Ids& targets) {
  if (logits.rank() != 3 || logits.shape()[0] != targets.shape()[0] ||
      logits.shape()[1] != targets.shape()[1] || logits.shape()[2] == 0) {
    throw ShapeError(
        fmt::format("cross_entropy: logits have shape {}, expected ({}, {}, "
                    "vocabulary) (targets are ({}, {}))",
                    to_string(logits.shape()), targets.shape()[0], targets.shape()[1],
                    targets.shape()[0], targets.shape()[1]));
  }
}

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
  Destination<double> nll_sum;
  Tensor logits{};
  Tensor log_sums{};  // (rows, 2): a LogSumExp each

  Tensor forward(const Tensor& x) {
    logits = x;
    log_sums = Tensor::empty({targets.size(), 2}, x.dtype());
    const auto sums = dispatch(x.dtype(), [&]<class T>() {
      return kernels::cross_entropy(targets.problem(), x.values<T>().data(),
                                    of_rows(log_sums.mutable_values<T>()));
    });
    nll_sum.put(sums.negative_log_likelihood);
    return Tensor::scalar(sums.loss / targets.normalizer(), x.dtype());
  }

  void backward(const Tensor& dy, Gradient dlogits) const {
    dispatch(dy.dtype(), [&]<class T>() {
      kernels::cross_entropy_backward(
          targets.problem(), logits.values<T>().data(), of_rows(log_sums.values<T>()),
          static_cast<T>(dy.item() / targets.normalizer()), dlogits.target<T>());
    });
  }
};

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Ids& targets, const CrossEntropyOptions& options,
                     double* nll_sum) {
  require_fitting(logits, targets);
  return apply(
      CrossEntropy{.targets = Targets(CrossEntropy::name, targets, logits.shape()[2], options),
                   .nll_sum = Destination(nll_sum)},
      logits);
}

}  // namespace tapestry
