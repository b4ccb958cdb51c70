// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "autograd/named_tensor.h"

namespace tapestry {

/// Options of `gradcheck`. The member initializers are the defaults.
struct GradcheckOptions {
  double step = 1e-3;                ///< step of the first finite differences, > 0
  double tolerance = 1e-6;           ///< relative error above which a gradient is always wrong
  std::size_t directions = 3;        ///< random directions per tensor
  std::size_t max_coordinates = 64;  ///< coordinates per tensor; larger tensors are sampled
  std::uint64_t seed = 1;            ///< seed of output weights, directions and sampled coordinates
  bool locate = true;                ///< whether to find the operation with a wrong gradient
};

/// The result of a comparison. It is inconclusive if finite differences of different step sizes
/// contradict each other, because of a kink or cancellation; this never counts as agreement.
enum class GradcheckVerdict {
  agrees,        ///< the gradients are equal up to the smallest detectable error
  wrong,         ///< the gradients differ, or one gradient is not finite
  inconclusive,  ///< the finite differences do not allow a verdict
  /// neither is distinguishable from zero: both are below the rounding error of the output
  too_small
};
/// "agrees", "wrong", "inconclusive" or "too small".
const char* name(GradcheckVerdict verdict);

/// Numbers of comparisons of one kind.
struct GradcheckCount {
  std::size_t checked = 0;       ///< all comparisons
  std::size_t inconclusive = 0;  ///< comparisons without a verdict
  /// Number of comparisons with a verdict.
  std::size_t conclusive() const { return checked - inconclusive; }
};

/// The result for one tensor and one output.
struct GradcheckRow {
  std::string output = {};     ///< name of the differentiated output; empty if there is only one
  std::string name = {};       ///< name of the tensor
  Shape shape = {};            ///< shape of the tensor
  bool has_gradient = true;    ///< false if backward computed no gradient for the tensor
  bool zero = false;           ///< the gradient is zero everywhere, up to rounding
  double gradient_norm = 0.0;  ///< |dL/dx|, where L is the output or its random weighted sum
  double least_norm = 0.0;     ///< norms up to this value cannot be distinguished from zero

  /// max over all conclusive comparisons of |analytic - numeric| / max(|analytic|, |numeric|,
  /// scale), where scale is the root mean square of the tensor's gradient (or its norm, for a
  /// comparison along a direction), so that the error of a coordinate with a tiny gradient is
  /// relative to the other coordinates. Infinite if any value is NaN or infinite, or if no
  /// comparison is conclusive.
  double worst_relative_error = 0.0;
  /// Row-major index; nullopt if the worst error is along a direction, or if nothing was compared.
  std::optional<std::size_t> worst_coordinate = {};
  double analytic = 0.0;  ///< gradient from backward at the worst coordinate
  double numeric = 0.0;   ///< the finite difference at the worst coordinate

  GradcheckCount coordinates = {};  ///< comparisons of single coordinates
  GradcheckCount directions = {};   ///< comparisons along random directions
  /// Row-major index of an inconclusive coordinate, if any.
  std::optional<std::size_t> inconclusive_coordinate = {};
  /// Cosine of the angle between the two gradients at the checked coordinates; NaN if either of
  /// them is zero.
  double cosine = 1.0;
  /// The factor c that minimizes |analytic - c numeric| over the checked coordinates: 2 for a
  /// gradient that is counted twice. NaN if the numeric gradient is zero.
  double factor = 1.0;

