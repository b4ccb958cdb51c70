// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "data/metrics/text_metric.h"
#include "train/cli/command.h"

/// Arguments and files of the commands that score translations: bleu, compare.
namespace tapestry {

/// Metrics to compute, with their options, which have the names of sacreBLEU's.
struct MetricArguments {
  std::vector<std::string> metrics{"bleu", "chrf"};
  std::string tokenizer = "13a", smoothing = "exp";
  std::optional<double> smooth_value;
  bool lowercase = false;
  BleuOptions bleu;
  ChrfOptions chrf;
  std::uint64_t seed = default_significance_seed;
  std::size_t decimals = 2;
};

void add_metric_options(CLI::App& command, MetricArguments& arguments);

/// The metrics in the order of the command line.
///
/// throws  UsageError if options contradict each other.
std::vector<std::unique_ptr<TextMetric>> make_metrics(const MetricArguments& arguments);

/// The sentences of a file, or of standard input if the path is `-`, one per line. Removes white
/// space at the end of lines, as sacreBLEU does.
///
/// throws  DataError as LineReader does, and if there is no line.
std::vector<std::string> read_sentences(const std::string& path);

/// Reads the reference files.
///
/// name    file of `hypotheses`, for messages
/// throws  DataError as read_sentences() does, and if a file has not as many lines as `hypotheses`.
std::vector<std::vector<std::string>> read_references(const std::vector<std::string>& paths,
                                                      const std::vector<std::string>& hypotheses,
                                                      const std::string& name);

/// Throws a DataError unless the files have the same number of lines.
void require_equal_lines(const std::string& name, std::size_t lines, const std::string& reference,
                         std::size_t expected);

}  // namespace tapestry
