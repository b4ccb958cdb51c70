// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/metrics/text_metric.h"

namespace tapestry {

/// How BLEU splits sentences into tokens.
enum class BleuTokenizer {
  mteval_13a,     ///< `13a`: mteval-v13a, splits ASCII punctuation; used by WMT and most papers
  none,           ///< `none`: splits at white space, for text that is already tokenized
  character,      ///< `char`: splits every character
  international,  ///< `intl`: mteval-v14, splits Unicode punctuation and symbols
  chinese         ///< `zh`: splits every Chinese character, and other text like 13a
};

/// How BLEU treats n-gram orders that have no match, see Chen & Cherry 2014, "A systematic
/// comparison of smoothing techniques for sentence-level BLEU".
enum class BleuSmoothing {
  none,         ///< the score is 0
  exponential,  ///< `exp`: counts 1/2, 1/4, ... match for the first, second, ... of these orders
  floor,        ///< `floor`: counts smooth_value matches, by default 0.1
  add_k         ///< `add-k`: adds smooth_value, by default 1, to the counts of orders n >= 2
};

/// The options of BLEU, with the defaults of sacreBLEU.
struct BleuOptions {
  BleuTokenizer tokenizer = BleuTokenizer::mteval_13a;   ///< splits sentences into tokens
  bool lowercase = false;                                ///< ignores case
  BleuSmoothing smoothing = BleuSmoothing::exponential;  ///< method for orders without a match
  std::optional<double> smooth_value = {};               ///< value for `floor` and `add_k`; >= 0
  std::size_t max_order = 4;                             ///< maximum order of n-grams, >= 1
  bool effective_order = false;  ///< leaves out orders without n-grams; for single sentences
};

/// The options of tokenized lowercase BLEU as computed by multi-bleu.perl -lc: for tokenized text,
/// without smoothing. The script lowercases only ASCII letters; Bleu lowercases all letters, as
/// most papers do before they run the script.
BleuOptions multi_bleu_options();

/// BLEU [1] and its components.
struct BleuScore {
  double score = 0.0;              ///< in percent
  std::vector<double> matches;     ///< clipped matches of each order, smoothed with add_k
  std::vector<double> totals;      ///< n-grams of each order, smoothed with add_k
  std::vector<double> precisions;  ///< precision of each order, in percent, smoothed
  double brevity_penalty = 1.0;    ///< in [0, 1]
  double hypothesis_length = 0.0;  ///< in tokens
  double reference_length = 0.0;   ///< in tokens
};

/// BLEU [1] as sacreBLEU [2] computes it:
///
///   BLEU = BP exp(1/N sum_n log p_n),  p_n = clipped matches / n-grams of the hypotheses,
///   BP = min(1, exp(1 - r / c)),
///
/// for N = max_order, c tokens in all hypotheses, and r tokens in the references whose lengths are
/// closest to the lengths of their hypotheses (the shorter of two equally close references).
/// Matches, n-grams and lengths are summed over the corpus. The score of a corpus without any match
/// is 0.
///
/// [1] Papineni et al. 2002, "BLEU: a method for automatic evaluation of machine translation".
/// [2] Post 2018, "A call for clarity in reporting BLEU scores".
class Bleu : public TextMetric {
 public:
  /// throws  std::invalid_argument if an option is outside its range.
  explicit Bleu(const BleuOptions& options = {});

  std::string name() const override { return "BLEU"; }
  double score(std::span<const double> sums) const override { return compute_score(sums).score; }
  /// For example "66.7/40.0/25.0/16.7 (BP = 1.000 ratio = 1.000 hyp_len = 6 ref_len = 6)"
  std::string details(std::span<const double> sums) const override;

  /// The score and its components.
  ///
  /// sums  [c, r, matches of order 1 ... N, n-grams of order 1 ... N]
  BleuScore compute_score(std::span<const double> sums) const;

  /// The tokens of a sentence with one space between them, for tests and messages.
  std::string tokenize(const std::string& sentence) const;

 private:
  std::size_t width() const override { return 2 + 2 * options_.max_order; }
  void compute(const std::u32string& hypothesis, const std::vector<std::u32string>& references,
               std::span<double> statistics) const override;
  Settings settings() const override;

  BleuOptions options_;
};

}  // namespace tapestry
