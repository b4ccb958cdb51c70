// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "autograd/ids.h"
#include "autograd/random.h"
#include "autograd/tensor.h"
#include "layers/parameters.h"

namespace tapestry {

/// Whether a forward pass is for training or for inference. It is an argument of every call, so
/// layers have no train/eval state.
///
///     model(input, Mode::training(RandomStream(seed).named("dropout").at(step)))
///     model(input, Mode::inference())
class Mode {
 public:
  /// No dropout; batch norm uses its running mean and variance.
  static Mode inference() { return {}; }

  /// Dropout with the random numbers of `random`; batch norm uses the mean and variance of the
  /// batch and, if a tape records the pass, updates the running averages with them. Without a
  /// stream, a layer whose dropout rate is not 0 throws ValueError.
  static Mode training(const RandomStream& random = {}) {
    Mode mode;
    mode.training_ = true;
    mode.random_ = random;
    return mode;
  }

  /// This mode, except that only Parameters::commit_buffers() updates running averages. Use it in a
  /// training loop that may skip a step.
  Mode with_deferred_averages() const {
    Mode mode = *this;
    mode.defers_averages_ = true;
    return mode;
  }

  /// Whether the pass is for training.
  bool is_training() const { return training_; }
  /// Whether running averages are only updated by Parameters::commit_buffers().
  bool defers_averages() const { return defers_averages_; }
  /// This mode with different random numbers, for one of several calls of a layer in a forward
  /// pass. With equal modes the calls would drop the same elements, because dropout depends only on
  /// the stream and on the path of the layer:
  ///
  ///     const Tensor a = encoder(x, mask, mode.at(0));
  ///     const Tensor b = encoder(x, mask, mode.at(1));   // another dropout mask
  Mode at(std::size_t call) const {
    Mode mode = *this;
    mode.random_ = random_.at(call);
    return mode;
  }

  /// The random stream of dropout; off in inference.
  const RandomStream& random() const { return random_; }
  /// The random stream for dropout with this rate in the layer at `path`; off in inference. Throws
  /// ValueError in training without a random stream, unless the rate is 0.
  RandomStream dropout_stream(const std::string& path, double rate) const;

 private:
  Mode() = default;  // inference

  bool training_ = false;
  bool defers_averages_ = false;
  RandomStream random_{};
};

/// Options of Linear. The member initializers are the defaults.
struct LinearOptions {
  bool bias = true;      ///< whether to add a bias; if false, y = x W^T
  Initializer weight{};  ///< initial values of the weight; empty: glorot_uniform(in, out)
};

/// Affine map of the last axis: y = x W^T + b.
///
///   parameters  weight (out, in), by default Glorot uniform [1]; bias (out), zeros, unless bias is
///               false
///   call        x (..., in) -> (..., out)
///   throws      ValueError in the constructor if `in` or `out` is 0; ShapeError in the call if the
///               last axis of x is not `in`
///
/// [1] Glorot & Bengio 2010, eq. 16.
class Linear {
 public:
  /// Creates the parameters.
  Linear(const Scope& scope, std::size_t in, std::size_t out, const LinearOptions& options = {});
  Tensor operator()(const Tensor& x) const;  ///< x (..., in) -> (..., out)

  const Tensor& weight() const { return weight_; }  ///< (out, in)
  const Tensor& bias() const { return bias_; }      ///< (out), undefined without a bias

 private:
  const std::string* path_;
  Tensor weight_, bias_;
};

/// Dropout [1]: in training each element becomes 0 with probability `rate`, and all other elements
/// are multiplied by 1 / (1 - rate). Inference returns x.
///
///   parameters  none
///   call        x (any shape) -> the same shape
///   throws      ValueError in the constructor if the rate is outside [0, 1], and in training
///               without a random stream unless the rate is 0
///
/// The dropped elements depend on the mode's random stream and on the path of the layer. Two layers
/// called with the same stream drop different elements. Two calls of one layer drop the same
/// elements unless each call gets a separate mode, such as mode.at(0) and mode.at(1).
///
/// [1] Srivastava et al. 2014, "Dropout: A Simple Way to Prevent Neural Networks from Overfitting".
class Dropout {
 public:
  Dropout(const Scope& scope, double rate);                    ///< A layer at the path of `scope`.
  Tensor operator()(const Tensor& x, const Mode& mode) const;  ///< x (any shape) -> the same shape
  /// dropout(max(x, 0)), in one pass over memory.
  Tensor after_relu(const Tensor& x, const Mode& mode) const;

 private:
  const std::string* path_;
  double rate_;
};

/// Applies layers and functions in order, each to the output of the previous layer.
///
///     const Sequential mlp{Linear(scope / 0, 784, 128), relu, Dropout(scope / 2, 0.1),
///                          Linear(scope / 3, 128, 10)};
///     const Tensor logits = mlp(x, Mode::inference());
///
///   parameters  the parameters of the layers, in the order of the layers
///   call        the input of the first layer, a tensor or ids -> the output of the last layer.
///               Each layer is called with (x, mode) if it accepts a mode, else with (x)
///   throws      the errors of the layers; ValueError if a layer needs a mode and the call has no
///               mode, or if the first layer does not take the type of the input
///
/// A Sequential is a value: a copy has the same parameters. A Sequential without layers returns its
/// input.
class Sequential {
 public:
  class Layer;

