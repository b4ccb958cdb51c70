// SPDX-License-Identifier: BSD-3-Clause

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "data/io/error.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/cli/command.h"
#include "train/config/config.h"
#include "train/config/keys.h"
#include "train/config/rules.h"

namespace tapestry {
namespace completion_cli {
namespace {

struct Candidate {
  std::string word, description{};
};
using Candidates = std::vector<Candidate>;

// ---- Config keys.

bool is_data_file(const ConfigKey& key) { return key.section == "data" && key.is_path; }

/// The config keys or, for a word that begins with a key and `=`, also the values of this key.
///
/// follows_run  true: only the keys that a trained model accepts, see with_other_data()
Candidates overrides(const std::string& word, bool follows_run) {
  Candidates result;
  for (const ConfigKey& key : config_keys()) {
    if (follows_run && !is_data_file(key) && key.section != "decoding") continue;
    const std::string start = key.path() + "=";
    if (!word.starts_with(start)) {
      result.push_back({start, key.meaning});
      continue;
    }
    for (const std::string& value : key.choices) result.push_back({start + value});
  }
  return result;
}

/// The keys for --allow-change.
Candidates keys_that_may_change() {
  Candidates result;
  for (const ConfigKey& key : config_keys()) {
    if (key.change != ChangeRule::with_permission && !is_data_file(key)) continue;
    result.push_back({key.path(), key.meaning});
  }
  return result;
}

// ---- Runs.

/// Whether the path needs no quotes in any shell.
bool is_plain(const std::string& path) {
  return std::ranges::all_of(path, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("/._-+").find(c) != std::string_view::npos;
  });
}

/// The run directories in the folder of the word, or in `runs`.
Candidates runs(const std::string& word) {
  const std::size_t slash = word.rfind('/');
  const std::string folder = slash == word.npos ? "runs/" : word.substr(0, slash + 1);
  Candidates result;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    const std::string path = folder + entry->path().filename().string();
    const bool is_run = std::filesystem::is_directory(entry->path() / "checkpoints", ignored);
    if (is_run && is_plain(path)) result.push_back({path});
  }
  std::ranges::sort(result, {}, &Candidate::word);
  return result;
}

// ---- Arguments and options of a command.

bool is_flag(const CLI::Option& option) { return option.get_items_expected_max() == 0; }

bool is_repeatable(const CLI::Option& option) {
  return option.get_items_expected_max() >= CLI::detail::expected_max_vector_size;
}

/// A command, and the arguments that precede the word to complete.
struct GivenArguments {
  const CLI::App& command;
  std::vector<const CLI::Option*> positionals;  ///< arguments that may follow
  std::set<const CLI::Option*> options{};
  const CLI::Option* awaiting = nullptr;  ///< option whose value is completed, or null
  bool only_positionals = false;          ///< true after `--`
};

void take_option(GivenArguments& given, const std::string& word) {
  const std::size_t equals = word.find('=');
  const CLI::Option* option = given.command.get_option_no_throw(word.substr(0, equals));
  if (option == nullptr) return;
  given.options.insert(option);
  if (equals == word.npos && !is_flag(*option)) given.awaiting = option;
}

GivenArguments read_arguments(const CLI::App& command, const std::vector<std::string>& words) {
  GivenArguments given{command, command.get_options([](const CLI::Option* option) {
                         return !option->nonpositional();
                       })};
  for (std::size_t i = 1; i + 1 < words.size(); ++i) {
    if (given.awaiting != nullptr) {
      given.awaiting = nullptr;
    } else if (given.only_positionals || !words[i].starts_with('-')) {
      if (given.positionals.empty() || is_repeatable(*given.positionals.front())) continue;
      given.positionals.erase(given.positionals.begin());
    } else if (words[i] == "--") {
      given.only_positionals = true;
    } else {
      take_option(given, words[i]);
    }
  }
  return given;
}

/// The choices of an option with one_of(). CLI11 stores them in the type name of the option:
/// `TEXT:{a,b}`.
Candidates choices(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const std::size_t begin = type.find(":{");
  Candidates result;
  if (begin == type.npos) return result;
  const std::string list = type.substr(begin + 2, type.size() - begin - 3);
  for (const std::string& choice : CLI::detail::split(list, ',')) result.push_back({choice});
  return result;
}

Candidates values(const GivenArguments& given, const CLI::Option& option, const std::string& word) {
  const std::string name = option.nonpositional() ? option.get_type_name() : option.get_name();
  const CLI::App& command = given.command;
  const bool resumes = given.options.contains(command.get_option_no_throw("--resume"));
  if (name == "RUN" || name == "MODEL" || (name == "CONFIG" && resumes)) return runs(word);
  if (name == "OVERRIDES") return overrides(word, command.get_option_no_throw("RUN") != nullptr);
  if (name == "KEY") return keys_that_may_change();
  return choices(option);
}

/// The options that may follow. Omits options that were given and cannot be repeated, and options
/// that exclude a given option.
Candidates options(const GivenArguments& given) {
  Candidates result;
  for (const CLI::Option* option : given.command.get_options()) {
    if (given.options.contains(option) && !is_repeatable(*option)) continue;
    const auto excluded = [&](const CLI::Option* other) {
      return option->get_excludes().contains(const_cast<CLI::Option*>(other));
    };
    if (std::ranges::any_of(given.options, excluded)) continue;
    for (const std::string& name : option->get_lnames()) {
      result.push_back({"--" + name, option->get_description()});
    }
  }
  return result;
}

Candidates arguments(const CLI::App& command, const std::vector<std::string>& words) {
  const std::string& word = words.back();
  const GivenArguments given = read_arguments(command, words);
  if (given.awaiting != nullptr) return values(given, *given.awaiting, word);
  if (given.only_positionals || !word.starts_with('-')) {
    return given.positionals.empty() ? Candidates{}
                                     : values(given, *given.positionals.front(), word);
  }
  const std::size_t equals = word.find('=');
  if (equals == word.npos) return options(given);
  const CLI::Option* option = command.get_option_no_throw(word.substr(0, equals));
  if (option == nullptr) return {};
  Candidates result = values(given, *option, word.substr(equals + 1));
  for (Candidate& candidate : result) candidate.word.insert(0, word.substr(0, equals + 1));
  return result;
}

Candidates commands(const std::string& word) {
  if (word.starts_with('-')) return {{"--help", "Print the list of commands"}, {"--version"}};
  Candidates result;
  for (const Command& command : all_commands()) result.push_back({command.name, command.purpose});
  return result;
}

/// Joins words that the shell has split at `=`.
std::vector<std::string> joined(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  bool joins = false;
  for (const std::string& word : words) {
    const bool is_equals = word == "=" && !result.empty();
    if (joins || is_equals) {
      result.back() += word;
    } else {
      result.push_back(word);
    }
    joins = is_equals;
  }
  return result;
}

// ---- The command `tapestry completion`.

struct Arguments {
  std::string shell;
};

void run(const Arguments& arguments) { fmt::print("{}", completion_script(arguments.shell)); }

void define(CLI::App& command, Arguments& arguments) {
  command.add_option("SHELL", arguments.shell, "Shell to complete commands in")
      ->required()
      ->check(one_of({"bash", "zsh", "fish"}));
  command.footer(
      "Packages install these scripts.\n"
      "Examples, for this session or for every session:\n"
      "  source <(tapestry completion bash)               or add this line to ~/.bashrc\n"
      "  source <(tapestry completion zsh)                or to ~/.zshrc, after compinit\n"
      "  tapestry completion fish | source                or to ~/.config/fish/config.fish");
}

constexpr std::string_view bash_script = R"bash(# Completion for Bash

_NAME() {
  local word
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    COMPREPLY+=("$word")
    [[ $word != *= ]] || compopt -o nospace 2>/dev/null
  done < <("${COMP_WORDS[0]/#\~/$HOME}" complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}

complete -o default -F _NAME PROGRAM
)bash";

constexpr std::string_view zsh_script = R"zsh(#compdef PROGRAM
# Completion for Zsh

_NAME() {
  local -a lines keys
  local program=(${~words[1]})
  lines=(${(f)"$($program[1] complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)"})
  lines=(${lines/$'\t'/:})
  keys=(${(M)lines:#*=:*})
  lines=(${lines:#*=:*})
  if (( $#lines + $#keys )); then
    local result=1
    (( $#lines )) && _describe -t candidates PROGRAM lines && result=0
    (( $#keys )) && _describe -t keys 'config key' keys -S '' && result=0
    return result
  fi
  compset -P 1 '*='
  _files
}

if [[ $funcstack[1] == _NAME ]]; then
  _NAME
else
  compdef _NAME PROGRAM
fi
)zsh";

constexpr std::string_view fish_script = R"fish(# Completion for fish

function __NAME_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~' $HOME -- $words[1])
    $program complete $words[2..] "$current" 2>/dev/null
end

complete -c PROGRAM -f -a '(__NAME_complete)'
complete -c PROGRAM -F -n 'not count (__NAME_complete) >/dev/null'
)fish";

std::string replaced(std::string text, std::string_view placeholder, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(placeholder, at)) != text.npos; at += by.size()) {
    text.replace(at, placeholder.size(), by);
  }
  return text;
}

}  // namespace
}  // namespace completion_cli

std::string complete(const CLI::App& program, const std::vector<std::string>& words) {
  const std::vector<std::string> line = completion_cli::joined(words);
  const std::string word = line.empty() ? "" : line.back();
  completion_cli::Candidates candidates;
  if (line.size() <= 1) {
    candidates = completion_cli::commands(word);
  } else {
    const auto command = program.get_subcommands(
        [&](const CLI::App* each) { return each->get_name() == line.front(); });
    if (!command.empty()) candidates = completion_cli::arguments(*command.front(), line);
  }
  const bool is_split = !words.empty() && words.back() != word;
  const std::size_t begin = is_split ? word.rfind('=') + 1 : 0;
  std::string lines;
  for (const auto& [candidate, description] : candidates) {
    if (!candidate.starts_with(word)) continue;
    lines += fmt::format("{}\t{}\n", candidate.substr(begin), description);
  }
  return lines;
}

std::string completion_script(std::string_view shell) {
  const std::string_view script = shell == "bash"  ? completion_cli::bash_script
                                  : shell == "zsh" ? completion_cli::zsh_script
                                                   : completion_cli::fish_script;
  // The name of a shell function: all characters except letters and digits become `_`.
  std::string identifier = program_name();
  std::ranges::replace_if(
      identifier, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  const std::string text = completion_cli::replaced(std::string(script), "NAME", identifier);
  return completion_cli::replaced(text, "PROGRAM", program_name());
}

extern const Command completion_command{
    .name = "completion",
    .purpose = "Print a script that completes commands in a shell",
    .define = with_arguments(completion_cli::define, completion_cli::run)};

}  // namespace tapestry
