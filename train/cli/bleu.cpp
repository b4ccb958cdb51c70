// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/metrics/text_metric.h"
#include "train/cli/command.h"
#include "train/cli/text_metrics.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace bleu_cli {
namespace {

struct Arguments {
  std::string hypotheses;               ///< a file, or - for standard input
  std::vector<std::string> references;  ///< files
  MetricArguments metrics;
  std::size_t confidence = 0;  ///< number of bootstrap samples; 0: no interval
  bool sentence_level = false;
  bool score_only = false;
  bool json = false;
};

/// A score with its signature and the statistics that it is computed from.
struct PrintedScore {
  std::string name, signature, details;
  double score;
  std::optional<ConfidenceInterval> confidence{};
  TextMetric::Settings fields;
};

/// The score of a sentence, or of the corpus with its confidence interval.
///
/// sums        sums of the statistics of the segments
/// confidence  confidence interval of the corpus score, from arguments.confidence samples; nullopt
///             for a sentence
PrintedScore make_score(const TextMetric& metric, std::span<const double> sums,
                        const std::optional<ConfidenceInterval>& confidence,
                        const Arguments& arguments) {
  SignatureUse use{.references = arguments.references.size()};
  if (confidence) {
    use.bootstrap_samples = arguments.confidence;
    use.seed = arguments.metrics.seed;
  }
  return {.name = metric.name(),
          .signature = metric.signature(use),
          .details = metric.details(sums),
          .score = metric.score(sums),
          .confidence = confidence,
          .fields = metric.signature_fields(use)};
}

/// Prints the same line as sacreBLEU with --format text.
void print_line(const PrintedScore& printed, const Arguments& arguments) {
  const std::size_t decimals = arguments.metrics.decimals;
  std::string text = fmt::format("{:.{}f}", printed.score, decimals);
  if (printed.confidence) {
    text += fmt::format(" (μ = {:.{}f} ± {:.{}f})", printed.confidence->mean, decimals,
                        printed.confidence->half_width, decimals);
  }
  if (arguments.score_only) {
    fmt::print("{}\n", text);
    return;
  }
  fmt::print("{}|{} = {}{}{}\n", printed.name, printed.signature, text,
             printed.details.empty() ? "" : " ", printed.details);
}

Json to_json(const PrintedScore& printed) {
  Json json = {{"name", printed.name}, {"score", printed.score}};
  if (printed.confidence) {
    json["confidence_mean"] = printed.confidence->mean;
    json["confidence_half_width"] = printed.confidence->half_width;
  }
  json["signature"] = printed.signature;
  if (!printed.details.empty()) json["details"] = printed.details;
  for (const auto& [name, value] : printed.fields) json[name] = value;
  return json;
}

std::vector<PrintedScore> compute_scores(const std::vector<std::unique_ptr<TextMetric>>& metrics,
                                         const std::vector<std::string>& hypotheses,
                                         const std::vector<std::vector<std::string>>& references,
                                         const Arguments& arguments) {
  std::vector<PrintedScore> scores;
  for (const auto& metric : metrics) {
    const SegmentStatistics statistics = metric->statistics(hypotheses, references);
    if (arguments.sentence_level) {
      for (std::size_t i = 0; i < statistics.size(); ++i) {
        scores.push_back(make_score(*metric, statistics[i], std::nullopt, arguments));
      }
      continue;
    }
    std::optional<ConfidenceInterval> confidence;
    if (arguments.confidence > 0) {
      confidence =
          bootstrap_confidence(*metric, statistics, arguments.confidence, arguments.metrics.seed);
    }
    scores.push_back(make_score(*metric, statistics.sum(), confidence, arguments));
  }
  return scores;
}

/// Warns, like sacreBLEU, if BLEU is about to tokenize text that seems to be tokenized already.
void warn_of_tokenized_text(const std::vector<std::string>& hypotheses,
                            const MetricArguments& metrics) {
  constexpr std::ptrdiff_t min_lines = 100;
  const bool tokenizes = metrics.tokenizer != "none" &&
                         std::ranges::find(metrics.metrics, "bleu") != metrics.metrics.end();
  const auto ends_in_point = [](const std::string& line) { return line.ends_with(" ."); };
  const auto lines = std::ranges::count_if(hypotheses, ends_in_point);
  if (!tokenizes || lines < min_lines) return;
  warn(
      fmt::format("{} lines end in a tokenized period (` .`): the text seems to be tokenized, and "
                  "BLEU tokenizes it again; score detokenized text, or use --tokenize none",
                  lines));
}

void run(Arguments arguments) {
  if (arguments.sentence_level) arguments.metrics.bleu.effective_order = true;
  const auto metrics = make_metrics(arguments.metrics);
  const SentenceFile file = read_sentences(arguments.hypotheses);
  const std::vector<std::string>& hypotheses = file.sentences;
  const auto references = read_references(arguments.references, file);
  warn_of_tokenized_text(hypotheses, arguments.metrics);
  const auto scores = compute_scores(metrics, hypotheses, references, arguments);
  if (!arguments.json) {
    for (const PrintedScore& printed : scores) print_line(printed, arguments);
    return;
  }
  Json json = {{"sentences", hypotheses.size()}, {"scores", Json::array()}};
  for (const PrintedScore& printed : scores) json["scores"].push_back(to_json(printed));
  print_json(json);
}

void define(CLI::App& command, Arguments& arguments) {
  add_path(command, "HYPOTHESES", arguments.hypotheses,
           "File with one translation per line; -: standard input")
      ->required();
  add_path(command, "--reference", arguments.references,
           "File with one reference per line; repeat the option for several references")
      ->required()
      ->type_name("FILE")
      ->allow_extra_args(false);
  add_metric_options(command, arguments.metrics);
  CLI::Option* const confidence =
      add_value(command, "--confidence", arguments.confidence, between(0, 1'000'000),
                "Bootstrap samples for a 95 % confidence interval, such as 1000; 0: no interval");
  command
      .add_flag("--sentence-level", arguments.sentence_level,
                "Score each sentence instead of the corpus; BLEU then uses --effective-order")
      ->excludes(confidence);
  CLI::Option* const score_only =
      command.add_flag("--score-only", arguments.score_only, "Print only the numbers");
  command.add_flag("--json", arguments.json, "Print one JSON object")->excludes(score_only);
  command.footer(
      "Scores, signatures and options are as in sacreBLEU. `multi-bleu` scores tokenized, "
      "lowercased\ntext without smoothing, like multi-bleu.perl -lc.\n\n"
      "JSON: `sentences`, `scores`; each score has `name`, `score`, `signature`, `details`, and "
      "the\nkeys of the signature.\n\n"
      "Examples:\n  tapestry translate runs/multi30k < test.en | tapestry bleu - --reference "
      "test.de\n"
      "  tapestry bleu out.de --reference test.de --metrics bleu,chrf++ --confidence 1000");
}

}  // namespace
}  // namespace bleu_cli

extern const Command bleu_command{.name = "bleu",
                                  .purpose = "Score translations against references: BLEU, chrF",
                                  .define = with_arguments(bleu_cli::define, bleu_cli::run)};

}  // namespace tapestry
