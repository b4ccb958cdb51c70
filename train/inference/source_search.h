// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "autograd/random.h"
#include "autograd/tensor.h"
#include "train/inference/beam_search.h"

namespace tapestry {

/// The most likely next tokens of a hypothesis and their log-probabilities, in descending order.
struct NextTokens {
  std::span<const std::int32_t> ids;
  std::span<const double> log_probabilities;
};

/// The logits of the tokens that follow the hypotheses in the rows of a batch.
class NextLogits {
 public:
  /// logits  (rows, vocabulary)
  /// k       the number of most likely tokens that best() returns, or all tokens if there are
  ///         fewer; 0: best() is not used
  NextLogits(const Tensor& logits, std::size_t k);

  /// The k most likely tokens after the hypothesis in a row.
  NextTokens best(std::size_t row) const;
  /// The logits of all tokens after the hypothesis in a row.
  std::vector<double> all(std::size_t row) const;
  /// Whether the softmax of the logits of a row is defined: no logit is NaN or +infinity.
  bool has_softmax(std::size_t row) const;

 private:
  Tensor logits_;
  std::size_t k_;
  std::vector<std::int32_t> ids_;
  std::vector<double> log_probabilities_;
};

/// Searches for the outputs of one source, or samples them. Hypotheses are in slots, which are
/// consecutive rows of a batch; a slot without a hypothesis has the log-probability -inf.
class SourceSearch {
 public:
  /// input, options  must outlive the search
  /// max_length      maximum tokens of an output, >= 1; the prefix is not cut
  SourceSearch(const SearchInput& input, std::size_t max_length, const SearchOptions& options);

  /// The number of slots after the first step. The first step has one slot.
  static std::size_t slots(const SearchOptions& options) {
    return options.sampling ? options.num_best : options.beam_size;
  }

  bool is_done() const { return done_; }
  /// The last token of the hypothesis in a slot.
  std::int32_t last_token(std::size_t slot) const;

  /// Extends all hypotheses by one token. Row first_row + i of `next` belongs to slot i. Returns
  /// the old slot that each new slot continues.
  std::vector<std::size_t> advance(const NextLogits& next, std::size_t first_row);

  /// The best outputs.
  std::vector<Hypothesis> results() const;

 private:
  /// A hypothesis that is not finished.
  struct Live {
    Sentence tokens;
    double log_probability;
    std::size_t sample = 0;  // number of the output that is sampled
  };
  /// An extension of the hypothesis in slot `parent` by one token.
  struct Extension {
    std::size_t parent;
    std::int32_t token;
    double log_probability;
    std::size_t sample = 0;
  };

  double normalized(double log_probability, std::size_t tokens) const;
  void finish(Sentence tokens, double log_probability);
  bool fail_without_softmax(const NextLogits& next, std::size_t first_row);
  bool is_constrained(const Sentence& tokens) const;
  void exclude_forbidden(const Sentence& tokens, std::vector<double>& scores) const;
  Extension forced_extension(const NextLogits& next, std::size_t first_row) const;
  void add_best(std::size_t slot, const NextTokens& next, std::vector<Extension>& all) const;
  void add_best_allowed(std::size_t slot, std::vector<double> logits,
                        std::vector<Extension>& all) const;
  std::vector<Extension> best_extensions(const NextLogits& next, std::size_t first_row);
  std::vector<Extension> sampled_extensions(const NextLogits& next, std::size_t first_row);
  std::vector<std::size_t> occupy_slots(const std::vector<Extension>& extensions);
  std::vector<std::size_t> own_slots() const;
  bool can_improve() const;

  const SearchInput* input_;
  std::size_t max_length_;
  const SearchOptions* options_;
  RandomStream random_;
  std::vector<Live> live_;  // unfinished hypotheses, indexed by slot
  std::vector<Hypothesis> finished_;
  std::size_t length_ = 0;  // length of the hypotheses in slots
  bool done_ = false;
};

}  // namespace tapestry
