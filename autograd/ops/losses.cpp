// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/ids.h"
#include "autograd/kernels/cross_entropy.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/reduce.h"
#include "autograd/operation.h"
#include "autograd/ops/internal/axes.h"
#include "autograd/ops/internal/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reductions.h"

namespace tapestry {
namespace {

using kernels::Binary;
using kernels::Function;
using kernels::Unary;

/// The validated targets of a cross entropy, with the weights of their losses (label smoothing and
/// normalizer).
class Targets {
 public:
  /// Throws ValueError, naming `operation`, as documented for cross_entropy().
  Targets(const char* operation, const Ids& ids, std::size_t vocabulary,
          const CrossEntropyOptions& options);

  /// The arguments of the kernel; they refer to these targets.
  kernels::CrossEntropyProblem problem() const {
    return {.rows = ids_.size(),
            .vocabulary = vocabulary_,
            .targets = ids_.data(),
            .label_smoothing = label_smoothing_};
  }
  std::size_t size() const { return ids_.size(); }
  /// Number of targets that are not ignored.
  std::size_t num_kept() const { return num_kept_; }
  double normalizer() const { return normalizer_; }

 private:
  std::vector<std::int32_t, kernels::PoolAllocator<std::int32_t>> ids_;  // -1 where ignored
  std::size_t vocabulary_;
  std::size_t num_kept_ = 0;
  double label_smoothing_;
  double normalizer_;
};

Targets::Targets(const char* operation, const Ids& ids, std::size_t vocabulary,
                 const CrossEntropyOptions& options)
    : ids_(ids.size()), vocabulary_(vocabulary), label_smoothing_(options.label_smoothing) {
  if (!(label_smoothing_ >= 0 && label_smoothing_ < 1)) {
    throw ValueError(fmt::format("{}: label_smoothing is {}, expected 0 <= alpha < 1", operation,
                                 printable(label_smoothing_)));
  }
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const std::int32_t id = ids.data()[i];
    const bool ignored = id == options.ignored_id;
    if (!ignored && (id < 0 || static_cast<std::size_t>(id) >= vocabulary)) {
      throw ValueError(fmt::format("{}: target {} is {}, expected 0 <= id < {}", operation,
                                   ids.place(i), id, vocabulary));
    }
    ids_[i] = ignored ? -1 : id;
    num_kept_ += ignored ? 0 : 1;
  }
  const std::size_t normalizer = options.normalizer != 0 ? options.normalizer : num_kept_;
  if (normalizer == 0) {
    throw ValueError(fmt::format(
        "{}: all {} targets are ignored (id {}), expected at least one that is not ignored",
        operation, ids_.size(), options.ignored_id));
  }
  normalizer_ = static_cast<double>(normalizer);
}

/// "(2, 3, vocabulary)" for a shape (2, 3).
std::string followed_by(const Shape& shape, const std::string& last) {
  const std::string text = to_string(shape);
  return shape.rank() == 0 ? fmt::format("({})", last)
                           : fmt::format("{}, {})", text.substr(0, text.size() - 1), last);
}

void require_logits(const char* operation, const Tensor& logits, const Ids& targets) {
  const Shape& shape = logits.shape();
  if (shape.rank() == 0 || shape.back() == 0 || shape.erased(shape.rank() - 1) != targets.shape()) {
    throw ShapeError(fmt::format(
        "{}: logits have shape {}, expected {} (targets are {})", operation, to_string(shape),
        followed_by(targets.shape(), "vocabulary"), to_string(targets.shape())));
  }
}

/// Values of shape (rows, 2) viewed as one LogSumExp per row.
template <class T>
kernels::LogSumExp<T>* as_log_sums(std::span<T> pairs) {
  return reinterpret_cast<kernels::LogSumExp<T>*>(pairs.data());
}
template <class T>
const kernels::LogSumExp<T>* as_log_sums(std::span<const T> pairs) {
  return reinterpret_cast<const kernels::LogSumExp<T>*>(pairs.data());
}

struct CrossEntropy {
  static constexpr const char* name = "cross_entropy";
  Targets targets;
  using Result = double;
  Result result = 0.0;  // sum of -log p(target)
  Tensor logits{};
  Tensor log_sums{};  // (rows, 2): one LogSumExp per row

  std::string formula() const {
    const double alpha = targets.problem().label_smoothing;
    return alpha == 0.0 ? fmt::format("L = −1/n Σₜ log softmax(logitsₜ)[labelₜ], n = {}",
                                      targets.normalizer())
                        : fmt::format(
                              "L = 1/n Σₜ ((1 − α) lₜ[labelₜ] + α/V Σⱼ lₜ[j]), l = −log "
                              "softmax(logits), n = {}, α = {}, V = {}",
                              targets.normalizer(), alpha, targets.problem().vocabulary);
  }
  std::string derivative() const {
    return targets.problem().label_smoothing == 0.0
               ? "dL/dlogitsₜ = (softmax(logitsₜ) − onehot(labelₜ)) / n, 0 where ignored"
               : "dL/dlogitsₜ = (softmax(logitsₜ) − (1 − α) onehot(labelₜ) − α/V) / n, 0 where "
                 "ignored";
  }

