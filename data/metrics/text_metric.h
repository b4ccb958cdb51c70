// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace tapestry {

/// The version of sacreBLEU that the metrics reproduce; a part of signatures.
inline constexpr const char* sacrebleu_version = "2.6.0";

/// Sufficient statistics of each sentence of a corpus: their sums over any set of sentences
/// determine the score of the set.
class SegmentStatistics {
 public:
  /// `width` zeros for each of `segments` sentences.
  SegmentStatistics(std::size_t segments, std::size_t width)
      : segments_(segments), width_(width), values_(segments * width) {}

  /// The number of sentences.
  std::size_t size() const { return segments_; }
  /// The number of statistics of a sentence.
  std::size_t width() const { return width_; }

  /// The statistics of sentence i.
  std::span<double> operator[](std::size_t i) {
    return std::span(values_).subspan(i * width_, width_);
  }
  /// The statistics of sentence i.
  std::span<const double> operator[](std::size_t i) const {
    return std::span(values_).subspan(i * width_, width_);
  }

  /// The sums over all sentences.
  std::vector<double> sum() const;

 private:
  std::size_t segments_, width_;
  std::vector<double> values_;
};

/// The parts of a signature that the options of the metric do not determine.
struct SignatureUse {
  std::size_t references = 1;         ///< references per sentence
  std::size_t bootstrap_samples = 0;  ///< samples of bootstrap resampling; 0 without resampling
  std::uint64_t seed = 0;             ///< seed of the samples
};

/// A score of translations against references, as sacreBLEU [1] defines it. Scores are in percent.
///
/// [1] Post 2018, "A call for clarity in reporting BLEU scores".
class TextMetric {
 public:
  /// The ordered keys and values of a signature.
  using Settings = std::vector<std::pair<std::string, std::string>>;

  virtual ~TextMetric() = default;

  /// The name in output: BLEU, chrF2, chrF2++.
  virtual std::string name() const = 0;

  /// The statistics of each sentence.
  ///
  /// hypotheses   n sentences, n >= 1
  /// references   at least one list of n sentences; references[r][i] belongs to hypotheses[i]
  /// throws       std::invalid_argument if the numbers of sentences differ or are 0; DataError if a
  ///              sentence is not valid UTF-8.
  SegmentStatistics statistics(const std::vector<std::string>& hypotheses,
                               const std::vector<std::vector<std::string>>& references) const;

  /// The score of a set of sentences, from the sums of their statistics.
  virtual double score(std::span<const double> sums) const = 0;

  /// The components of the score as sacreBLEU prints them; may be empty.
  virtual std::string details(std::span<const double>) const { return ""; }

  /// The score of a corpus: score() of the sums of its statistics().
  double corpus_score(const std::vector<std::string>& hypotheses,
                      const std::vector<std::vector<std::string>>& references) const;

  /// Signature that sacreBLEU prints with a score so that others can reproduce it:
  /// `nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0`.
  std::string signature(const SignatureUse& use = {}) const;
  /// Signature as keys and values.
  Settings signature_fields(const SignatureUse& use = {}) const;

 protected:
  TextMetric() = default;
  /// Only derived types can be copied.
  TextMetric(const TextMetric&) = default;
  /// Only derived types can be copied.
  TextMetric& operator=(const TextMetric&) = default;

 private:
  /// The number of statistics of a sentence.
  virtual std::size_t width() const = 0;

  /// Writes the statistics of one sentence with at least one reference.
  virtual void compute(const std::u32string& hypothesis,
                       const std::vector<std::u32string>& references,
                       std::span<double> statistics) const = 0;

  /// The part of the signature that the options of the metric determine.
  virtual Settings settings() const = 0;
};

// ---- Significance of the difference between two systems, from their statistics of the same
// sentences. All draws are counter-based: a seed gives the same values on every machine.

/// The seed of sacreBLEU.
inline constexpr std::uint64_t default_significance_seed = 12345;

/// The mean score of bootstrap samples, and half the width of the interval that contains 95 % of
/// their scores.
struct ConfidenceInterval {
  double mean = 0.0;        ///< mean score of the samples
  double half_width = 0.0;  ///< half the distance between the 2.5 % and 97.5 % quantiles
};

/// Bootstrap resampling [1] of one system: scores of samples of the same size, drawn with
/// replacement.
///
/// samples  at least 1
/// throws   std::invalid_argument if there are no sentences or samples.
///
/// [1] Koehn 2004, "Statistical significance tests for machine translation evaluation".
ConfidenceInterval bootstrap_confidence(const TextMetric& metric, const SegmentStatistics& system,
                                        std::size_t samples = 1000,
                                        std::uint64_t seed = default_significance_seed);

/// The result of paired bootstrap resampling.
struct PairedBootstrap {
  double p_value;               ///< two-sided p-value, in (0, 1]
  ConfidenceInterval baseline;  ///< confidence interval of the baseline's score
  ConfidenceInterval system;    ///< confidence interval of the system's score
};

/// Paired bootstrap resampling [1] as implemented by sacreBLEU. For the score difference d of the
/// systems on a sample and their score difference D on all sentences,
///
///   p = (1 + number of samples with |d| - mean |d| > |D|) / (1 + samples).
///
/// samples  at least 1
/// throws   std::invalid_argument if the systems differ in their numbers of sentences, or there are
///          no sentences or samples.
///
/// [1] Koehn 2004, "Statistical significance tests for machine translation evaluation".
PairedBootstrap paired_bootstrap(const TextMetric& metric, const SegmentStatistics& baseline,
                                 const SegmentStatistics& system, std::size_t samples = 1000,
                                 std::uint64_t seed = default_significance_seed);

}  // namespace tapestry
