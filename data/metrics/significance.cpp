#include "data/metrics/significance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "data/io/random.h"

namespace tapestry {

namespace {

void check_counts(const SegmentStatistics& system, std::size_t samples) {
  if (system.size() > 0 && samples > 0) return;
  throw std::invalid_argument(
      fmt::format("significance: found {} sentences and {} samples, expected at least one",
                  system.size(), samples));
}

void check_counts(const SegmentStatistics& baseline, const SegmentStatistics& system,
                  std::size_t samples) {
  check_counts(system, samples);
  if (baseline.size() == system.size() && baseline.width() == system.width()) return;
  throw std::invalid_argument(
      fmt::format("significance: found {} x {} statistics of the baseline and {} x {} of the "
                  "system, expected as many",
                  baseline.size(), baseline.width(), system.size(), system.width()));
}

/// The scores of a system on bootstrap samples. A sample has the same sentences for each system.
std::vector<double> bootstrap_scores(const TextMetric& metric, const SegmentStatistics& system,
                                     std::size_t samples, std::uint64_t seed) {
  std::vector<double> scores(samples), sums(system.width());
  for (std::size_t sample = 0; sample < samples; ++sample) {
    RandomDraws random(seed, DrawPurpose::bootstrap_sample, sample);
    std::ranges::fill(sums, 0.0);
    for (std::size_t i = 0; i < system.size(); ++i) {
      const auto statistics = system[random.below(system.size())];
      for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += statistics[k];
    }
    scores[sample] = metric.score(sums);
  }
  return scores;
}

double mean(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

ConfidenceInterval confidence_interval(std::vector<double> scores) {
  std::ranges::sort(scores);
  const std::size_t lower = scores.size() / 40, upper = scores.size() - lower - 1;
  return {.mean = mean(scores), .half_width = 0.5 * (scores[upper] - scores[lower])};
}

}  // namespace

ConfidenceInterval bootstrap_confidence(const TextMetric& metric, const SegmentStatistics& system,
                                        std::size_t samples, std::uint64_t seed) {
  check_counts(system, samples);
  return confidence_interval(bootstrap_scores(metric, system, samples, seed));
}

PairedBootstrap paired_bootstrap(const TextMetric& metric, const SegmentStatistics& baseline,
                                 const SegmentStatistics& system, std::size_t samples,
                                 std::uint64_t seed) {
  check_counts(baseline, system, samples);
  std::vector<double> of_baseline = bootstrap_scores(metric, baseline, samples, seed);
  std::vector<double> of_system = bootstrap_scores(metric, system, samples, seed);
  std::vector<double> differences(samples);
  for (std::size_t i = 0; i < samples; ++i) {
    differences[i] = std::abs(of_system[i] - of_baseline[i]);
  }
  const double center = mean(differences);
  const double observed = std::abs(metric.score(baseline.sum()) - metric.score(system.sum()));
  const auto larger = std::ranges::count_if(
      differences, [&](double difference) { return difference - center > observed; });
  return {.p_value = (static_cast<double>(larger) + 1.0) / (static_cast<double>(samples) + 1.0),
          .baseline = confidence_interval(std::move(of_baseline)),
          .system = confidence_interval(std::move(of_system))};
}

}  // namespace tapestry