  Tensor forward(const Tensor& x) {
    logits = x;
    log_sums = Tensor::empty({targets.size(), 2}, x.dtype());
    const auto sums = dispatch(x.dtype(), [&]<class T>() {
      return kernels::cross_entropy(targets.problem(), x.values<T>().data(),
                                    as_log_sums(log_sums.mutable_values<T>()));
    });
    result = sums.negative_log_likelihood;
    return Tensor::scalar(sums.loss / targets.normalizer(), x.dtype());
  }

  void backward(const Tensor& dy, Gradient dlogits) const {
    dispatch(dy.dtype(), [&]<class T>() {
      kernels::cross_entropy_backward(
          targets.problem(), logits.values<T>().data(), as_log_sums(log_sums.values<T>()),
          static_cast<T>(dy.item() / targets.normalizer()), dlogits.target<T>());
    });
  }
};

}  // namespace

Loss cross_entropy(const Tensor& logits, const Ids& targets, const CrossEntropyOptions& options) {
  require_logits(CrossEntropy::name, logits, targets);
  Targets checked(CrossEntropy::name, targets, logits.shape().back(), options);
  const std::size_t num_targets = checked.num_kept();
  const auto [mean, nll_sum] = apply(CrossEntropy{.targets = std::move(checked)}, logits);
  return {.mean = mean, .nll_sum = nll_sum, .num_targets = num_targets};
}

double accuracy(const Tensor& logits, const Ids& targets, std::int32_t ignored_id) {
  require_logits("accuracy", logits, targets);
  const Targets checked("accuracy", targets, logits.shape().back(), {.ignored_id = ignored_id});
  const Ids predicted = argmax(logits);
  std::size_t correct = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    correct += targets[i] != ignored_id && predicted[i] == targets[i] ? 1 : 0;
  }
  return static_cast<double>(correct) / static_cast<double>(checked.num_kept());
}

namespace {

void require_linear_operands(const Tensor& x, const Tensor& weight, const Tensor& bias,
                             const Ids& targets) {
  constexpr const char* name = "linear_cross_entropy";
  if (weight.rank() != 2 || weight.shape()[0] == 0) {
    throw ShapeError(fmt::format("{}: weight has shape {}, expected (vocabulary, d)", name,
                                 to_string(weight.shape())));
  }
  const std::size_t d = weight.shape()[1];
  if (x.shape() != targets.shape().inserted(targets.shape().rank(), d)) {
    throw ShapeError(
        fmt::format("{}: x has shape {}, expected {} (weight is {})", name, to_string(x.shape()),
                    followed_by(targets.shape(), std::to_string(d)), to_string(weight.shape())));
  }
  common_dtype(name, x, weight);
  if (!bias.defined()) return;
  if (bias.shape() != Shape{weight.shape()[0]}) {
    throw ShapeError(fmt::format("{}: bias has shape {}, expected ({}) (weight is {})", name,
                                 to_string(bias.shape()), weight.shape()[0],
                                 to_string(weight.shape())));
  }
  common_dtype(name, x, bias);
}

struct LinearCrossEntropy {
  static constexpr const char* name = "linear_cross_entropy";
  static constexpr const char* formula =
      "L = cross entropy of x Wᵀ + b, without storing all logits";
  static constexpr const char* derivative =
      "dL/dx = G W, dL/dW = Gᵀ x, dL/db = Σ G, G = dL/d(x Wᵀ + b)";
  Targets targets;
  using Result = double;
  Result result = 0.0;              // sum of -log p(target)
  Tensor dx{}, dweight{}, dbias{};  // gradients for dL/dy = 1

  Tensor forward(const ForwardContext& context, const Tensor& x, const Tensor& weight,
                 const Tensor& bias) {
    if (context.recorded) {
      dx = room_for_gradient(x);
      dweight = room_for_gradient(weight);
      dbias = room_for_gradient(bias);
    }
    const auto sums = dispatch(x.dtype(), [&]<class T>() {
      const auto place = [](Tensor& t) {
        return t.defined() ? t.mutable_values<T>().data() : nullptr;
      };
      const kernels::LinearCrossEntropyProblem<T> problem{
          .loss = targets.problem(),
          .d = weight.shape()[1],
          .x = x.values<T>().data(),
          .weight = weight.values<T>().data(),
          .bias = bias.defined() ? bias.values<T>().data() : nullptr};
      return kernels::linear_cross_entropy<T>(problem, 1.0 / targets.normalizer(),
                                              {place(dx), place(dweight), place(dbias)});
    });
    result = sums.negative_log_likelihood;
    return Tensor::scalar(sums.loss / targets.normalizer(), x.dtype());
  }

  auto unfused(const Tensor& x, const Tensor& weight, const Tensor& bias) const {
    return apply(CrossEntropy{.targets = targets}, linear(x, weight, bias));
  }

  void backward(const Tensor& dy, Gradient to_x, Gradient to_weight, Gradient to_bias) const {
    contribute(to_x, dx, dy.item());
    contribute(to_weight, dweight, dy.item());
    contribute(to_bias, dbias, dy.item());
  }

