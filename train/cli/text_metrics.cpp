// SPDX-License-Identifier: BSD-3-Clause
#include "train/cli/text_metrics.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/io/error.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/metrics/python_text.h"
#include "train/base/error.h"
#include "train/cli/command.h"
#include "train/config/choices.h"
#include "train/config/domain.h"

namespace tapestry {

/// The names of smoothing methods in sacreBLEU.
template <>
inline constexpr std::array choices_of<BleuSmoothing>{
    Named{BleuSmoothing::exponential, "exp"}, Named{BleuSmoothing::floor, "floor"},
    Named{BleuSmoothing::add_k, "add-k"}, Named{BleuSmoothing::none, "none"}};

namespace {

constexpr const char* standard_input = "-";

const std::vector<std::string> metric_names{"bleu", "multi-bleu", "chrf", "chrf++"};

BleuOptions bleu_options(const MetricArguments& arguments) {
  BleuOptions options = arguments.bleu;
  options.tokenizer = choice_named<BleuTokenizer>(arguments.tokenizer);
  options.smoothing = choice_named<BleuSmoothing>(arguments.smoothing);
  options.lowercase = arguments.lowercase;
  if (arguments.smooth_value) {
    if (options.smoothing != BleuSmoothing::floor && options.smoothing != BleuSmoothing::add_k) {
      throw UsageError(
          fmt::format("--smooth-value: --smooth {} takes no value", arguments.smoothing),
          "choose --smooth floor or add-k");
    }
    options.smooth_value = *arguments.smooth_value;
  }
  return options;
}

std::unique_ptr<TextMetric> make_metric(const std::string& name, const MetricArguments& arguments) {
  if (name == "bleu") return std::make_unique<Bleu>(bleu_options(arguments));
  if (name == "multi-bleu") {
    BleuOptions options = multi_bleu_options();
    options.effective_order = arguments.bleu.effective_order;
    return std::make_unique<Bleu>(options);
  }
  ChrfOptions options = arguments.chrf;
  options.lowercase = arguments.lowercase;
  if (name == "chrf++") options.word_order = 2;
  return std::make_unique<Chrf>(options);
}

std::vector<std::string> read_standard_input() {
  LineReader reader(STDIN_FILENO, "standard input", "pass the sentences, one per line");
  std::vector<std::string> lines;
  while (auto line = reader.next()) lines.push_back(*std::move(line));
  if (lines.empty()) {
    reject_data("standard input", "no line, expected one sentence per line",
                "pass the sentences, such as `< FILE`");
  }
  return lines;
}

std::string without_space_at_end(const std::string& line) {
  std::string result;
  const std::u32string text = decode_utf8(line);
  for (const char32_t c : python::rstrip(text)) append_utf8(result, c);
  return result;
}

}  // namespace

void add_metric_options(CLI::App& command, MetricArguments& arguments) {
  command.add_option("--metrics", arguments.metrics, "Metrics, separated by commas")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(one_of(metric_names))
      ->default_str(fmt::format("{}", fmt::join(arguments.metrics, ",")));
  command.add_flag("--lowercase", arguments.lowercase, "BLEU and chrF: ignore case");
  add_value(command, "--tokenize", arguments.tokenizer, any_of<BleuTokenizer>(), "BLEU: tokenizer");
  add_value(command, "--smooth", arguments.smoothing, any_of<BleuSmoothing>(),
            "BLEU: smoothing of n-gram orders without a match");
  add_value(command, "--smooth-value", arguments.smooth_value, not_negative(),
            "BLEU: value for --smooth floor (default 0.1) or add-k (default 1)");
  command.add_flag("--effective-order", arguments.bleu.effective_order,
                   "BLEU: leave out n-gram orders longer than every hypothesis");
  add_value(command, "--chrf-char-order", arguments.chrf.char_order, between(1, 20),
            "chrF: maximum order of character n-grams");
  add_value(command, "--chrf-word-order", arguments.chrf.word_order, between(0, 20),
            "chrF: maximum order of word n-grams; chrf++ has 2");
  add_value(command, "--chrf-beta", arguments.chrf.beta, between(0, 100),
            "chrF: weight of recall relative to precision");
  command.add_flag("--chrf-whitespace", arguments.chrf.whitespace,
                   "chrF: include white space in character n-grams");
  command.add_flag("--chrf-eps-smoothing", arguments.chrf.eps_smoothing,
                   "chrF: mean of the F scores of all orders, as in chrF++.py");
  add_value(command, "--seed", arguments.seed, at_least(0), "Random seed for bootstrap samples");
  add_value(command, "--decimals", arguments.decimals, between(0, 10),
            "Number of decimals of printed scores");
}

std::vector<std::unique_ptr<TextMetric>> make_metrics(const MetricArguments& arguments) {
  std::vector<std::unique_ptr<TextMetric>> metrics;
  for (const std::string& name : arguments.metrics) {
    metrics.push_back(make_metric(name, arguments));
  }
  return metrics;
}

SentenceFile read_sentences(const std::string& path) {
  std::vector<std::string> lines =
      path == standard_input ? read_standard_input() : read_text_file(path).lines;
  for (std::string& line : lines) line = without_space_at_end(line);
  return {.path = path, .sentences = std::move(lines)};
}

std::vector<std::vector<std::string>> read_references(const std::vector<std::string>& paths,
                                                      const SentenceFile& hypotheses) {
  std::vector<std::vector<std::string>> references;
  for (const std::string& path : paths) {
    references.push_back(read_sentences(path).sentences);
    require_equal_lines(hypotheses, path, references.back().size());
  }
  return references;
}

void require_equal_lines(const SentenceFile& file, const std::string& reference,
                         std::size_t expected) {
  const std::size_t lines = file.sentences.size();
  if (lines == expected) return;
  const std::string place = file.path == standard_input ? "standard input" : escaped(file.path);
  throw DataError(fmt::format("{}: found {} line{}, expected {} as in {}", place, lines,
                              lines == 1 ? "" : "s", expected, escaped(reference)),
                  "line n of each file must be the translation of the same sentence");
}

}  // namespace tapestry
