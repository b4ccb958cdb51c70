// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autograd/frozen_branches.h"
#include "autograd/named_tensor.h"
#include "autograd/random.h"
#include "autograd/tape.h"

namespace tapestry::gradcheck_detail {

/// The objectives that a gradient check differentiates: the number <w, y> for each output y of a
/// function, with random weights w.
class Objectives {
 public:
  using Function = std::function<std::vector<NamedTensor>()>;

  /// throws  ValueError if the function returns different values when it is called again.
  Objectives(Function function, std::uint64_t seed);

  /// Sets the weights of the elements of output k to 0 where dy is exactly 0.
  void mask_zero_gradients(std::size_t k, const Tensor& dy);

  std::size_t count() const { return outputs_.size(); }
  const std::string& name(std::size_t k) const { return outputs_[k].name; }
  /// Rounding error of objective k, if each element of y has an independent error of at most
  /// epsilon times its size. The error of the sum of the products is negligible.
  double rounding(std::size_t k) const { return outputs_[k].rounding; }
  /// The weight of output k if it has one element, otherwise 1. Divide the value and gradients of
  /// objective k by it to obtain those of the output.
  double unit(std::size_t k) const { return outputs_[k].unit; }

  /// The value of objective k when the constructor ran.
  double value_at_start(std::size_t k) const { return outputs_[k].value; }

  /// All objectives at the tensors' current values, without a tape and with the branches of
  /// piecewise operations frozen as they were in the constructor.
  std::vector<double> values() const;

  /// Gradients of objective k with respect to leaves; an empty Tensor for a leaf that the objective
  /// does not depend on. Throws ValueError, naming the operation, if the backward of an operation
  /// changes its dL/dy.
  std::vector<Tensor> gradients(std::size_t k, std::span<const NamedTensor> leaves,
                                TapeObserver* observer = nullptr) const;

 private:
  struct Output {
    std::string name = {};
    Tensor y = {}, weights = {};
    double value = 0.0;
    double rounding = 0.0;
    double unit = 1.0;
  };

  void require_repeatable(const std::vector<NamedTensor>& outputs) const;
  void require_same_when_frozen(const std::vector<NamedTensor>& outputs) const;
  void measure(Output& output) const;

  Function function_;
  std::vector<Output> outputs_;
  mutable FrozenBranches branches_;  // recorded in the constructor
};

/// n random numbers in [-1.5, -0.5] or [0.5, 1.5], which excludes numbers near zero.
std::vector<double> signed_weights(std::size_t n, const RandomStream& random);

}  // namespace tapestry::gradcheck_detail
