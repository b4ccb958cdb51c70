#include "autograd/ops/linear_cross_entropy.h"

#include <fmt/format.h>

#include <xtensor/xtensor.hpp>

#include "autograd/error.h"
#include "autograd/kernels/linear_cross_entropy.h"
#include "autograd/operation.h"
#include "autograd/ops/destination.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/targets.h"

namespace tapestry {
namespace {

void require_fitting(const Tensor& x, const Tensor& weight, const Tensor& bias,
                     const Ids& targets) {
  constexpr const char* name = "linear_cross_entropy";
  if (weight.rank() != 2 || weight.shape()[0] == 0) {
    throw ShapeError(fmt::format("{}: weight has shape {}, expected (vocabulary, d)", name,
                                 to_string(weight.shape())));
  }
  const std::size_t d = weight.shape()[1];
  if (x.shape() != Shape{targets.shape()[0], targets.shape()[1], d}) {
    throw ShapeError(fmt::format("{}: x has shape {}, expected ({}, {}, {}) (weight is {})", name,
                                 to_string(x.shape()), targets.shape()[0], targets.shape()[1], d,
                                 to_string(weight.shape())));
  }
  common_dtype(name, x, weight);
  if (!bias) return;
  if (bias.shape() != Shape{weight.shape()[0]}) {
    throw ShapeError(fmt::format("{}: bias has shape {}, expected ({}) (weight is {})", name,
                                 to_string(bias.shape()), weight.shape()[0],
                                 to_string(weight.shape())));
  }
  common_dtype(name, x, bias);
}

struct LinearCrossEntropy {
  static constexpr const char* name = "linear_cross_entropy";
  Targets targets;
  Destination<double> nll_sum;
  Tensor dx{}, dweight{}, dbias{};  // for a gradient of 1

  Tensor forward(const Tensor& x, const Tensor& weight, const Tensor& bias) {
    dx = room_for_gradient(x);
    dweight = room_for_gradient(weight);
    dbias = room_for_gradient(bias);
    const auto sums = dispatch(x.dtype(), [&]<class T>() {
      const auto place = [](Tensor& t) { return t ? t.mutable_values<T>().data() : nullptr; };
      const kernels::LinearCrossEntropyProblem<T> problem{
          .loss = targets.problem(),
          .d = weight.shape()[1],
          .x = x.values<T>().data(),
          .weight = weight.values<T>().data(),
          .bias = bias ? bias.values<T>().data() : nullptr};
      return kernels::linear_cross_entropy<T>(problem, 1.0 / targets.normalizer(),
                                              {place(dx), place(dweight), place(dbias)});
    });
    nll_sum.put(sums.negative_log_likelihood);
    return Tensor::scalar(sums.loss / targets.normalizer(), x.dtype());
  }

  void backward(const Tensor& dy, Gradient to_x, Gradient to_weight, Gradient to_bias) const {
    contribute(to_x, dx, dy.item());
    contribute(to_weight, dweight, dy.item());
    contribute(to_bias, dbias, dy.item());
  }

 private:
  static Tensor room_for_gradient(const Tensor& x) {
    return x && is_recorded(x) ? Tensor::empty(x.shape(), x.dtype()) : Tensor();
  }

  static void contribute(const Gradient& to, const Tensor& gradient, double factor) {
    if (!to) return;
    if (factor == 1.0) return to.add(gradient);
    const auto scaled = [factor]<class V>(const V& g) {
      return g * V(static_cast<typename V::value_type>(factor));
    };
    map_gradient(to, scaled, gradient);
  }
};

}  // namespace

Tensor linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& bias,
                            const Ids& targets, const CrossEntropyOptions& options,
                            double* nll_sum) {
  require_fitting(x, weight, bias, targets);
  return apply(LinearCrossEntropy{.targets = Targets(LinearCrossEntropy::name, targets,
                                                     weight.shape()[0], options),
                                  .nll_sum = Destination(nll_sum)},
               x, weight, bias);
}

}  // namespace tapestry
