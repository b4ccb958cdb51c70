// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <type_traits>

#include "autograd/frozen_branches.h"
#include "autograd/gradient.h"
#include "autograd/kernels/elementwise.h"
#include "autograd/tensor.h"

/// Loops over the elements of tensors, for element-wise operations. Internal.
namespace tapestry {

namespace detail {

template <class Name, class T, class... In>
void map_elements(const kernels::Function<Name>& f, std::size_t n, kernels::Target<T> y,
                  const In*... in) {
  if constexpr (std::is_same_v<Name, kernels::Unary>) kernels::map_unary(f, n, y, in...);
  if constexpr (std::is_same_v<Name, kernels::Binary>) kernels::map_binary(f, n, y, in...);
}

}  // namespace detail

/// f(x, more...) element by element, as a new tensor; all inputs have the same shape.
template <class Name, class... More>
Tensor map_values(const kernels::Function<Name>& f, const Tensor& x, const More&... more) {
  Tensor y = Tensor::empty(x.shape(), x.dtype());
  dispatch(x.dtype(), [&]<class T>() {
    detail::map_elements(f, x.size(), kernels::Target<T>{y.mutable_values<T>().data()},
                         x.values<T>().data(), more.template values<T>().data()...);
  });
  return y;
}
template <class Name, class... More>
requires std::is_enum_v<Name> Tensor map_values(Name name, const Tensor& x, const More&... more) {
  return map_values(kernels::Function{name}, x, more...);
}

/// Contributes f(dy, more...), element by element, to the gradient dx; all have the same shape.
template <class Name, class... More>
void map_gradient(const Gradient& dx, const kernels::Function<Name>& f, const Tensor& dy,
                  const More&... more) {
  dispatch(dy.dtype(), [&]<class T>() {
    detail::map_elements(f, dy.size(), dx.target<T>(), dy.values<T>().data(),
                         more.template values<T>().data()...);
  });
}
template <class Name, class... More>
requires std::is_enum_v<Name>
void map_gradient(const Gradient& dx, Name name, const Tensor& dy, const More&... more) {
  map_gradient(dx, kernels::Function{name}, dy, more...);
}

/// An operation y = f(x), element by element, whose gradient depends on x.
template <kernels::Unary f, kernels::Binary gradient>
struct MapOfInput {
  Tensor x{};

  Tensor forward(const Tensor& input) {
    x = input;
    return map_values(f, x);
  }

  void backward(const Tensor& dy, Gradient dx) const { map_gradient(dx, gradient, dy, x); }
};

/// An operation y = f(x), element by element, whose gradient depends on y.
template <kernels::Unary f, kernels::Binary gradient>
struct MapOfOutput {
  Tensor y{};

  Tensor forward(const Tensor& x) { return y = map_values(f, x); }
  void backward(const Tensor& dy, Gradient dx) const { map_gradient(dx, gradient, dy, y); }
};

/// f(a, b) element by element, with broadcasting. Throws ShapeError or DTypeError, naming
/// `operation`.
Tensor broadcast_values(const char* operation, kernels::Binary f, const Tensor& a, const Tensor& b);

/// Contributes g to the gradient of an operand that was broadcast to g's shape: sums over the axes
/// along which the operand repeats.
void add_unbroadcast(const Gradient& gradient, const Tensor& g);

/// Gives every element of y = relu(x) its frozen branch, x or 0, regardless of the current sign
/// of x.
void freeze_relu(FrozenBranches& branches, Tensor& y, const Tensor& x);

}  // namespace tapestry
