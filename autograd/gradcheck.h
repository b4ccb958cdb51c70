#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "autograd/named_tensor.h"

namespace tapestry {

struct GradcheckOptions {
  double step = 1e-3;                ///< largest distance of the first differences, > 0
  double tolerance = 1e-6;           ///< relative error beyond which a gradient is wrong
  std::size_t max_coordinates = 64;  ///< of each tensor; a larger one is sampled
  std::uint64_t seed = 1;            ///< of output weights and sampled coordinates
};

/// What a comparison came to. A difference that contradicts itself at different step sizes, at a
/// kink or by cancellation, tells nothing: that is never counted as agreement.
enum class GradcheckVerdict { agrees, wrong, cannot_tell };
const char* name(GradcheckVerdict verdict);

/// What was found for one tensor.
struct GradcheckRow {
  std::string name;
  Shape shape;
  double gradient_norm = 0.0;
  /// max over the checked coordinates of |analytic - numeric| / max(|analytic|, |numeric|, scale),
  /// where scale is the root mean square of the tensor's gradient: a coordinate whose gradient is
  /// tiny beside the others' is measured against them. NaN anywhere makes it infinite. Coordinates
  /// that could not be told do not count.
  double worst_relative_error = 0.0;
  std::size_t worst_coordinate = 0;
  double analytic = 0.0, numeric = 0.0;  ///< at the worst coordinate
  std::size_t coordinates_checked = 0;
  std::size_t coordinates_untold = 0;  ///< of those, could not be told
  bool reached = true;                 ///< false if the output does not depend on the tensor
  /// `wrong` if any coordinate is, else `cannot_tell` if more than half of them could not be told.
  GradcheckVerdict verdict = GradcheckVerdict::agrees;
};

struct GradcheckReport {
  std::vector<GradcheckRow> rows;
  std::size_t count(GradcheckVerdict verdict) const;
  double worst_relative_error() const;
};

/// Compares the gradients of `function` with central differences.
///
/// The scalar that is differentiated is <w, function()> for uneven random weights of either sign
/// (in
/// +-[0.5, 1.5]): the plain sum of an output hides errors, since a softmax backward of all zeros
/// passes it. Differences at step, step/2, step/4 and step/8 are extrapolated to step 0
/// (Richardson), which leaves an error of order step^8 and, from its last two columns, an estimate
/// of it. Where the estimate is too large to judge by, steps a sixteenth and then a 256th as long
/// are tried: they are less likely to cross the kink of a ReLU.
///
/// function  computes an output of any shape from the tensors; called many times, with and without
/// a
///           tape; must return the same for the same values (dropout: the same stream).
/// tensors   float64 leaves that require gradients. Their values are restored, gradients cleared.
/// throws    DTypeError for float32, ValueError for a tensor that requires no gradient.
GradcheckReport gradcheck(const std::function<Tensor()>& function,
                          std::span<const NamedTensor> tensors,
                          const GradcheckOptions& options = {});

}  // namespace tapestry
