// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// A custom operation, defined outside the library: swish [1] with a learned slope beta,
//
//     y = x * s(beta x),   s(z) = 1 / (1 + exp(-z)).
//
// [1] Ramachandran, Zoph & Le 2017, "Searching for activation functions", section 4.

#include <tapestry/autograd/error.h>
#include <tapestry/autograd/operation.h>

#include <cmath>
#include <cstddef>

namespace example {

using tapestry::Gradient;
using tapestry::Tensor;

template <class T>
T logistic(T z) {
  return T(1) / (T(1) + std::exp(-z));
}

/// x of any shape, beta a scalar; y has the shape of x.
///
///     dL/dx    = g * (s + beta x s (1 - s))
///     dL/dbeta = sum of g * x^2 s (1 - s)        for g = dL/dy and s = s(beta x)
struct Swish {
  static constexpr const char* name = "swish";
  Tensor x{}, beta{};  // saved for backward

  Tensor forward(const Tensor& input, const Tensor& slope) {
    if (slope.size() != 1) {
      throw tapestry::ShapeError("swish: beta has shape " + to_string(slope.shape()) +
                                 ", expected one element");
    }
    common_dtype(name, input, slope);
    x = input;
    beta = slope;
    Tensor y = Tensor::empty(x.shape(), x.dtype());
    tapestry::dispatch(x.dtype(), [&]<class T>() {
      const auto in = x.values<T>();
      const auto out = y.mutable_values<T>();
      const T b = beta.values<T>()[0];
      for (std::size_t i = 0; i < in.size(); ++i) out[i] = in[i] * logistic(b * in[i]);
    });
    return y;
  }

  void backward(const Tensor& dy, Gradient dx, Gradient dbeta) const {
    tapestry::dispatch(dy.dtype(), [&]<class T>() {
      const auto g = dy.values<T>();
      const auto in = x.values<T>();
      const T b = beta.values<T>()[0];
      const auto x_target = dx.target<T>();  // null if dL/dx is not needed
      T sum = 0;
      for (std::size_t i = 0; i < in.size(); ++i) {
        const T s = logistic(b * in[i]);
        const T slope = in[i] * s * (T(1) - s);
        if (x_target) x_target.put(i, g[i] * (s + b * slope));
        sum += g[i] * in[i] * slope;
      }
      if (dbeta) dbeta.target<T>().put(0, sum);
    });
  }
};

inline Tensor swish(const Tensor& x, const Tensor& beta) {
  return tapestry::apply(Swish{}, x, beta);
}

}  // namespace example
