#pragma once

#include <cstddef>
#include <cstdint>

#include "data/metrics/text_metric.h"

/// \file
/// Significance of the difference between two systems, from their statistics of the same sentences.
/// All draws are counter-based: a seed gives the same values on every machine.
namespace tapestry {

/// The seed of sacreBLEU.
inline constexpr std::uint64_t default_significance_seed = 12345;

/// The mean score of bootstrap samples, and half the width of the interval that holds 95 % of them.
struct ConfidenceInterval {
  double mean = 0.0;        ///< mean score of the samples
  double half_width = 0.0;  ///< of the interval between the 2.5 % and 97.5 % quantiles
};

/// Bootstrap resampling [1] of one system: scores of samples of as many sentences, drawn with
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
  double p_value;               ///< two-sided, in (0, 1]
  ConfidenceInterval baseline;  ///< of the baseline's score
  ConfidenceInterval system;    ///< of the other score
};

/// Paired bootstrap resampling [1] as sacreBLEU does it: with d the difference between the scores
/// of both systems on a sample, D their difference on all sentences,
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
