#include "autograd/ops/mean_squared_error.h"

#include <fmt/format.h>

#include "autograd/error.h"
#include "autograd/kernels/reduce.h"
#include "autograd/operation.h"
#include "autograd/ops/elementwise.h"

namespace tapestry {
namespace {

struct MeanSquaredError {
  static constexpr const char* name = "mean_squared_error";
  Tensor difference{};

  Tensor forward(const Tensor& prediction, const Tensor& target) {
    difference = map_values([](const auto& p, const auto& t) { return p - t; }, prediction, target);
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
    const auto scaled = [factor]<class T>(const kernels::Vec<T>& d) {
      return d * kernels::Vec<T>(static_cast<T>(factor));
    };
    map_gradient(gradient, scaled, difference);
  }
};

}  // namespace

Tensor mean_squared_error(const Tensor& prediction, const Tensor& target) {
  common_dtype(MeanSquaredError::name, prediction, target);
  if (prediction.shape() != target.shape() || prediction.size() == 0) {
    throw ShapeError(fmt::format(
        "{}: prediction has shape {} and target {}, expected one shape with at least 1 element",
        MeanSquaredError::name, to_string(prediction.shape()), to_string(target.shape())));
  }
  return apply(MeanSquaredError{}, prediction, target);
}

}  // namespace tapestry
