// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <deque>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/ops/linear.h"
#include "data/io/file.h"
#include "data/io/text_file.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/cli/command.h"
#include "train/cli/open_trained.h"
#include "train/inference/finite_outputs.h"
#include "train/inference/forced_decoding.h"
#include "train/models/line_input.h"
#include "train/system/standard_streams.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace score_cli {
namespace {

struct Arguments {
  std::string run;                               ///< a run directory or a checkpoint
  std::string source_file, target_file;          ///< empty: lines of standard input
  std::string on_long_line = long_lines::empty;  ///< empty or stop
  std::size_t threads = 0;
  bool json = false;
};

/// Maximum number of pairs read before they are scored.
constexpr std::size_t pairs_at_once = 1024;

constexpr const char* input_name = "standard input";
constexpr const char* input_hint = "pass lines with a source, a tab and a translation";

constexpr FileKind text_kind{.expected = "a text file",
                             .special_hint = "write the text to a file first",
                             .too_large_hint = "",
                             .max_bytes = std::numeric_limits<std::uint64_t>::max()};

// ---- Input

/// A source and its translation.
struct TextPair {
  std::string source, target;
  std::string place;                       ///< place of the target, for messages
  std::optional<OverlongLine> overlong{};  ///< set if a line of the pair is too long to be read
};

/// The next line; an empty line if the line is too long to be read.
std::optional<std::string> next_line(LineReader& lines, std::optional<OverlongLine>& overlong) {
  try {
    return lines.next();
  } catch (const OverlongLine& error) {
    if (!overlong) overlong = error;
    lines.skip_line();
    return std::string();
  }
}

/// Reads pairs from two files, or from lines of standard input in which a tab separates source and
/// translation.
class PairReader {
 public:
  explicit PairReader(const Arguments& arguments) {
    if (arguments.source_file.empty()) {
      texts_.emplace_back(STDIN_FILENO, input_name, input_hint);
      return;
    }
    for (const std::string& path : {arguments.source_file, arguments.target_file}) {
      const OpenFile& file = files_.emplace_back(path, text_kind);
      texts_.emplace_back(file.descriptor(), file.name(), unreadable_hint);
    }
  }

  /// The next pair; nullopt at the end.
  std::optional<TextPair> next() { return files_.empty() ? next_of_input() : next_of_files(); }

  /// Name of the file with the translations or of standard input, for messages.
  std::string name() const { return files_.empty() ? input_name : files_.back().name(); }

  /// Whether next() can return without waiting for another program to write.
  bool is_ready() { return !files_.empty() || texts_.back().line_is_ready(); }

 private:
  std::string place() const { return fmt::format("{}:{}", name(), texts_.back().line_number()); }

  std::optional<TextPair> next_of_input() {
    std::optional<OverlongLine> overlong;
    const auto line = next_line(texts_.back(), overlong);
    if (!line) return std::nullopt;
    if (overlong) {
      return TextPair{.source = {}, .target = {}, .place = {}, .overlong = std::move(overlong)};
    }
    const std::size_t tab = line->find('\t');
    if (tab == line->npos) {
      throw DataError(place() + ": found no tab, expected a source, a tab and its translation",
                      input_hint);
    }
    return TextPair{
        .source = line->substr(0, tab), .target = line->substr(tab + 1), .place = place()};
  }

  std::optional<TextPair> next_of_files() {
    std::optional<OverlongLine> overlong;
    auto source = next_line(texts_.front(), overlong), target = next_line(texts_.back(), overlong);
    if (!source && !target) return std::nullopt;
    if (!source || !target) {
      const OpenFile& shorter = source ? files_.back() : files_.front();
      const OpenFile& longer = source ? files_.front() : files_.back();
      throw DataError(
          fmt::format("{}: found {} line{}, expected as many as in {}, which has more",
                      shorter.name(), num_pairs_, num_pairs_ == 1 ? "" : "s", longer.name()),
          "write the source and the translation of each sentence on lines with the same number");
    }
    ++num_pairs_;
    return TextPair{.source = *std::move(source),
                    .target = *std::move(target),
                    .place = place(),
                    .overlong = std::move(overlong)};
  }

  std::deque<OpenFile> files_;    // sources and targets; empty for standard input
  std::deque<LineReader> texts_;  // the lines of the files, or of standard input
  std::size_t num_pairs_ = 0;     // number of pairs read from files so far
};

// ---- Scores

double total_score(const TokenScores& scores) {
  return std::accumulate(scores.begin(), scores.end(), 0.0);
}

Json json_object(std::size_t line, const Example* pair, const TokenScores& scores,
                 const Vocabulary& vocabulary) {
  Json json = {{"line", line}, {"log_probability", nullptr}};
  if (pair != nullptr) {
    Json tokens = Json::array();
    for (const std::int32_t id : pair->target) tokens.push_back(vocabulary.token(id));
    tokens.push_back(vocabulary.token(eos_id));
    json["log_probability"] = total_score(scores);
    json["tokens"] = std::move(tokens);
    json["token_log_probabilities"] = scores;
  }
  return json;
}

/// Scores pairs as they are read, and prints a line for each pair.
class PairScorer {
 public:
  /// name  name of the input, for messages
  PairScorer(const TrainedModel& trained, const Arguments& arguments, const std::string& name)
      : trained_(trained), arguments_(arguments), name_(name), warnings_(name, "were too long") {}

