// SPDX-License-Identifier: BSD-3-Clause
#include "data/metrics/text_metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "data/io/error.h"
#include "data/io/random.h"
#include "data/io/utf8.h"

namespace tapestry {

namespace {

std::u32string decode(const std::string& sentence, std::string_view what, std::size_t number) try {
  return decode_utf8(sentence);
} catch (const DataError& error) {
  throw DataError(fmt::format("{} {}: {}", what, number, error.what()), error.hint());
}

void check_sizes(std::size_t hypotheses, const std::vector<std::vector<std::string>>& references) {
  if (hypotheses == 0 || references.empty()) {
    throw std::invalid_argument(fmt::format(
        "statistics: found {} hypotheses and {} lists of references, expected at least one of each",
        hypotheses, references.size()));
  }
  for (const auto& reference : references) {
    if (reference.size() == hypotheses) continue;
    throw std::invalid_argument(
        fmt::format("statistics: found {} hypotheses and {} references, expected equal numbers",
                    hypotheses, reference.size()));
  }
}

}  // namespace

std::vector<double> SegmentStatistics::sum() const {
  std::vector<double> sums(width_);
  for (std::size_t i = 0; i < values_.size(); ++i) sums[i % width_] += values_[i];
  return sums;
}

SegmentStatistics TextMetric::statistics(
    const std::vector<std::string>& hypotheses,
    const std::vector<std::vector<std::string>>& references) const {
  check_sizes(hypotheses.size(), references);
  SegmentStatistics all(hypotheses.size(), width());
  std::vector<std::u32string> here(references.size());
  for (std::size_t i = 0; i < hypotheses.size(); ++i) {
    for (std::size_t r = 0; r < references.size(); ++r) {
      here[r] = decode(references[r][i], "reference", i + 1);
    }
    compute(decode(hypotheses[i], "hypothesis", i + 1), here, all[i]);
  }
  return all;
}

double TextMetric::corpus_score(const std::vector<std::string>& hypotheses,
                                const std::vector<std::vector<std::string>>& references) const {
  return score(statistics(hypotheses, references).sum());
}

TextMetric::Settings TextMetric::signature_fields(const SignatureUse& use) const {
  Settings fields{{"nrefs", std::to_string(use.references)}};
  if (use.bootstrap_samples > 0) {
    fields.emplace_back("bs", std::to_string(use.bootstrap_samples));
    fields.emplace_back("seed", std::to_string(use.seed));
  }
  for (auto& setting : settings()) fields.push_back(std::move(setting));
  fields.emplace_back("version", sacrebleu_version);
  return fields;
}

std::string TextMetric::signature(const SignatureUse& use) const {
  std::string text;
  for (const auto& [name, value] : signature_fields(use)) {
    text += fmt::format("{}{}:{}", text.empty() ? "" : "|", name, value);
  }
  return text;
}

namespace {

void check_counts(const SegmentStatistics& system, std::size_t samples) {
  if (system.size() > 0 && samples > 0) return;
  throw std::invalid_argument(
      fmt::format("significance: found {} sentences and {} samples, expected at least one of each",
                  system.size(), samples));
}

void check_counts(const SegmentStatistics& baseline, const SegmentStatistics& system,
                  std::size_t samples) {
  check_counts(system, samples);
  if (baseline.size() == system.size() && baseline.width() == system.width()) return;
  throw std::invalid_argument(
      fmt::format("significance: found {} x {} statistics of the baseline and {} x {} of the "
                  "system, expected equal numbers",
                  baseline.size(), baseline.width(), system.size(), system.width()));
}

/// The scores of a system on bootstrap samples. A sample consists of the same sentences for every
/// system.
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
