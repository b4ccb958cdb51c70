#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/io/error.h"
#include "data/io/text_file.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/platform/standard_streams.h"

namespace tapestry {
namespace {

/// The most lines in a batch.
constexpr std::size_t lines_at_once = 64;

constexpr const char* input_name = "standard input";

/// What to do with a line that has more tokens than the model can read: --long-lines.
namespace long_lines {
constexpr const char* empty = "empty";  ///< the answer is an empty line
constexpr const char* cut = "cut";      ///< the first tokens are answered
constexpr const char* stop = "stop";    ///< the command fails
}  // namespace long_lines

struct Arguments {
  std::string run;                               ///< a run directory or a checkpoint
  std::string on_long_line = long_lines::empty;  ///< one of long_lines
  std::size_t threads = 0;
  std::size_t top = 1;                     ///< answers per line, of a command that ranks
  std::optional<std::size_t> beam_size{};  ///< of a command that decodes; nullopt: of the run
  std::optional<double> length_penalty{};  ///< the same
};

/// Warns about lines that are too long: about each of the first, and at the end about their number.
class LongLineWarnings {
 public:
  void add(const DataError& error, const char* consequence) {
    if (++count_ <= most) warn(fmt::format("{}; {}", error.what(), consequence));
  }
  void finish() const {
    if (count_ > most) warn(fmt::format("{}: {} lines were too long", input_name, count_));
  }

 private:
  static constexpr std::size_t most = 3;

  std::size_t count_ = 0;
};

/// The lines that have been read and not yet answered.
class WaitingLines {
 public:
  WaitingLines(const Task& task, const TrainedModel& trained, const Arguments& arguments)
      : task_(task), trained_(trained), arguments_(arguments) {}

  void add(const std::string& line, std::size_t number) try {
    add(task_.read_line(line, number, fmt::format("{}:{}", input_name, number), trained_));
  } catch (const LongLine& error) {
    if (arguments_.on_long_line == long_lines::stop) throw;
    const bool cut = arguments_.on_long_line == long_lines::cut;
    warnings_.add(error, cut ? "only the first are answered" : "the answer is an empty line");
    add(cut ? std::optional(error.cut()) : std::nullopt);
  }

  /// Adds a line that is too long to be split into tokens.
  void add_overlong(const OverlongLine& error) {
    if (arguments_.on_long_line == long_lines::stop) throw OverlongLine(error);
    warnings_.add(error, "the answer is an empty line");
    add(std::nullopt);
  }

  void finish() {
    answer();
    warnings_.finish();
  }

  std::size_t size() const { return filled_.size(); }

  void answer() {
    const auto lines = arguments_.top == 1 ? task_.answer(trained_, examples_)
                                           : task_.rank(trained_, examples_, arguments_.top);
    auto line = lines.begin();
    for (const bool filled : filled_) fmt::print("{}\n", filled ? *line++ : "");
    flush_standard_output();
    filled_.clear();
    examples_.clear();
  }

 private:
  void add(std::optional<Example> example) {
    filled_.push_back(example.has_value());
    if (example) examples_.push_back(*std::move(example));
  }

  const Task& task_;
  const TrainedModel& trained_;
  const Arguments& arguments_;
  LongLineWarnings warnings_;
  std::vector<bool> filled_;  ///< for each line, whether it produced an example
  std::vector<Example> examples_;
};

/// The next line, of which one that is too long to be read is added to `waiting`.
std::optional<std::string> next_line(LineReader& lines, WaitingLines& waiting) {
  while (true) {
    try {
      return lines.next();
    } catch (const OverlongLine& error) {
      waiting.add_overlong(error);
      lines.skip_line();
    }
  }
}

void answer_lines(const Task& task, const TrainedModel& trained, const Arguments& arguments) {
  WaitingLines waiting(task, trained, arguments);
  LineReader lines(STDIN_FILENO, input_name, task.input_hint());
  try {
    while (const auto line = next_line(lines, waiting)) {
      waiting.add(*line, lines.line_number());
      // The program that writes the lines may wait for their answers before it writes more.
      if (waiting.size() >= lines_at_once || !lines.line_is_ready()) waiting.answer();
    }
  } catch (const DataError&) {
    waiting.answer();  // the lines before the one that cannot be used
    throw;
  }
  waiting.finish();
}

std::vector<std::string> kinds_with_command(const LineCommand& command) {
  std::vector<std::string> kinds;
  for (const Task* task : all_tasks()) {
    if (task->command() == &command) kinds.emplace_back(task->kind().name);
  }
  return kinds;
}

int run(const LineCommand& command, const Arguments& arguments) {
  set_num_threads(arguments.threads);
  TrainedModel trained = open_trained(arguments.run).trained;
  DecodingOptions& decoding = trained.config.decoding;
  decoding.beam_size = arguments.beam_size.value_or(decoding.beam_size);
  decoding.length_penalty = arguments.length_penalty.value_or(decoding.length_penalty);
  require_kind(trained, kinds_with_command(command), command.name);
  answer_lines(find_task(trained.config), trained, arguments);
  return static_cast<int>(ExitCode::done);
}

}  // namespace

Command make_line_command(const LineCommand& line_command) {
  return {.name = line_command.name,
          .purpose = line_command.purpose,
          .define =
              [&line_command](CLI::App& app) {
                const auto arguments = std::make_shared<Arguments>();
                add_run(app, arguments->run);
                add_choice(app, "--long-lines", arguments->on_long_line,
                           {long_lines::empty, long_lines::cut, long_lines::stop},
                           "The answer to a line with more tokens than the model can read: an "
                           "empty line, the answer to its first tokens, or none: the command fails")
                    ->capture_default_str();
                add_threads(app, arguments->threads);
                if (line_command.ranks) {
                  app.add_option("--top", arguments->top, "Number of most likely classes to print")
                      ->check(within(between(1, 1'000'000)))
                      ->capture_default_str();
                }
                if (line_command.decodes) {
                  app.add_option("--beam-size", arguments->beam_size,
                                 "Hypotheses that beam search extends at once; 1: greedy decoding "
                                 "(default: decoding.beam_size of the run)")
                      ->check(within(between(1, DecodingOptions::widest_beam)));
                  app.add_option("--length-penalty", arguments->length_penalty,
                                 "Exponent of the length normalization; 0: none (default: "
                                 "decoding.length_penalty of the run)")
                      ->check(within(not_negative()));
                }
                app.footer(line_command.footer);
                return [arguments, &line_command] { return run(line_command, *arguments); };
              },
          .memory_hint = line_command.memory_hint,
          .answers_lines = true};
}

}  // namespace tapestry
