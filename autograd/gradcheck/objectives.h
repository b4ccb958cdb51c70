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

/// The numbers that a gradient check differentiates: <w, y> for each output y of a function.
class Objectives {
 public:
  using Function = std::function<std::vector<NamedTensor>()>;

  /// throws  ValueError if the function returns different values when it is called again.
  Objectives(Function function, std::uint64_t seed);

  /// Sets the weights of the elements of output k to 0 where dy is exactly 0.
  void mask_zero_gradients(std::size_t k, const Tensor& dy);

  std::size_t count() const { return outputs_.size(); }
  const std::string& name(std::size_t k) const { return outputs_[k].name; }
  /// Rounding error of number k, if the error of each element of y is its size times epsilon at
  /// most, independently of the others; the sum of the products is exact in comparison.
  double rounding(std::size_t k) const { return outputs_[k].rounding; }
  /// The factor in the numbers and gradients of output k: the weight of an output with one element,
  /// else 1.
  double unit(std::size_t k) const { return outputs_[k].unit; }

  /// Number k at the values that the tensors had in the constructor.
  double value_at_start(std::size_t k) const { return outputs_[k].value; }

  /// All of them at the tensors' present values, without a tape and with the branches of
  /// piecewise operations frozen as they were at the start.
  std::vector<double> values() const;

  /// Gradients of number k with respect to leaves; no tensor for a leaf that it does not depend on.
  /// Throws ValueError, naming the operation, if a backward changes the dL/dy that it is given.
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

  void measure(Output& output) const;

  Function function_;
  std::vector<Output> outputs_;
  mutable FrozenBranches branches_;  // at the start
};

/// n random numbers in +-[0.5, 1.5]: of either sign, uneven, none near zero.
std::vector<double> signed_weights(std::size_t n, const RandomStream& random);

/// The coordinates of a tensor to move one at a time, in ascending order: all of them if there are
/// at most `most`. Otherwise `most` of them: a quarter with the largest gradients, a quarter with a
/// gradient of exactly zero if there are that many, and the rest random.
///
/// gradients  each empty (all zero) or with one value for each of the `size` coordinates
std::vector<std::size_t> coordinates_to_check(std::size_t size, std::size_t most,
                                              std::span<const std::span<const double>> gradients,
                                              const RandomStream& random);

}  // namespace tapestry::gradcheck_detail
