#pragma once

#include <concepts>
#include <cstddef>
#include <string>
#include <tuple>
#include <utility>

#include "autograd/tensor.h"
#include "layers/mode.h"
#include "layers/parameters.h"

namespace tapestry {

/// Options of Linear. The member initializers are the defaults.
struct LinearOptions {
  bool bias = true;  ///< without it, y = x W^T
};

/// Affine map of the last axis: y = x W^T + b.
///
///   parameters  weight (out, in), Glorot uniform [1]; bias (out), zeros, unless bias is false
///   call        x (..., in) -> (..., out)
///   throws      ShapeError if the last axis of x is not `in`
///
/// [1] Glorot & Bengio 2010, eq. 16.
class Linear {
 public:
  Linear(const Scope& scope, std::size_t in, std::size_t out, const LinearOptions& options = {});
  Tensor operator()(const Tensor& x) const;

 private:
  const std::string* path_;
  Tensor weight_, bias_;  // bias_ may be absent
};

/// Dropout [1]: in training each element becomes 0 with probability `rate`, and the others are
/// multiplied by 1 / (1 - rate); inference returns x.
///
///   parameters  none
///   call        x (any shape) -> the same shape
///   throws      ValueError if the rate is outside [0, 1], or in training without a random stream
///               unless the rate is 0
///
/// The dropped elements depend on the mode's random stream and on the path of the layer, so two
/// layers called with the same stream drop different elements, and two calls of one layer the same
/// elements: give each of them a mode of its own, mode.at(0) and mode.at(1).
///
/// [1] Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting".
class Dropout {
 public:
  Dropout(const Scope& scope, double rate);
  Tensor operator()(const Tensor& x, const Mode& mode) const;
  /// dropout(max(x, 0)), in one pass over memory.
  Tensor after_relu(const Tensor& x, const Mode& mode) const;

 private:
  const std::string* path_;
  double rate_;
};

/// Layers and functions applied one after the other, each to the output of the one before.
///
///     const Sequential mlp{Linear(scope / 0, 784, 128), relu, Dropout(scope / 2, 0.1),
///                          Linear(scope / 3, 128, 10)};
///     const Tensor logits = mlp(x, Mode::inference());
///
///   parameters  those of the layers, in their order if the layers are constructed in braces, as
///               above. In parentheses, the compiler chooses the order of their construction
///   call        the input of the first layer -> the output of the last. Each is called with
///               (x, mode) if it can be, else with (x). Layers none of which needs a mode may be
///               called as mlp(x)
///   throws      as the layers
template <class... Layers>
class Sequential {
 public:
  /// Takes copies of layers, of functions such as `relu`, and of lambdas.
  explicit Sequential(Layers... layers) : layers_(std::move(layers)...) {}

  /// The output of the last layer.
  template <class Input>
  auto operator()(const Input& x, const Mode& mode) const {
    return run<0>(x, mode);
  }
  /// The same for layers that are called without a mode.
  template <class Input>
  auto operator()(const Input& x) const {
    return run_without_mode<0>(x);
  }

 private:
  template <std::size_t I, class Input>
  auto run_without_mode(const Input& x) const {
    if constexpr (I == sizeof...(Layers)) {
      return x;
    } else {
      using Layer = std::tuple_element_t<I, std::tuple<Layers...>>;
      static_assert(std::invocable<const Layer&, const Input&>,
                    "a layer of the Sequential is called with (x, mode): call the Sequential so");
      return run_without_mode<I + 1>(std::get<I>(layers_)(x));
    }
  }

  template <std::size_t I, class Input>
  auto run(const Input& x, const Mode& mode) const {
    if constexpr (I == sizeof...(Layers)) {
      return x;
    } else {
      return run<I + 1>(call(std::get<I>(layers_), x, mode), mode);
    }
  }

  template <class Layer, class Input>
  static auto call(const Layer& layer, const Input& x, const Mode& mode) {
    if constexpr (std::invocable<const Layer&, const Input&, const Mode&>) {
      return layer(x, mode);
    } else {
      static_assert(std::invocable<const Layer&, const Input&>,
                    "a layer of a Sequential is called with (x, mode) or (x), x being the output "
                    "of the layer before");
      return layer(x);
    }
  }

  std::tuple<Layers...> layers_;
};

}  // namespace tapestry
