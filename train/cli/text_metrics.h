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

/// Metrics to compute, and their options, named as in sacreBLEU.
struct MetricArguments {
  std::vector<std::string> metrics{"bleu", "chrf"};
  std::string tokenizer = "13a", smoothing = "exp";  ///< names of BleuTokenizer and BleuSmoothing
  std::optional<double> smooth_value;                ///< nullopt for the default of `smoothing`
  bool lowercase = false;                          ///< whether to ignore case, except in multi-bleu
  BleuOptions bleu;                                ///< options except the members above
  ChrfOptions chrf;                                ///< options except the members above
  std::uint64_t seed = default_significance_seed;  ///< seed of the bootstrap samples
  std::size_t decimals = 2;                        ///< number of decimals of printed scores
};

void add_metric_options(CLI::App& command, MetricArguments& arguments);

/// The metrics in the order of the command line.
///
/// throws  UsageError if options contradict each other.
std::vector<std::unique_ptr<TextMetric>> make_metrics(const MetricArguments& arguments);

/// A file of sentences, one per line.
struct SentenceFile {
  std::string path;  ///< `-` for standard input
  std::vector<std::string> sentences;
};

/// Reads a file, or standard input if the path is `-`. Removes white space at the end of lines,
/// like sacreBLEU.
///
/// throws  DataError like LineReader, and if the file has no lines.
SentenceFile read_sentences(const std::string& path);

/// Reads the reference files.
///
/// throws  DataError like read_sentences() and require_equal_lines().
std::vector<std::vector<std::string>> read_references(const std::vector<std::string>& paths,
                                                      const SentenceFile& hypotheses);

/// throws  DataError unless `file` has `expected` lines, the number of lines of `reference`.
void require_equal_lines(const SentenceFile& file, const std::string& reference,
                         std::size_t expected);

}  // namespace tapestry
