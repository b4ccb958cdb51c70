#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "data/metrics/text_metric.h"

namespace tapestry {

/// The options of TER; the defaults are those of sacreBLEU and TERCOM.
struct TerOptions {
  bool normalized = false;      ///< separate punctuation, replace &quot; &amp; &lt; &gt;
  bool no_punct = false;        ///< delete punctuation
  bool asian_support = false;   ///< apply both to Chinese and Japanese characters, too
  bool case_sensitive = false;  ///< do not lowercase
};

/// TER [1], the translation edit rate, as sacreBLEU and TERCOM compute it:
///
///   TER = 100 edits / reference words,
///
/// where the edits of a sentence are the least number, over its references, of insertions,
/// deletions, substitutions and shifts of word sequences that were found to turn the hypothesis
/// into the reference, and its reference words are the mean length of its references. Shifts are
/// chosen greedily: as long as one reduces the edit distance, the one that reduces it most. Shifts
/// are limited to 10 words, a distance of 50 words and 1,000 candidates for a sentence; the edit
/// distance is computed within 25 words of the diagonal.
///
/// [1] Snover et al. 2006, "A study of translation edit rate with targeted human annotation".
class Ter : public TextMetric {
 public:
  /// TER with these options.
  explicit Ter(const TerOptions& options = {}) : options_(options) {}

  std::string name() const override { return "TER"; }
  bool higher_is_better() const override { return false; }
  /// sums  [edits, reference words]
  double score(std::span<const double> sums) const override;

 private:
  std::size_t width() const override { return 2; }
  void compute(const std::u32string& hypothesis, const std::vector<std::u32string>& references,
               std::span<double> statistics) const override;
  Settings settings() const override;

  TerOptions options_;
};

}  // namespace tapestry
