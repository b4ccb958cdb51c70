#pragma once

#include <cstddef>

namespace tapestry {

/// Contents of a report.
struct ReportOptions {
  std::size_t examples = 20;            ///< held-out examples with the model's output, of each run
  std::size_t attention = 4;            ///< held-out examples with attention weights, of each run
  std::size_t scored = 2000;            ///< maximum number of held-out examples to score
  std::size_t curve_points = 2000;      ///< maximum points of a curve of one run, >= 4; of several
                                        ///< runs they are divided among the runs, at least 100
  std::size_t attention_tokens = 64;    ///< maximum tokens of an example with attention weights
  std::size_t attention_patches = 257;  ///< the same of an image, with the class token
  std::size_t attention_bytes = 8'000'000;  ///< maximum bytes of attention weights, of each run
  /// Whether checkpoints and data are read for the model, weights, examples and attention, and the
  /// recording and the log of each run are shown. Without, a report of many runs stays small.
  bool details = true;
};

}  // namespace tapestry