  void add(const TextPair& text) {
    if (text.overlong) return leave_out(*text.overlong);
    const Task& task = find_task(trained_.config);
    Example pair = task.answers().read_text(text.source, trained_.codec);
    pair.target = trained_.codec.encode_target(text.target);
    const TokenLimit limit = task.answers().token_limit(trained_.config);
    const std::size_t tokens = longest_side(pair, task.layout());
    if (tokens <= limit.tokens) {
      is_scored_.push_back(true);
      pairs_.push_back(std::move(pair));
      return;
    }
    leave_out(
        DataError(fmt::format("{}: found {} tokens {}, expected at most {} ({})", text.place,
                              tokens, task.words(trained_.config).tokens, limit.tokens, limit.key),
                  fmt::format("leave the pair out, or train a model with a larger {}", limit.key)));
  }

  bool is_full() const { return is_scored_.size() >= pairs_at_once; }

  /// Prints the scores of the pairs that have been added since the last call.
  void answer() {
    const std::vector<TokenScores> scores = score_pairs(*trained_.model->network, pairs_);
    std::size_t next = 0;
    for (const bool is_scored : is_scored_) {
      ++line_;
      if (is_scored && !std::isfinite(total_score(scores[next]))) {
        flush_standard_output();  // the answers to earlier pairs
        reject_non_finite(*trained_.model,
                          inference_batch(find_task(trained_.config), pairs_[next]),
                          fmt::format("{}:{}", name_, line_));
      }
      print(is_scored ? &pairs_[next] : nullptr, is_scored ? scores[next] : TokenScores{});
      next += is_scored ? 1 : 0;
    }
    flush_standard_output();
    is_scored_.clear();
    pairs_.clear();
  }

  /// Prints the total and mean scores of all pairs.
  void finish() const {
    warnings_.finish();
    if (count_ == 0) return;
    const double mean = total_ / static_cast<double>(tokens_);
    inform(
        fmt::format("{} pairs, {} tokens with <eos>: log-probability {:.4f}, per token {:.6f}, "
                    "perplexity {}",
                    format_count(count_), format_count(tokens_), total_, mean,
                    format_value(std::exp(-mean), 4)));
  }

 private:
  /// Leaves out a pair that is too long, with a warning; throws DataError with --long-lines stop.
  void leave_out(const DataError& problem) {
    if (arguments_.on_long_line == long_lines::stop) throw DataError(problem);
    warnings_.add(problem.what(), "the answer is an empty line");
    is_scored_.push_back(false);
  }

  void print(const Example* pair, const TokenScores& scores) {
    const double sum = total_score(scores);
    if (pair != nullptr) {
      ++count_;
      tokens_ += scores.size();
      total_ += sum;
    }
    if (arguments_.json) {
      print_json(json_object(line_, pair, scores, trained_.codec.target_vocabulary()), -1);
    } else if (pair != nullptr) {
      const auto count = static_cast<double>(scores.size());
      fmt::print("{:.6f}\t{:.6f}\t{}\n", sum, sum / count, scores.size());
    } else {
      fmt::print("\n");
    }
  }

  const TrainedModel& trained_;
  const Arguments& arguments_;
  std::string name_;  // of the input
  LineWarnings warnings_;
  std::vector<bool> is_scored_;  // whether each pair since the last answer() is scored
  std::vector<Example> pairs_;   // the pairs to score
  std::size_t line_ = 0;
  std::uint64_t count_ = 0, tokens_ = 0;  // sums over all scored pairs
  double total_ = 0;
};

void score_all(PairReader& reader, PairScorer& scorer) {
  try {
    while (const auto pair = reader.next()) {
      scorer.add(*pair);
      if (scorer.is_full() || !reader.is_ready()) scorer.answer();
    }
  } catch (const DataError&) {
    scorer.answer();  // for the pairs before the invalid pair
    throw;
  }
  scorer.answer();
  scorer.finish();
}

void run(const Arguments& arguments) {
  set_num_threads(arguments.threads);
  const TrainedModel trained = open_and_announce(arguments.run);
  require_kind(trained, kinds_that_decode(), "score");
  PairReader reader(arguments);
  const PackedWeights packed;
  PairScorer scorer(trained, arguments, reader.name());
  score_all(reader, scorer);
}

void define(CLI::App& command, Arguments& arguments) {
  add_run(command, arguments.run);
  CLI::Option* const source =
      add_path(command, "SOURCE", arguments.source_file,
               "File with one source per line; without files, each line of standard input has a "
               "source, a tab and its translation");
  CLI::Option* const target =
      add_path(command, "TARGET", arguments.target_file,
               "File with one translation per line, in the order of SOURCE");
  source->needs(target);
  command.add_flag("--json", arguments.json, "Print a JSON object for each pair");
  add_value(command, "--long-lines", arguments.on_long_line,
            OneOf{{long_lines::empty, long_lines::stop}},
            "For a pair with more tokens than the model can read: `empty` prints an empty line, "
            "`stop` ends with an error");
  add_threads(command, arguments.threads);
  command.footer(
      "Prints for each pair, separated by tabs: log p(target, <eos> | source) in nats, its mean "
      "per token, and\nthe number of tokens including <eos>. Prints the perplexity of all pairs on "
      "standard error.\n"
      "JSON: `line`, from 1; `log_probability`, null for a pair that is too long; `tokens` and "
      "`token_log_probabilities`.\n"
      "Examples:\n  tapestry score runs/multi30k test.en test.de\n"
      "  paste test.en test.de | tapestry score runs/multi30k --json");
}

}  // namespace
}  // namespace score_cli

extern const Command score_command{
    .name = "score",
    .purpose = "Print the log-probabilities of given translations",
    .define = with_arguments(score_cli::define, score_cli::run),
    .memory_hint = "give it shorter lines, or more memory (see `ulimit -v`)"};

}  // namespace tapestry
