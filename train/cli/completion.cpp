#include "train/cli/completion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "train/cli/command.h"
#include "train/config/config.h"
#include "train/config/rules.h"
#include "train/error.h"

namespace tapestry {
namespace completion_cli {
namespace {

using Words = std::span<const std::string>;

// ---- Config keys.

bool is_data_file(const ConfigKey& key) { return key.section == "data" && key.is_path; }

/// Whether a trained model accepts another value of the key, see with_other_data().
bool may_follow_run(const ConfigKey& key) { return is_data_file(key) || key.section == "decoding"; }

/// Completes `section.key`, or the value in `section.key=value`.
Completions complete_override(const std::string& word, bool follows_run) {
  Completions result;
  const std::size_t equals = word.find('=');
  for (const ConfigKey& key : config_keys()) {
    if (follows_run && !may_follow_run(key)) continue;
    const std::string start = key.path() + "=";
    if (equals == word.npos) {
      result.candidates.push_back({start, key.meaning});
    } else if (word.starts_with(start)) {
      for (const std::string& value : key.choices) result.candidates.push_back({start + value, ""});
      if (key.is_path) result.paths = PathPlace::after_equals;
    }
  }
  return result;
}

/// The keys for --allow-change.
Completions complete_key() {
  Completions result;
  for (const ConfigKey& key : config_keys()) {
    if (key.change != ChangeRule::with_permission && !is_data_file(key)) continue;
    result.candidates.push_back({key.path(), key.meaning});
  }
  return result;
}

// ---- Arguments and options of a command.

Completions paths(std::vector<std::string> extensions) {
  return {.candidates = {}, .paths = PathPlace::word, .extensions = std::move(extensions)};
}

/// The command whose line is completed, and what precedes the last word.
struct GivenArguments {
  const ArgumentParser* command;
  std::set<const Option*> options;
  std::vector<const Option*> positionals;  ///< still to come; one that repeats stays the last
  const Option* awaiting = nullptr;        ///< the option whose value the last word is
  bool only_positionals = false;           ///< after `--`
};

void take_positional(GivenArguments& given) {
  if (given.positionals.empty() || given.positionals.front()->is_repeatable()) return;
  given.positionals.erase(given.positionals.begin());
}

void take_option(GivenArguments& given, const std::string& word) {
  const std::size_t equals = word.find('=');
  const Option* option = given.command->find(word.substr(0, equals));
  if (option == nullptr) return;
  given.options.insert(option);
  if (equals == word.npos && !option->is_flag()) given.awaiting = option;
}

GivenArguments read_arguments(const ArgumentParser& command, Words words) {
  GivenArguments given{.command = &command, .options = {}, .positionals = command.positionals()};
  for (const std::string& word : words) {
    if (given.awaiting != nullptr) {
      given.awaiting = nullptr;
    } else if (given.only_positionals || !word.starts_with('-')) {
      take_positional(given);
    } else if (word == "--") {
      given.only_positionals = true;
    } else {
      take_option(given, word);
    }
  }
  return given;
}

/// Whether the command takes a trained model, of whose config few keys can be overridden.
bool takes_a_run(const ArgumentParser& command) {
  const auto positionals = command.positionals();
  return !positionals.empty() && argument_name(*positionals.front()) == "RUN";
}

Completions complete_value(const ArgumentParser& command, const Option& option,
                           const std::string& word) {
  const std::string name = argument_name(option);
  if (name == "CONFIG") return paths({"yaml", "yml"});
  if (name == "RUN") return paths({"h5"});
  if (name == "MODEL") return paths({"yaml", "yml", "h5"});
  if (name == "OVERRIDES") return complete_override(word, takes_a_run(command));
  if (name == "KEY") return complete_key();
  static const std::set<std::string> text_files{"HYPOTHESES", "REFERENCE", "BASELINE", "SYSTEMS",
                                                "SOURCE",     "TARGET",    "FILE"};
  if (text_files.contains(name)) return paths({});
  Completions result;
  for (const std::string& choice : option.choices()) {
    result.candidates.push_back({choice, ""});
  }
  return result;
}

bool is_excluded(const GivenArguments& given, const Option& option) {
  const auto excluded = option.excluded();
  return std::ranges::any_of(given.options, [&](const Option* other) {
    return std::ranges::find(excluded, other) != excluded.end();
  });
}

Completions complete_option(const GivenArguments& given) {
  Completions result;
  for (const Option* option : given.command->options()) {
    if (option->is_positional() || is_excluded(given, *option)) continue;
    if (given.options.contains(option) && !option->is_repeatable()) continue;
    for (const std::string& name : option->long_names()) {
      result.candidates.push_back({"--" + name, option->description()});
    }
  }
  return result;
}

/// Completes the value in `--option=value`.
Completions complete_attached_value(const GivenArguments& given, const std::string& word) {
  const std::size_t value = word.find('=') + 1;
  const std::string start = word.substr(0, value);
  const Option* option = given.command->find(word.substr(0, value - 1));
  if (option == nullptr) return {};
  Completions result = complete_value(*given.command, *option, word.substr(value));
  for (Candidate& candidate : result.candidates) candidate.word.insert(0, start);
  if (result.paths == PathPlace::word) result.paths = PathPlace::after_equals;
  return result;
}

Completions complete_argument(const Command& command, Words words) {
  const auto parser = describe(command);
  const std::string& word = words.back();
  const GivenArguments given = read_arguments(*parser, words.first(words.size() - 1));
  if (given.awaiting != nullptr) return complete_value(*parser, *given.awaiting, word);
  if (!given.only_positionals && word.starts_with('-')) {
    return word.find('=') == word.npos ? complete_option(given)
                                       : complete_attached_value(given, word);
  }
  if (given.positionals.empty()) return {};
  return complete_value(*parser, *given.positionals.front(), word);
}

Completions complete_command(const std::string& word) {
  Completions result;
  if (word.starts_with('-')) {
    result.candidates = {{"--help", "Print the list of commands"}, {"--version", ""}};
  } else {
    for (const Command& command : all_commands()) {
      result.candidates.push_back({command.name, command.purpose});
    }
  }
  return result;
}

// ---- The command `tapestry completion`.

struct Arguments {
  std::string shell;
  std::vector<std::string> words;
};

int run(const Arguments& arguments) {
  fmt::print("{}", arguments.words.empty() ? completion_script(arguments.shell)
                                           : to_lines(complete(arguments.words)));
  return static_cast<int>(ExitCode::done);
}

Action define(ArgumentParser& parser) {
  const auto arguments = std::make_shared<Arguments>();
  add_choice(parser, "SHELL", arguments->shell, completion_shells, "The shell").required();
  parser.add_option("WORDS", arguments->words,
                    "After `--`: words of a command line; prints candidates for the last one");
  parser.set_footer(
      "Installed packages have these scripts.\n"
      "Examples, for this session or for all of them:\n"
      "  source <(tapestry completion bash)               or add this line to ~/.bashrc\n"
      "  source <(tapestry completion zsh)                or to ~/.zshrc, after compinit\n"
      "  tapestry completion fish | source                or to ~/.config/fish/config.fish");
  return [arguments] { return run(*arguments); };
}

}  // namespace
}  // namespace completion_cli

Completions complete(const std::vector<std::string>& words) {
  if (words.size() <= 1) {
    return completion_cli::complete_command(words.empty() ? "" : words.front());
  }
  const auto command = std::ranges::find_if(
      all_commands(), [&](const Command& each) { return each.name == words.front(); });
  if (command == all_commands().end()) return {};
  return completion_cli::complete_argument(*command, completion_cli::Words(words).subspan(1));
}

std::string to_lines(const Completions& completions) {
  std::string lines;
  for (const auto& [word, description] : completions.candidates) {
    lines += fmt::format("{}\t{}\n", word, description);
  }
  if (completions.paths == PathPlace::nowhere) return lines;
  const bool whole = completions.paths == PathPlace::word;
  return lines + fmt::format("{} {}\n", whole ? ":paths" : ":value-paths",
                             fmt::join(completions.extensions, " "));
}

const Command completion_command{.name = "completion",
                                 .purpose = "Print a script that completes commands in a shell",
                                 .define = completion_cli::define};

}  // namespace tapestry
