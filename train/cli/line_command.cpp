// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <span>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/ops/linear.h"
#include "train/cli/command.h"
#include "train/cli/open_trained.h"
#include "train/models/line_input.h"

namespace tapestry {
namespace line_command_cli {
namespace {

struct Arguments {
  std::string run;  ///< a run directory or a checkpoint
  std::string on_long_line = long_lines::empty;
  std::size_t threads = 0;
  std::size_t top = 1;  ///< number of answers per line, for commands that rank answers
};

std::vector<std::string> kinds_with_command(const LineCommand& command) {
  std::vector<std::string> kinds;
  for (const Task* task : all_tasks()) {
    if (task->answers().command() == &command) kinds.emplace_back(task->kind().name);
  }
  return kinds;
}

/// Prints the answers to lines.
void print_answers(const Task& task, const TrainedModel& trained, std::size_t top,
                   std::span<const InputLine> input) {
  std::vector<Example> examples;
  for (const InputLine& line : input) {
    if (line.example) examples.push_back(*line.example);
  }
  const auto answers = top == 1 ? task.answers().answer(trained, examples)
                                : task.answers().top_answers(trained, examples, top);
  auto answer = answers.begin();
  for (const InputLine& line : input) {
    fmt::print("{}\n", line.example ? for_standard_output(as_one_line(*answer++)) : "");
  }
}

void run(const LineCommand& command, const Arguments& arguments) {
  set_num_threads(arguments.threads);
  const TrainedModel trained = open_and_announce(arguments.run);
  require_kind(trained, kinds_with_command(command), command.name);
  const Task& task = find_task(trained.config);
  const PackedWeights packed;
  LineInput input({.read =
                       [&](const std::string& line, std::size_t number, const std::string& place) {
                         return task.answers().read_line(line, number, place, trained);
                       },
                   .hint = task.words(trained.config).input_hint,
                   .on_long_line = arguments.on_long_line});
  for (auto lines = input.next(); !lines.empty(); lines = input.next()) {
    print_answers(task, trained, arguments.top, lines);
  }
}

void define(const LineCommand& line_command, CLI::App& command, Arguments& arguments) {
  add_run(command, arguments.run);
  add_long_lines(command, arguments.on_long_line);
  add_threads(command, arguments.threads);
  if (line_command.ranks) {
    add_value(command, "--top", arguments.top, between(1, 1'000'000),
              "Maximum number of classes to print, the most likely first");
  }
  command.footer(line_command.footer);
}

}  // namespace
}  // namespace line_command_cli

Command make_line_command(const LineCommand& line_command) {
  using line_command_cli::Arguments;
  const auto define = [&line_command](CLI::App& command, Arguments& arguments) {
    line_command_cli::define(line_command, command, arguments);
  };
  const auto run = [&line_command](const Arguments& arguments) {
    line_command_cli::run(line_command, arguments);
  };
  return {.name = line_command.name,
          .purpose = line_command.purpose,
          .define = with_arguments<Arguments>(define, run),
          .memory_hint = line_command.memory_hint,
          .answers_lines = true};
}

}  // namespace tapestry
