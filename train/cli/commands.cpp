#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "train/cli/command.h"
#include "train/platform/program_name.h"
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
         {generate_command, gradcheck_command, check_command, attention_command, inspect_command,
          bleu_command, compare_command, completion_command, man_command, help_command}) {
      commands.push_back(command);
    }
    return commands;
  }();
  return all;
}

CLI::Validator not_empty() {
  return CLI::Validator(
      [](const std::string& path) {
        return std::string(path.empty() ? "found an empty text, expected a path" : "");
      },
      "");
}

void add_run(CLI::App& app, std::string& run) {
  app.add_option("RUN", run, "Run directory or checkpoint")->required()->check(not_empty());
}

void add_model(CLI::App& app, std::string& model) {
  app.add_option("MODEL", model,
                 "Config file (initial values), run directory or checkpoint (trained values)")
      ->required()
      ->check(not_empty());
}

void add_threads(CLI::App& app, std::size_t& threads) {
  app.add_option("--threads", threads, "Number of threads; 0: all cores")
      ->check(within(between(0, kernels::most_threads)))
      ->capture_default_str();
}

void add_json(CLI::App& app, bool& json) { app.add_flag("--json", json, "Print one JSON object"); }

void add_overrides(CLI::App& app, std::vector<std::string>& overrides) {
  app.add_option("OVERRIDES", overrides,
                 "Config keys with other values, such as model.d_model=128; of a run, data files "
                 "only, such as data.test_text=more.txt");
}

CLI::Option* add_choice(CLI::App& app, const std::string& name, std::string& value,
                        const std::vector<std::string>& choices, const std::string& description) {
  return app.add_option(name, value, description)
      ->check(within(OneOf{choices}).description(fmt::format("{{{}}}", fmt::join(choices, ","))));
}

std::string with_program_name(const std::string& text) {
  static const std::regex command("\\btapestry(?= (?!or )[a-z]|-config\\b)");
  if (program_name() == "tapestry") return text;
  // As a plain text: `$` in a name is no reference.
  std::string name;
  for (const char c : program_name()) name += c == '$' ? std::string("$$") : std::string(1, c);
  return std::regex_replace(text, command, name);
}

Action define_command(const Command& command, CLI::App& app) {
  Action action = command.define(app);
  app.footer(with_program_name(app.get_footer()));
  return action;
}

std::unique_ptr<CLI::App> describe(const Command& command) {
  auto app = std::make_unique<CLI::App>(command.purpose, command.name);
  define_command(command, *app);
  return app;
}

std::string argument_name(const CLI::Option& option) {
  return option.nonpositional() ? option.get_type_name() : option.get_name();
}

std::vector<std::string> argument_choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find('{');
  if (begin == type.npos || !type.ends_with('}')) return {};
  return CLI::detail::split(type.substr(begin + 1, type.size() - begin - 2), ',');
}

bool is_repeatable(const CLI::Option& option) {
  return option.get_items_expected_max() >= CLI::detail::expected_max_vector_size;
}

}  // namespace tapestry