  /// A sequence without layers.
  Sequential() = default;
  /// Takes copies of layers, of functions such as `relu`, of lambdas, and of other sequences.
  Sequential(std::initializer_list<Layer> layers);

  /// The output of the last layer.
  Tensor operator()(const Tensor& x, const Mode& mode) const { return run(x, &mode); }
  Tensor operator()(const Ids& x, const Mode& mode) const { return run(x, &mode); }  ///< \overload
  /// Calls layers that take no mode.
  Tensor operator()(const Tensor& x) const { return run(x, nullptr); }
  Tensor operator()(const Ids& x) const { return run(x, nullptr); }  ///< \overload

 private:
  Tensor run(const Tensor& x, const Mode* mode) const;
  Tensor run(const Ids& x, const Mode* mode) const;
  Tensor run_from(std::size_t first, Tensor x, const Mode* mode) const;

  std::vector<Layer> layers_;
};

/// A layer of a Sequential, made from anything that is called with (x) or (x, mode), where x is a
/// tensor or, in the first layer, ids, and that returns a tensor.
class Sequential::Layer {
 public:
  /// A function such as `tanh`, for which `<cmath>` may have other overloads.
  Layer(Tensor (*function)(const Tensor&)) : of_tensor_(make_call<Tensor>(function)) {}
  /// A nested sequence, as one layer.
  Layer(const Sequential& layers);
  /// A copy of a layer or a lambda. A layer that takes both tensors and ids is called with tensors.
  template <class F>
  Layer(F layer) {
    if constexpr (is_called_with<F, Tensor>) {
      of_tensor_ = make_call<Tensor>(std::move(layer));
    } else {
      static_assert(is_called_with<F, Ids>,
                    "a layer of a Sequential is called with (x, mode) or (x), where x is a Tensor "
                    "or, in the first layer, Ids, and returns a Tensor");
      of_ids_ = make_call<Ids>(std::move(layer));
    }
  }

 private:
  friend class Sequential;

  template <class Input>
  using Call = std::function<Tensor(const Input&, const Mode*)>;

  template <class F, class Input>
  static constexpr bool is_called_with =
      std::is_invocable_r_v<Tensor, const F&, const Input&, const Mode&> ||
      std::is_invocable_r_v<Tensor, const F&, const Input&>;

  template <class Input, class F>
  static Call<Input> make_call(F layer) {
    return [layer = std::move(layer)](const Input& x, const Mode* mode) -> Tensor {
      if constexpr (std::is_invocable_r_v<Tensor, const F&, const Input&, const Mode&>) {
        if (mode != nullptr) return layer(x, *mode);
      }
      if constexpr (std::is_invocable_r_v<Tensor, const F&, const Input&>) {
        return layer(x);
      } else {
        throw_no_mode();
      }
    };
  }
  [[noreturn]] static void throw_no_mode();

  Call<Tensor> of_tensor_;  ///< empty if the layer takes only ids
  Call<Ids> of_ids_;        ///< empty if the layer takes only tensors
};

/// The activation between the two linear maps of a feed-forward block. gelu is exact (erf);
/// gelu_tanh is the tanh approximation of gelu. swiglu and geglu are gated [1]: the first map is
/// twice as wide and yields values and gates, and the output is value * silu(gate) or value *
/// gelu(gate).
///
/// [1] Shazeer 2020, "GLU Variants Improve Transformer", eq. 6.
enum class Activation {
  relu,       ///< max(x, 0)
  gelu,       ///< x Phi(x), exact
  gelu_tanh,  ///< the tanh approximation of gelu
  silu,       ///< x sigmoid(x)
  swiglu,     ///< value * silu(gate)
  geglu       ///< value * gelu(gate)
};

/// Whether the activation has a gate: swiglu and geglu.
constexpr bool is_gated(Activation activation) {
  return activation == Activation::swiglu || activation == Activation::geglu;
}

/// Options of FeedForward. The member initializers are the defaults.
///
/// [1] Vaswani et al. 2017, section 3.3.
struct FeedForwardOptions {
  std::size_t d_ff = 0;                      ///< hidden width; 0: 4 * d_model, as in [1]
  Activation activation = Activation::relu;  ///< function between the two linear maps
  double dropout = 0.0;                      ///< dropout rate of the activation's output, in [0, 1]
};

/// Position-wise feed-forward network [1]: linear2(dropout(activation(linear1(x)))).
///
///   parameters  linear1: Linear (d_model -> d_ff); linear2: Linear (d_ff -> d_model). With a gated
///               activation linear1 is (d_model -> 2 d_ff): d_ff values, then d_ff gates
///   call        x (..., d_model) -> (..., d_model)
///   throws      ShapeError if the last axis of x is not d_model, ValueError if the rate is outside
///               [0, 1]
///
/// [1] Vaswani et al. 2017, section 3.3, eq. 2.
class FeedForward {
 public:
  /// Creates the parameters.
  FeedForward(const Scope& scope, std::size_t d_model, const FeedForwardOptions& options = {});
  /// x (..., d_model) -> (..., d_model)
  Tensor operator()(const Tensor& x, const Mode& mode) const;

 private:
  const std::string* path_;
  Linear linear1_, linear2_;
  Activation activation_;
  Dropout dropout_;
};

}  // namespace tapestry