 private:
  static Tensor room_for_gradient(const Tensor& x) {
    return x.requires_grad() ? Tensor::empty(x.shape(), x.dtype()) : Tensor();
  }

  static void contribute(const Gradient& to, const Tensor& gradient, double factor) {
    if (!to) return;
    if (factor == 1.0) return to.add(gradient);
    map_gradient(to, Function{Unary::scale, factor}, gradient);
  }
};

}  // namespace

Loss linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                          const Ids& targets, const CrossEntropyOptions& options) {
  require_linear_operands(x, weight, bias, targets);
  Targets checked(LinearCrossEntropy::name, targets, weight.shape()[0], options);
  const std::size_t num_targets = checked.num_kept();
  const auto [mean, nll_sum] =
      apply(LinearCrossEntropy{.targets = std::move(checked)}, x, weight, bias);
  return {.mean = mean, .nll_sum = nll_sum, .num_targets = num_targets};
}

namespace {

struct MeanSquaredError {
  static constexpr const char* name = "mean_squared_error";
  static constexpr const char* formula = "L = 1/n Σᵢ (predictionᵢ − targetᵢ)²";
  static constexpr const char* derivative =
      "dL/dprediction = 2 (prediction − target) / n, dL/dtarget = −dL/dprediction";
  Tensor difference{};

  Tensor forward(const Tensor& prediction, const Tensor& target) {
    difference = map_values(Binary::sub, prediction, target);
    return dispatch(difference.dtype(), [&]<class T>() {
      const double total =
          kernels::sum_of_squares(difference.size(), difference.values<T>().data());
      return Tensor::scalar(total / static_cast<double>(difference.size()), difference.dtype());
    });
  }

  void backward(const Tensor& dy, Gradient dprediction, Gradient dtarget) const {
    const double factor = 2.0 / static_cast<double>(difference.size()) * dy.item();
    if (dprediction) add_difference(dprediction, factor);
    if (dtarget) add_difference(dtarget, -factor);
  }

 private:
  void add_difference(const Gradient& gradient, double factor) const {
    map_gradient(gradient, Function{Unary::scale, factor}, difference);
  }
};

}  // namespace

namespace {

/// Throws ShapeError or DTypeError, naming `operation`, unless prediction and target have the same
/// non-empty shape and the same element type.
void require_pairs(const char* operation, const char* which, const Tensor& prediction,
                   const Tensor& target) {
  common_dtype(operation, prediction, target);
  if (prediction.shape() == target.shape() && prediction.size() > 0) return;
  throw ShapeError(
      fmt::format("{}: {} shape {} and target {}, expected equal shapes with at least 1 element",
                  operation, which, to_string(prediction.shape()), to_string(target.shape())));
}

}  // namespace

Tensor mean_squared_error(const Tensor& prediction, const Tensor& target) {
  require_pairs(MeanSquaredError::name, "prediction has", prediction, target);
  return apply(MeanSquaredError{}, prediction, target);
}

namespace {

struct BinaryCrossEntropy {
  static constexpr const char* name = "binary_cross_entropy_with_logits";
  static constexpr const char* formula =
      "L = −1/n Σᵢ (tᵢ log σ(zᵢ) + (1 − tᵢ) log(1 − σ(zᵢ))), σ the sigmoid";
  static constexpr const char* derivative = "dL/dz = (σ(z) − t) / n, dL/dt = −z / n";
  Tensor logits{}, target{};

  Tensor forward(const Tensor& z, const Tensor& t) {
    logits = z;
    target = t;
    const Tensor losses = map_values(Binary::binary_cross_entropy, z, t);
    const Tensor total = summed_over(losses, all_axes(z.rank()));
    return Tensor::scalar(total.item() / static_cast<double>(z.size()), z.dtype());
  }

  void backward(const Tensor& dy, Gradient dlogits, Gradient dtarget) const {
    const double factor = dy.item() / static_cast<double>(logits.size());
    if (dlogits) {
      map_gradient(dlogits, Function{Binary::binary_cross_entropy_gradient, factor}, logits,
                   target);
    }
    if (dtarget) map_gradient(dtarget, Function{Unary::negate_scale, factor}, logits);
  }
};

void require_probabilities(const char* operation, const Tensor& target) {
  dispatch(target.dtype(), [&]<class T>() {
    const auto values = target.values<T>();
    const auto found = std::ranges::find_if(values, [](T t) { return !(t >= T(0) && t <= T(1)); });
    if (found == values.end()) return;
    const auto place = static_cast<std::size_t>(found - values.begin());
    throw ValueError(fmt::format("{}: target {} is {}, expected 0 <= target <= 1", operation,
                                 place_in(target.shape(), place), printable(*found)));
  });
}

}  // namespace

Tensor binary_cross_entropy_with_logits(const Tensor& logits, const Tensor& target) {
  require_pairs(BinaryCrossEntropy::name, "logits have", logits, target);
  require_probabilities(BinaryCrossEntropy::name, target);
  return apply(BinaryCrossEntropy{}, logits, target);
}

}  // namespace tapestry
