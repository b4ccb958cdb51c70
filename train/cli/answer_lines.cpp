#include <fmt/format.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/text_file.h"
#include "train/checkpoint/open_run.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/initial_state.h"
#include "train/platform/standard_streams.h"

namespace tapestry {
namespace {

/// Lines per batch if standard input is not a terminal.
constexpr std::size_t lines_at_once = 64;

constexpr const char* input_name = "standard input";

/// The lines that have been read and not yet answered.
class WaitingLines {
 public:
  WaitingLines(const Task& task, const TrainedModel& trained) : task_(task), trained_(trained) {}

  void add(const std::string& line, std::size_t number) {
    auto example =
        task_.read_line(line, number, fmt::format("{}:{}", input_name, number), trained_);
    filled_.push_back(example.has_value());
    if (example) examples_.push_back(*std::move(example));
  }

  std::size_t size() const { return filled_.size(); }

  void answer() {
    const auto lines = task_.answer(trained_, examples_);
    auto line = lines.begin();
    for (const bool filled : filled_) fmt::print("{}\n", filled ? *line++ : "");
    flush_standard_output();
    filled_.clear();
    examples_.clear();
  }

 private:
  const Task& task_;
  const TrainedModel& trained_;
  std::vector<bool> filled_;  ///< for each line, whether it produced an example
  std::vector<Example> examples_;
};

void answer_lines(const Task& task, const TrainedModel& trained) {
  WaitingLines waiting(task, trained);
  LineReader lines(STDIN_FILENO, input_name, task.input_hint());
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

std::vector<std::string> kinds_with_command(const LineCommand& command) {
  std::vector<std::string> kinds;
  for (const Task* task : all_tasks()) {
    if (task->command() == &command) kinds.emplace_back(task->kind().name);
  }
  return kinds;
}

int run(const LineCommand& command, const std::string& run) {
  const TrainedModel trained = load_model(open_run(run).snapshot);
  require_kind(trained, kinds_with_command(command), command.name);
  answer_lines(find_task(trained.config), trained);
  return static_cast<int>(ExitCode::done);
}

}  // namespace

Command make_line_command(const LineCommand& line_command) {
  return {.name = line_command.name,
          .purpose = line_command.purpose,
          .define =
              [&line_command](CLI::App& app) {
                const auto path = std::make_shared<std::string>();
                add_run(app, *path);
                app.footer(line_command.footer);
                return [path, &line_command] { return run(line_command, *path); };
              },
          .memory_hint = line_command.memory_hint,
          .answers_lines = true};
}

}  // namespace tapestry