  /// `wrong` if any comparison is wrong or the gradient is not finite; else `inconclusive` if a
  /// coordinate is inconclusive, if fewer directions than requested are conclusive, or if nothing
  /// was compared; else `too_small` if any comparison is too small; else `agrees`.
  GradcheckVerdict verdict = GradcheckVerdict::agrees;
};

/// An input of an operation with a wrong gradient.
struct FaultyInput {
  std::size_t input = 0;  ///< index of the input, from 0
  GradcheckRow row = {};  ///< the result for this input
};

/// The first recorded operation whose gradient is wrong when the operation is checked individually,
/// on its inputs.
struct FaultyOperation {
  std::size_t index = 0;                       ///< position in recording order, from 0
  std::size_t recorded = 0;                    ///< number of recorded operations
  std::string operation = {};                  ///< name of the operation
  std::string layer_path = {};                 ///< path of the layer; empty outside of layers
  std::vector<Shape> inputs = {};              ///< shapes of the inputs; () for an absent input
  std::vector<FaultyInput> wrong_inputs = {};  ///< inputs with a wrong gradient, at least one
};

/// The results of `gradcheck`; to_string() describes them.
struct GradcheckReport {
  std::vector<GradcheckRow> rows;  ///< one for each output and tensor, grouped by output
  /// nullopt if nothing is wrong, if `locate` was false, or if every operation is correct
  /// individually. In the last case, the contributions to a gradient are accumulated incorrectly.
  std::optional<FaultyOperation> first_wrong;

  /// Number of rows with this verdict.
  std::size_t count(GradcheckVerdict verdict) const;
  /// The maximum over all rows; infinite if any value was NaN or infinite, or if there is a tensor
  /// without a conclusive comparison.
  double worst_relative_error() const;
  /// Whether no gradient is wrong and at least one comparison of a gradient that is not too small
  /// is conclusive.
  bool passed() const;
};

/// Compares the gradients of `function` with central differences.
///
/// The check differentiates the scalar <w, function()> with random weights w of magnitude 0.5 to
/// 1.5. A plain sum of the output would hide errors: a softmax backward that returns zeros would
/// pass. First each whole tensor is moved along random directions with uneven steps of either sign,
/// which covers every coordinate; if a direction is wrong, bisection finds a wrong coordinate. Then
/// single coordinates are moved: all coordinates of a small tensor; for a large tensor those with
/// the largest gradients, coordinates with a gradient of exactly zero, and random coordinates.
///
/// Differences with step, step/2, step/4 and step/8 are extrapolated to step 0 (Richardson), with
/// an error of order step^8; the last two columns and the measured noise of the function give an
/// estimate of the error. A gradient is wrong if its error is at least 100 times this estimate, or
/// if its relative error exceeds the tolerance. Errors below 1e-9 may be rounding of the gradient
/// itself and are never wrong. If the estimate is large, other steps are tried: longer steps
/// against noise, and 1/16 and then 1/256 of the steps, which are less likely to cross a kink. The
/// kinks of relu and max are never crossed, because their branches are frozen (frozen_branches.h).
/// At a kink, the result is inconclusive.
///
/// function  computes an output of any shape from the tensors; called many times, with and without
///           a tape; must return equal outputs for equal values (dropout: use the same stream).
/// tensors   float64 leaves that require gradients. Their values are restored, even if `function`
///           throws, and their gradients are cleared. Other leaves that the function depends on
///           receive gradients, as in any backward pass.
/// throws    DTypeError for float32; ValueError for a tensor that does not require a gradient, for
///           options that are not > 0, for a function that returns no tensor or different values
///           for equal inputs, and for an operation whose backward writes to its dL/dy; ShapeError
///           for an output whose shape changes.
GradcheckReport gradcheck(const std::function<Tensor()>& function,
                          std::span<const NamedTensor> tensors,
                          const GradcheckOptions& options = {});
/// \overload
inline GradcheckReport gradcheck(const std::function<Tensor()>& function,
                                 std::initializer_list<NamedTensor> tensors,
                                 const GradcheckOptions& options = {}) {
  return gradcheck(function, std::span(tensors.begin(), tensors.size()), options);
}

/// Like gradcheck() for a function with several outputs. Each output is differentiated separately;
/// one forward pass gives the finite differences of all outputs.
GradcheckReport gradcheck_outputs(const std::function<std::vector<NamedTensor>()>& function,
                                  std::span<const NamedTensor> tensors,
                                  const GradcheckOptions& options = {});

/// The report as text: a line for each tensor, then tensors without a gradient, with an all-zero
/// gradient or with inconclusive results, then a description of what is wrong.
std::string to_string(const GradcheckReport& report);

}  // namespace tapestry
