// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "train/tasks/task.h"

namespace tapestry {

/// Consecutive tokens with a common type, such as the entity PER.
struct TaggedSpan {
  std::string type;
  std::size_t begin, end;  ///< index of the first token, and of the token after the last token

  friend auto operator<=>(const TaggedSpan&, const TaggedSpan&) = default;
};

/// The spans of a sentence with BIO labels, "B-PER", "I-PER" and "O", or BIOES labels. Follows
/// conlleval and seqeval: a span begins at B and S, and at I or E if no span of the same type is
/// open; it ends before the next B, S or O, after E and S, and where the type changes. Labels must
/// not be empty.
std::vector<TaggedSpan> find_spans(std::span<const std::string> labels);

/// Micro-averaged F1 of predicted spans: 2 P R / (P + R) for precision P and recall R over all
/// sentences; 0 if no spans are predicted or no spans are expected.
class SpanF1 {
 public:
  void add(std::span<const std::string> expected, std::span<const std::string> predicted);
  double value() const;

 private:
  std::size_t expected_ = 0, predicted_ = 0, both_ = 0;
};

}  // namespace tapestry
