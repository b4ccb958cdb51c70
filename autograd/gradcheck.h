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

struct GradcheckOptions {
  double step = 1e-3;                ///< step of the first finite differences, > 0
  double tolerance = 1e-6;           ///< relative error beyond which a gradient is wrong
  std::size_t directions = 3;        ///< random directions along which each whole tensor is moved
  std::size_t max_coordinates = 64;  ///< of each tensor; a larger one is sampled
  std::uint64_t seed = 1;            ///< of output weights, directions and sampled coordinates
  bool locate = true;                ///< find the wrong operation, if a gradient is wrong
};

/// The result of a comparison. It is inconclusive if the finite differences of different step sizes
/// contradict each other, at a kink or by cancellation; that never counts as agreement.
enum class GradcheckVerdict { agrees, wrong, inconclusive };
const char* name(GradcheckVerdict verdict);

/// How many comparisons of a kind were made, and how many of them were inconclusive.
struct GradcheckCount {
  std::size_t checked = 0;
  std::size_t inconclusive = 0;
};

/// The result for one tensor and one output.
struct GradcheckRow {
  std::string output =
      {};                 ///< name of the output that is differentiated; empty if there is only one
  std::string name = {};  ///< of the tensor
  Shape shape = {};
  bool has_gradient = true;    ///< false if backward gave the tensor no gradient
  bool zero = false;           ///< the gradient is zero everywhere, except for rounding
  double gradient_norm = 0.0;  ///< of dL/dx, where L is the output if it is one number and its sum
                               ///< under random weights otherwise

  /// max over all conclusive comparisons of |analytic - numeric| / max(|analytic|, |numeric|,
  /// scale), where scale is the root mean square of the tensor's gradient (its norm, for a
  /// direction): the error of a coordinate with a tiny gradient is relative to the other gradients.
  /// NaN or infinity anywhere makes it infinite.
  double worst_relative_error = 0.0;
  /// Row-major; none if the worst error is that of a direction, or if nothing was compared.
  std::optional<std::size_t> worst_coordinate = {};
  double analytic = 0.0, numeric = 0.0;  ///< there

  GradcheckCount coordinates = {}, directions = {};
  /// An inconclusive coordinate, if any.
  std::optional<std::size_t> inconclusive_coordinate = {};
  /// Of the two gradients on the checked coordinates: their cosine, and the c that minimizes
  /// |analytic
  /// - c numeric|. NaN if the numeric gradient, or both, are zero.
  double cosine = 1.0, factor = 1.0;

  /// `wrong` if any comparison is, or if the gradient is not finite; else `inconclusive` if a
  /// coordinate is, if fewer directions than requested are conclusive, or if nothing was compared;
  /// else `agrees`.
  GradcheckVerdict verdict = GradcheckVerdict::agrees;
};

/// The first recorded operation that gives a wrong gradient when it is checked alone, on its
/// inputs.
struct FaultyOperation {
  std::size_t index = 0;           ///< in the order in which operations were recorded, from 0
  std::size_t recorded = 0;        ///< number of recorded operations
  std::string operation = {};      ///< its name
  std::string layer_path = {};     ///< empty outside of layers
  std::size_t input = 0;           ///< the input with the wrong gradient, from 0
  std::vector<Shape> inputs = {};  ///< shapes; () for an absent one
  GradcheckRow row = {};           ///< the result for that input
};

struct GradcheckReport {
  std::vector<GradcheckRow> rows;  ///< output by output, tensors in the order given
  /// Empty if nothing is wrong, if it was not requested, or if every operation is right alone: then
  /// the contributions to a gradient are accumulated wrongly.
  std::optional<FaultyOperation> first_wrong;

  std::size_t count(GradcheckVerdict verdict) const;
  double worst_relative_error() const;
};

/// Compares the gradients of `function` with central differences.
///
/// The scalar that is differentiated is <w, function()> for uneven random weights of either sign,
/// +-[0.5, 1.5]: the plain sum of an output hides errors, because a softmax backward of all zeros
/// passes it. Each whole tensor is first moved along random directions with uneven steps of either
/// sign, which covers every coordinate; if that is wrong, bisection finds a wrong coordinate. Then
/// single coordinates are moved: all of a small tensor; of a large one those with the
/// largest gradients, exact zeros, and random ones.
///
/// Differences at step, step/2, step/4 and step/8 are extrapolated to step 0 (Richardson), which
/// leaves an error of order step^8 and, from its last two columns, an estimate of it. If the
/// estimate is too large for a verdict, steps of 1/16 and then 1/256 of the length are tried, which
/// are less likely to cross a kink. Those of relu and max are never crossed, because their
/// branches are frozen at the start (frozen_branches.h). Exactly at a kink the result is
/// inconclusive.
///
/// function  computes an output of any shape from the tensors; called many times, with a tape
///           and without; must return the same for the same values (dropout: the same stream).
/// tensors   float64 leaves that require gradients. Their values are restored, also if `function`
///           throws, and their gradients cleared.
///           Other leaves that the function reaches get gradients, as by any backward.
/// throws    DTypeError for float32; ValueError for a tensor that requires no gradient, for options
///           that are not > 0, and for a function that returns nothing or different values when it
///           is called again; ShapeError for an output whose shape changes.
GradcheckReport gradcheck(const std::function<Tensor()>& function,
                          std::span<const NamedTensor> tensors,
                          const GradcheckOptions& options = {});

inline GradcheckReport gradcheck(const std::function<Tensor()>& function,
                                 std::initializer_list<NamedTensor> tensors,
                                 const GradcheckOptions& options = {}) {
  return gradcheck(function, std::span(tensors.begin(), tensors.size()), options);
}

/// The same for several outputs, each of which is differentiated by itself: one forward serves the
/// differences of all.
GradcheckReport gradcheck_outputs(const std::function<std::vector<NamedTensor>()>& function,
                                  std::span<const NamedTensor> tensors,
                                  const GradcheckOptions& options = {});

/// The report as text: a line for each tensor, then tensors without a gradient, with an all-zero
/// gradient or are inconclusive, then a description of what is wrong.
std::string to_string(const GradcheckReport& report);

}  // namespace tapestry
