#include <algorithm>
#include <string_view>

#include "train/cli/command.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

/// Adds the LineCommands of all tasks, without duplicates.
void add_line_commands(std::vector<Command>& commands) {
  for (const Task* task : all_tasks()) {
    const LineCommand* command = task->command();
    if (command == nullptr) continue;
    const auto same_name = [&](const Command& other) {
      return std::string_view(other.name) == command->name;
    };
    if (std::ranges::none_of(commands, same_name)) commands.push_back(make_line_command(*command));
  }
}

}  // namespace

const std::vector<Command>& all_commands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> commands{train_command, evaluate_command};
    add_line_commands(commands);
    for (const Command& command :
         {generate_command, gradcheck_command, check_command, attention_command, inspect_command}) {
      commands.push_back(command);
    }
    return commands;
  }();
  return all;
}

void add_run(CLI::App& app, std::string& run) {
  app.add_option("RUN", run, "Run directory or checkpoint")->required();
}

void add_model(CLI::App& app, std::string& model) {
  app.add_option("MODEL", model,
                 "Config file (initial values), run directory or checkpoint (trained values)")
      ->required();
}

void add_overrides(CLI::App& app, std::vector<std::string>& overrides) {
  app.add_option("OVERRIDES", overrides,
                 "Config keys with other values, such as model.d_model=128; of a run, data files "
                 "only, such as data.test_text=more.txt");
}

}  // namespace tapestry
