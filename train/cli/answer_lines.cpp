#include "train/cli/answer_lines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "data/batch.h"
#include "data/io/error.h"
#include "data/io/text_file.h"
#include "train/objective.h"
#include "train/platform/standard_streams.h"
#include "train/text_example.h"

namespace tapestry {
namespace {

/// Lines that are answered side by side when nobody waits for each.
constexpr std::size_t lines_at_once = 64;

constexpr const char* input_name = "standard input";

/// The lines that have not been answered yet.
class WaitingLines {
 public:
  explicit WaitingLines(const LineAnswers& answers) : answers_(answers) {}

  void add(const std::string& line, std::size_t number) {
    auto example = answers_.read(line, number, fmt::format("{}:{}", input_name, number));
    filled_.push_back(example.has_value());
    if (example) examples_.push_back(*std::move(example));
  }

  std::size_t size() const { return filled_.size(); }

  void answer() {
    const auto lines = answers_.answer(examples_);
    auto line = lines.begin();
    for (const bool filled : filled_) fmt::print("{}\n", filled ? *line++ : "");
    flush_standard_output();
    filled_.clear();
    examples_.clear();
  }

 private:
  const LineAnswers& answers_;
  std::vector<bool> filled_;  ///< of each line: whether there is an example in it
  std::vector<Example> examples_;
};

}  // namespace

void answer_lines(const LineAnswers& answers) {
  WaitingLines waiting(answers);
  LineReader lines(STDIN_FILENO, input_name, answers.hint);
  const std::size_t at_once = isatty(STDIN_FILENO) != 0 ? 1 : lines_at_once;
  try {
    while (const auto line = lines.next()) {
      waiting.add(*line, lines.line_number());
      if (waiting.size() == at_once) waiting.answer();
    }
  } catch (const DataError&) {
    waiting.answer();  // the lines before the one that cannot be used
    throw;
  }
  waiting.answer();
}

std::optional<Example> read_sentence(const std::string& line, const std::string& place,
                                     const TrainedModel& trained) {
  const Config& config = trained.config;
  Example example = text_example(line, config, trained.codec);
  if (example == Example{}) return std::nullopt;
  const Objective objective = objective_of(config.model.kind);
  const std::size_t tokens = longest_side(example, objective);
  const TokenLimit most = token_limit(config);
  if (tokens <= most.tokens) return example;
  throw DataError(fmt::format("{}: found {} tokens {}, expected at most {} ({})", place, tokens,
                              objective == Objective::translation ? "with <eos>" : "to read",
                              most.tokens, most.key),
                  fmt::format("cut the line, or train a model with a larger {}", most.key));
}

}  // namespace tapestry
