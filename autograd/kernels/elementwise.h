// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/kernels/broadcast.h"
#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

/// Functions of the elements of arrays. To add a function, add an enumerator here and a case in
/// elementwise.cpp; p and q are parameters, see Function.
namespace tapestry::kernels {

/// Functions f(v). Activations are in activations.h.
enum class Unary : std::uint8_t {
  abs,
  clamp,  ///< min(max(v, p), q); NaN stays NaN
  cos,
  divide,  ///< v / p
  exp,
  gelu,
  gelu_tanh,
  log,
  neg,           ///< -v; changes the sign of 0 too
  negate_scale,  ///< (0 - v) p
  power,         ///< v^p
  relu,
  scale,  ///< v p
  sigmoid,
  silu,
  sin,
  softplus,
  sqrt,
  square,
  tanh,
  zero_minus  ///< 0 - v; never -0
};

/// Functions f(a, b). Functions named `*_gradient` compute dL/dx from a = dL/dy and b = x, or b = y
/// if noted.
enum class Binary : std::uint8_t {
  abs_gradient,
  add,
  binary_cross_entropy,           ///< loss of the logits a for the targets b
  binary_cross_entropy_gradient,  ///< dL/da, times p
  clamp_gradient,                 ///< gradient of clamp with limits p and q
  cos_gradient,
  div,
  equal,  ///< 1 where true, 0 elsewhere, like all comparisons
  gelu_gradient,
  gelu_tanh_gradient,
  less,
  less_equal,
  masked_mul,             ///< a b, 0 where b is 0, even if a is not finite
  masked_mul_complement,  ///< a (1 - b), 0 where b is 1, even if a is not finite
  max_gradient_share,     ///< the share of dL/dy that operand a of max(a, b) receives
  mul,
  negate_mul,  ///< (0 - a) b
  not_equal,
  power_gradient,       ///< a p b^(p - 1)
  relu_gradient,        ///< b = y
  relu_scale_gradient,  ///< gradient of p relu(x), also with dropout; b = y
  right,                ///< returns b
  sigmoid_gradient,     ///< b = y
  silu_gradient,
  sin_gradient,
  softplus_gradient,
  sqrt_gradient,            ///< b = y
  sqrt_gradient_zero_at_0,  ///< like sqrt_gradient, but 0 where y is 0
  square_gradient,
  sub,
  tanh_gradient  ///< b = y
};

/// One of the functions, with its parameters, which are converted to the type of the elements.
template <class Name>
struct Function {
  Name name;
  double p = 0.0, q = 0.0;
};
template <class Name>
Function(Name, double = 0.0, double = 0.0) -> Function<Name>;

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// y_i = f(x_i) for i < n.
template <class T>
void map_unary(const Function<Unary>& f, std::size_t n, Target<T> y, const T* x);
/// y_i = f(a_i, b_i) for i < n.
template <class T>
void map_binary(const Function<Binary>& f, std::size_t n, Target<T> y, const T* a, const T* b);
/// y_i = a_i where condition_i is not 0, else b_i, for i < n.
template <class T>
void where(std::size_t n, Target<T> y, const T* condition, const T* a, const T* b);

/// y = f(a, b) with broadcasting.
template <class T>
void broadcast_binary(const Function<Binary>& f, const BroadcastPlan& plan, T* y, const T* a,
                      const T* b);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
