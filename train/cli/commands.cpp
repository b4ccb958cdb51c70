#include <algorithm>
#include <functional>
#include <memory>
#include <regex>
#include <string>
#include <string_view>
#include <variant>
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
    const LineCommand* command = task->answers().command();
    if (command == nullptr) continue;
    const auto same_name = [&](const Command& other) {
      return std::string_view(other.name) == command->name;
    };
    if (std::ranges::any_of(commands, same_name)) continue;
    commands.push_back(command->decodes ? make_translate_command(*command)
                                        : make_line_command(*command));
  }
}

/// ValueCheck::problem of a config domain.
template <class Domain>
std::function<std::string(const std::string&)> problem_in(const Domain& domain) {
  return [domain](const std::string& text) {
    const auto parsed = domain.parse(text);
    const Mistake* mistake = std::get_if<Mistake>(&parsed);
    if (mistake == nullptr) return std::string();
    return mistake->hint.empty() ? mistake->message : mistake->message + "\n" + mistake->hint;
  };
}

}  // namespace

const std::vector<Command>& all_commands() {
  static const std::vector<Command> all = [] {
    std::vector<Command> commands{train_command, plan_command, evaluate_command};
    add_line_commands(commands);
    for (const Command& command :
         {score_command,     generate_command, gradcheck_command,  check_command,
          attention_command, explain_command,  inspect_command,    report_command,
          runs_command,      watch_command,    diff_command,       replay_command,
          errors_command,    average_command,  sweep_command,      config_command,
          bleu_command,      compare_command,  completion_command, man_command,
          help_command}) {
      commands.push_back(command);
    }
    return commands;
  }();
  return all;
}

ValueCheck not_empty() {
  return {.problem = [](const std::string& path) {
    return std::string(path.empty() ? "found an empty text, expected a path" : "");
  }};
}

void add_run(ArgumentParser& parser, std::string& run) {
  parser.add_option("RUN", run, "Run directory or checkpoint").required().check(not_empty());
}

void add_model(ArgumentParser& parser, std::string& model) {
  parser
      .add_option("MODEL", model,
                  "Config file (initial values), run directory or checkpoint (trained values)")
      .required()
      .check(not_empty());
}

void add_threads(ArgumentParser& parser, std::size_t& threads) {
  parser.add_option("--threads", threads, "Number of threads; 0: all cores")
      .check(within(between(0, kernels::most_threads)))
      .show_default();
}

void add_json(ArgumentParser& parser, bool& json) {
  parser.add_flag("--json", json, "Print one JSON object");
}

void add_overrides(ArgumentParser& parser, std::vector<std::string>& overrides) {
  parser.add_option(
      "OVERRIDES", overrides,
      "Config keys with other values, such as model.d_model=128; of a run, data files "
      "and keys of the section decoding only, such as data.test_text=more.txt");
}

Option& add_choice(ArgumentParser& parser, const std::string& name, std::string& value,
                   const std::vector<std::string>& choices, const std::string& description) {
  return parser.add_option(name, value, description).check(within(OneOf{choices}));
}

ValueCheck within(const WholeNumber& domain) { return {.problem = problem_in(domain)}; }
ValueCheck within(const RealNumber& domain) { return {.problem = problem_in(domain)}; }
ValueCheck within(const OneOf& domain) {
  return {.problem = problem_in(domain), .choices = domain.names};
}

std::string with_program_name(const std::string& text) {
  static const std::regex command("\\btapestry(?= (?!or )[a-z]|-config\\b)");
  if (program_name() == "tapestry") return text;
  // As a plain text: `$` in a name is no reference.
  std::string name;
  for (const char c : program_name()) name += c == '$' ? std::string("$$") : std::string(1, c);
  return std::regex_replace(text, command, name);
}

Action define_command(const Command& command, ArgumentParser& parser) {
  Action action = command.define(parser);
  parser.set_footer(with_program_name(parser.footer()));
  return action;
}

std::unique_ptr<ArgumentParser> describe(const Command& command) {
  auto parser = std::make_unique<ArgumentParser>(command.name, command.purpose);
  define_command(command, *parser);
  return parser;
}

std::string argument_name(const Option& option) {
  return option.is_positional() ? option.name() : option.type_name();
}

}  // namespace tapestry
