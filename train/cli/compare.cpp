// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "data/io/utf8.h"
#include "data/metrics/text_metric.h"
#include "train/cli/command.h"
#include "train/cli/text_metrics.h"

namespace tapestry {
namespace compare_cli {
namespace {

struct Arguments {
  std::string reference, baseline;
  std::vector<std::string> systems;
  std::vector<std::string> more_references;
  MetricArguments metrics;
  std::size_t samples = 1000;  ///< number of bootstrap samples; 0: no test
  bool json = false;
};

/// A system's score, and its difference from the baseline with a significance test.
struct ComparedSystem {
  std::string file;
  double score;
  std::optional<double> difference{};  ///< score minus baseline; nullopt for the baseline
  std::optional<ConfidenceInterval> confidence{};
  std::optional<double> p{};  ///< p-value of paired bootstrap resampling
};

/// The scores of all systems by one metric. The first system is the baseline.
struct Comparison {
  std::string metric, signature;
  std::vector<ComparedSystem> systems;
};

ComparedSystem compare(const TextMetric& metric, const SegmentStatistics& baseline,
                       const SegmentStatistics& system, const std::string& file,
                       const Arguments& arguments) {
  const std::uint64_t seed = arguments.metrics.seed;
  const double score = metric.score(system.sum());
  ComparedSystem result{
      .file = file, .score = score, .difference = score - metric.score(baseline.sum())};
  if (arguments.samples > 0) {
    const auto bootstrap = paired_bootstrap(metric, baseline, system, arguments.samples, seed);
    result.confidence = bootstrap.system;
    result.p = bootstrap.p_value;
  }
  return result;
}

std::string make_signature(const TextMetric& metric, const Arguments& arguments) {
  return metric.signature({.references = 1 + arguments.more_references.size(),
                           .bootstrap_samples = arguments.samples,
                           .seed = arguments.metrics.seed});
}

Comparison compare_by(const TextMetric& metric, const std::vector<SentenceFile>& systems,
                      const std::vector<std::vector<std::string>>& references,
                      const Arguments& arguments) {
  Comparison result{metric.name(), make_signature(metric, arguments), {}};
  const SegmentStatistics baseline = metric.statistics(systems[0].sentences, references);
  ComparedSystem first{.file = systems[0].path, .score = metric.score(baseline.sum())};
  if (arguments.samples > 0) {
    first.confidence =
        bootstrap_confidence(metric, baseline, arguments.samples, arguments.metrics.seed);
  }
  result.systems.push_back(std::move(first));
  for (std::size_t i = 1; i < systems.size(); ++i) {
    const SegmentStatistics system = metric.statistics(systems[i].sentences, references);
    result.systems.push_back(compare(metric, baseline, system, systems[i].path, arguments));
  }
  return result;
}

// ---- Output

std::string p_text(const std::optional<double>& p) {
  return p ? fmt::format("{:.4f}", *p) : std::string("-");
}

std::string difference_text(const ComparedSystem& system, std::size_t decimals) {
  return system.difference ? fmt::format("{:+.{}f}", *system.difference, decimals)
                           : std::string("baseline");
}

std::string confidence_text(const ComparedSystem& system, std::size_t decimals) {
  if (!system.confidence) return "-";
  return fmt::format("{:.{}f} ± {:.{}f}", system.confidence->mean, decimals,
                     system.confidence->half_width, decimals);
}

void print_text(const std::vector<Comparison>& comparisons, std::size_t decimals) {
  for (const Comparison& comparison : comparisons) {
    std::size_t width = comparison.metric.size();
    for (const auto& system : comparison.systems) {
      width = std::max(width, escaped(system.file).size());
    }
    fmt::print("{:<{}}  {:>8}  {:>10}  {:>16}  {:>11}\n", comparison.metric, width, "score",
               "difference", "95 % interval", "p bootstrap");
    for (const auto& system : comparison.systems) {
      fmt::print("{:<{}}  {:>8.{}f}  {:>10}  {:>16}  {:>11}\n", escaped(system.file), width,
                 system.score, decimals, difference_text(system, decimals),
                 confidence_text(system, decimals), p_text(system.p));
    }
    fmt::print("{}\n\n", comparison.signature);
  }
  fmt::print("A difference with p < 0.05 is significant at the usual level.\n");
}

Json to_json(const ComparedSystem& system) {
  Json json = {
      {"file", system.file}, {"score", system.score}, {"difference", or_null(system.difference)}};
  if (system.confidence) {
    json["confidence_mean"] = system.confidence->mean;
    json["confidence_half_width"] = system.confidence->half_width;
  }
  json["p_bootstrap"] = or_null(system.p);
  return json;
}

void print_json(const std::vector<Comparison>& comparisons, std::size_t sentences) {
  Json json = {{"sentences", sentences}, {"metrics", Json::array()}};
  for (const Comparison& comparison : comparisons) {
    Json systems = Json::array();
    for (const auto& system : comparison.systems) systems.push_back(to_json(system));
    json["metrics"].push_back({{"name", comparison.metric},
                               {"signature", comparison.signature},
                               {"systems", std::move(systems)}});
  }
  tapestry::print_json(json);
}

void run(const Arguments& arguments) {
  const auto metrics = make_metrics(arguments.metrics);
  std::vector<std::string> reference_files{arguments.reference};
  reference_files.insert(reference_files.end(), arguments.more_references.begin(),
                         arguments.more_references.end());
  std::vector<SentenceFile> systems{read_sentences(arguments.baseline)};
  const auto references = read_references(reference_files, systems[0]);
  for (const std::string& file : arguments.systems) {
    systems.push_back(read_sentences(file));
    require_equal_lines(systems.back(), arguments.reference, references[0].size());
  }
  std::vector<Comparison> comparisons;
  for (const auto& metric : metrics) {
    comparisons.push_back(compare_by(*metric, systems, references, arguments));
  }
  if (arguments.json) {
    print_json(comparisons, references[0].size());
  } else {
    print_text(comparisons, arguments.metrics.decimals);
  }
}

void define(CLI::App& command, Arguments& arguments) {
  add_path(command, "REFERENCE", arguments.reference, "File with one reference per line")
      ->required();
  add_path(command, "BASELINE", arguments.baseline, "File with the translations of one system")
      ->required();
  add_path(command, "SYSTEMS", arguments.systems,
           "Files with the translations of other systems, each compared with the baseline")
      ->required();
  add_path(command, "--reference", arguments.more_references,
           "File with further references; may be repeated")
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_metric_options(command, arguments.metrics);
  add_value(command, "--bootstrap", arguments.samples, between(0, 1'000'000),
            "Samples of paired bootstrap resampling (Koehn 2004); 0: no significance test");
  add_json(command, arguments.json);
  command.footer(
      "p is the probability that two equally good systems differ at least this much by chance.\n\n"
      "JSON: `sentences`, `metrics`; each metric has `name`, `signature` and `systems`, the "
      "baseline\nfirst, with `file`, `score`, `difference`, `confidence_mean`, "
      "`confidence_half_width` and\n`p_bootstrap`.\n\n"
      "Example:\n  tapestry compare test.de greedy.de beam5.de --metrics bleu,chrf");
}

}  // namespace
}  // namespace compare_cli

extern const Command compare_command{
    .name = "compare",
    .purpose = "Compare systems by their translations, with significance tests",
    .define = with_arguments(compare_cli::define, compare_cli::run)};

}  // namespace tapestry
