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
  double step = 1e-3;                ///< largest distance of the first differences, > 0
  double tolerance = 1e-6;           ///< relative error beyond which a gradient is wrong
  std::size_t directions = 3;        ///< random directions in which each tensor is moved as a whole
  std::size_t max_coordinates = 64;  ///< of each tensor; a larger one is sampled
  std::uint64_t seed = 1;            ///< of output weights, directions and sampled coordinates
  bool locate = true;                ///< look for the operation that is wrong, if anything is
};

/// What a comparison came to. A difference that contradicts itself at different step sizes, at a
/// kink or by cancellation, tells nothing: that is never counted as agreement.
enum class GradcheckVerdict { agrees, wrong, cannot_tell };
const char* name(GradcheckVerdict verdict);

/// How many comparisons of a kind were made, and how many of them told nothing.
struct GradcheckCount {
  std::size_t checked = 0;
  std::size_t untold = 0;
};

/// What was found for one tensor and one output.
struct GradcheckRow {
  std::string output = {};  ///< name of the output that is differentiated; empty for an only one
  std::string name = {};    ///< of the tensor
  Shape shape = {};
  bool reached = true;         ///< false if the tape never came to the tensor
  bool zero = false;           ///< the gradient is zero everywhere, but for rounding
  double gradient_norm = 0.0;  ///< of dL/dx, where L is the output if it is one number and its sum
                               ///< under random weights otherwise

  /// max over all comparisons that told something of |analytic - numeric| / max(|analytic|,
  /// |numeric|, scale), where scale is the root mean square of the tensor's gradient (its norm, for
  /// a direction): a coordinate whose gradient is tiny beside the others' is measured against them.
  /// NaN or infinity anywhere makes it infinite.
  double worst_relative_error = 0.0;
  /// Row-major; none if the worst was a direction in which no single coordinate stands out, or if
  /// nothing was compared.
  std::optional<std::size_t> worst_coordinate = {};
  double analytic = 0.0, numeric = 0.0;  ///< there

  GradcheckCount coordinates = {}, directions = {};
  /// A coordinate that could not be told, if any.
  std::optional<std::size_t> untold_coordinate = {};
  /// Of the two gradients on the checked coordinates: their cosine, and the c with which |analytic
  /// - c numeric| is least. NaN if the numeric gradient, or both, are zero.
  double cosine = 1.0, factor = 1.0;

  /// `wrong` if any comparison is, or if the gradient is not finite; else `cannot_tell` if a
  /// coordinate told nothing, if fewer directions did than were asked for, or if nothing was
  /// compared; else `agrees`.
  GradcheckVerdict verdict = GradcheckVerdict::agrees;
};

/// The first recorded operation that gives a wrong gradient when it is checked alone, on the inputs
/// that it had.
struct FaultyOperation {
  std::size_t index = 0;           ///< in the order in which operations were recorded, from 0
  std::size_t recorded = 0;        ///< how many were
  std::string operation = {};      ///< its name
  std::string layer_path = {};     ///< empty outside of layers
  std::size_t input = 0;           ///< which one has the wrong gradient, from 0
  std::vector<Shape> inputs = {};  ///< shapes; () for an absent one
  GradcheckRow row = {};           ///< what was found for that input
};

struct GradcheckReport {
  std::vector<GradcheckRow> rows;  ///< output by output, tensors in the order given
  /// Empty if nothing is wrong, if it was not asked for, or if every operation is right alone: then
  /// contributions to a gradient do not come together as they should.
  std::optional<FaultyOperation> first_wrong;

  std::size_t count(GradcheckVerdict verdict) const;
  double worst_relative_error() const;
};

/// Compares the gradients of `function` with central differences.
///
/// The scalar that is differentiated is <w, function()> for uneven random weights of either sign,
/// +-[0.5, 1.5]: the plain sum of an output hides errors, since a softmax backward of all zeros
/// passes it. Each tensor is first moved as a whole, in random directions with uneven steps of
/// either sign, which reaches every coordinate; where that is wrong, halving finds a coordinate
/// that is. Then coordinates are moved alone: all of a small tensor; of a large one those with the
/// largest gradients, exact zeros, and random ones.
///
/// Differences at step, step/2, step/4 and step/8 are extrapolated to step 0 (Richardson), which
/// leaves an error of order step^8 and, from its last two columns, an estimate of it. Where the
/// estimate is too large to judge by, steps a sixteenth and then a 256th as long are tried: they
/// are less likely to cross a kink. Those of relu and max are never crossed: such operations are
/// held to the pieces on which they stand at the start (pieces.h). Exactly at a kink nothing can be
/// told.
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

/// The report for a reader: a line for each tensor, then what was not reached, is all zero or could
/// not be told, then what is wrong, where and how, in words.
std::string to_string(const GradcheckReport& report);

}  // namespace tapestry
