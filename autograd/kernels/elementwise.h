#pragma once

#include <cstddef>
#include <cstdint>

#include "autograd/kernels/broadcast.h"
#include "autograd/kernels/namespace.h"
#include "autograd/kernels/target.h"

/// Functions of the elements of arrays. A new one is an enumerator here and a case in
/// elementwise.cpp; p and q are its parameters, see Function.
namespace tapestry::kernels {

/// f(v). Activations are in activations.h.
enum class Unary : std::uint8_t {
  abs,
  clamp,  ///< min(max(v, p), q); NaN stays NaN
  cos,
  divide,  ///< v / p
  exp,
  gelu,
  gelu_tanh,
  log,
  neg,    ///< -v, also for 0
  power,  ///< v^p
  relu,
  scale,           ///< v p
  scale_opposite,  ///< (0 - v) p
  sigmoid,
  silu,
  sin,
  softplus,
  sqrt,
  square,
  subtract_from_zero,  ///< 0 - v, which is 0 for 0
  tanh
};

/// f(a, b). Those named gradient are dL/dx from a = dL/dy and b = x, or b = y where it says so.
enum class Binary : std::uint8_t {
  abs_gradient,
  add,
  binary_cross_entropy,           ///< of the logits a for the targets b
  binary_cross_entropy_gradient,  ///< dL/da, times p
  clamp_gradient,                 ///< of clamp between p and q
  cos_gradient,
  div,
  equal,  ///< 1 where it holds and 0 elsewhere, as the other comparisons
  gelu_gradient,
  gelu_tanh_gradient,
  less,
  less_equal,
  mul,
  not_equal,
  opposite_product,     ///< (0 - a) b
  part_of_share,        ///< a b, 0 where b is 0
  power_gradient,       ///< a p b^(p - 1)
  relu_gradient,        ///< b = y
  relu_scale_gradient,  ///< of p relu(x), also with elements dropped; b = y
  rest_of_share,        ///< a (1 - b), 0 where b is 1
  root_gradient,        ///< of sqrt, b = y, with gradient 0 at 0
  second,               ///< b
  share_of_larger,      ///< the share of a in the gradient of max(a, b)
  sigmoid_gradient,     ///< b = y
  silu_gradient,
  sin_gradient,
  softplus_gradient,
  sqrt_gradient,  ///< b = y
  square_gradient,
  sub,
  tanh_gradient  ///< b = y
};

/// f(a, b, c)
enum class Ternary : std::uint8_t {
  choose  ///< b where a is not 0, and c elsewhere
};

/// One of the functions, with its parameters, which are converted to the type of the elements.
template <class Name>
struct Function {
  Name name;
  double p = 0.0, q = 0.0;
};
template <class Name>
Function(Name, double = 0.0, double = 0.0) -> Function<Name>;

/// The activation of the gate in a gated linear unit; gelu is the exact one.
enum class Gate { silu, gelu };

inline namespace TAPESTRY_KERNELS_NAMESPACE {

/// y_i = f(x_i) for i < n.
template <class T>
void map_unary(const Function<Unary>& f, std::size_t n, Target<T> y, const T* x);
/// y_i = f(a_i, b_i) for i < n.
template <class T>
void map_binary(const Function<Binary>& f, std::size_t n, Target<T> y, const T* a, const T* b);
/// y_i = f(a_i, b_i, c_i) for i < n.
template <class T>
void map_ternary(const Function<Ternary>& f, std::size_t n, Target<T> y, const T* a, const T* b,
                 const T* c);

/// y = f(a, b) with broadcasting.
template <class T>
void broadcast_binary(const Function<Binary>& f, const BroadcastPlan& plan, T* y, const T* a,
                      const T* b);

/// y = value * activation(gate) for (rows, n). A row of x, of 2 n elements, holds the n values,
/// then the n gates.
template <class T>
void gated(Gate gate, std::size_t rows, std::size_t n, const T* x, T* y);

/// Both halves of dL/dx, (rows, 2 n), from g = dL/dy, in one pass: dL/dvalue = g activation(gate),
/// dL/dgate = g value activation'(gate).
template <class T>
void gated_backward(Gate gate, std::size_t rows, std::size_t n, const T* x, const T* g,
                    Target<T> dx);

}  // namespace TAPESTRY_KERNELS_NAMESPACE

}  // namespace tapestry::kernels
