// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "data/metrics/text_metric.h"

namespace tapestry {

/// Options of chrF. The defaults are those of sacreBLEU. For chrF++, set word_order = 2.
struct ChrfOptions {
  std::size_t char_order = 6;  ///< maximum order of character n-grams, >= 1
  std::size_t word_order = 0;  ///< maximum order of word n-grams
  unsigned beta = 2;           ///< weight of recall relative to precision
  bool lowercase = false;      ///< whether to ignore case
  bool whitespace = false;     ///< whether to keep white space in character n-grams
  bool eps_smoothing = false;  ///< whether to use 1e-16 for undefined values
};

/// chrF [1] and chrF++ [2] as sacreBLEU computes them:
///
///   chrF = (1 + beta^2) P R / (beta^2 P + R),
///
/// where P and R are the means over the orders n of
///
///   P_n = matches / n-grams of the hypotheses,   R_n = matches / n-grams of the references,
///
/// for character n-grams without white space and, for chrF++, word n-grams after separating one
/// ASCII punctuation mark from the end of a word or, if there is none, from its front. Orders
/// without n-grams in the hypotheses or in the references are left out. With eps_smoothing, chrF is
/// the mean of the F scores of all orders instead. With several references per sentence, only the
/// reference with the highest sentence score counts. Matches and n-grams are summed over the
/// corpus.
///
/// [1] Popović 2015, "chrF: character n-gram F-score for automatic MT evaluation".
/// [2] Popović 2017, "chrF++: words helping character n-grams".
class Chrf : public TextMetric {
 public:
  /// throws  std::invalid_argument if an option is outside its range.
  explicit Chrf(const ChrfOptions& options = {});

  /// Returns "chrF", followed by beta and by one "+" for each order of word n-grams.
  std::string name() const override;
  /// sums  for each order, [n-grams in the hypotheses, n-grams in the references, matches]
  double score(std::span<const double> sums) const override;

 private:
  std::size_t width() const override { return 3 * (options_.char_order + options_.word_order); }
  void compute(const std::u32string& hypothesis, const std::vector<std::u32string>& references,
               std::span<double> statistics) const override;
  Settings settings() const override;

  ChrfOptions options_;
};

}  // namespace tapestry
