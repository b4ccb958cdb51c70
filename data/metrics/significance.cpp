#include "data/metrics/significance.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>
#include <vector>

#include "data/random.h"

namespace tapestry {

namespace {

void add(std::span<double> sums, std::span<const double> statistics) {
  for (std::size_t k = 0; k < sums.size(); ++k) sums[k] += statistics[k];
}

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
    for (std::size_t i = 0; i < system.size(); ++i) add(sums, system[random.below(system.size())]);
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

double p_value(std::span<const double> differences, double observed) {
  const auto larger =
      std::ranges::count_if(differences, [&](double value) { return value > observed; });
  return (static_cast<double>(larger) + 1.0) / (static_cast<double>(differences.size()) + 1.0);
}

double score_difference(const TextMetric& metric, std::span<const double> first,
                        std::span<const double> second) {
  return std::abs(metric.score(first) - metric.score(second));
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
  for (double& difference : differences) difference -= center;
  return {.p_value = p_value(differences, score_difference(metric, baseline.sum(), system.sum())),
          .baseline = confidence_interval(std::move(of_baseline)),
          .system = confidence_interval(std::move(of_system))};
}

double approximate_randomization(const TextMetric& metric, const SegmentStatistics& baseline,
                                 const SegmentStatistics& system, std::size_t trials,
                                 std::uint64_t seed) {
  check_counts(baseline, system, trials);
  const std::vector<double> of_baseline = baseline.sum(), of_system = system.sum();
  SegmentStatistics exchange(system.size(), system.width());  // system - baseline
  for (std::size_t i = 0; i < system.size(); ++i) {
    std::ranges::transform(system[i], baseline[i], exchange[i].begin(), std::minus<>());
  }
  std::vector<double> differences(trials), first(system.width()), second(system.width());
  for (std::size_t trial = 0; trial < trials; ++trial) {
    RandomDraws random(seed, DrawPurpose::exchanged_outputs, trial);
    std::ranges::fill(first, 0.0);
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < system.size(); ++i) {
      if (i % 64 == 0) bits = random.next();
      if ((bits >> (i % 64)) & 1U) add(first, exchange[i]);
    }
    for (std::size_t k = 0; k < first.size(); ++k) {
      second[k] = of_system[k] - first[k];
      first[k] += of_baseline[k];
    }
    differences[trial] = score_difference(metric, first, second);
  }
  return p_value(differences, score_difference(metric, of_baseline, of_system));
}

}  // namespace tapestry
