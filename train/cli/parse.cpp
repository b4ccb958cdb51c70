// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "data/io/near_name.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/cli/command.h"
#include "train/config/domain.h"
#include "train/config/fields.h"
#include "train/config/synonyms.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace {

/// Rejects the command line. The hint names `meant`, or the command that prints the help.
[[noreturn]] void reject(const CLI::App& program, const std::string& mistake,
                         const std::optional<std::string>& meant = std::nullopt) {
  const auto given = program.get_subcommands();
  const std::string command = given.empty() ? "" : given.front()->get_name() + " ";
  throw UsageError(mistake, meant ? fmt::format("did you mean {}?", *meant)
                                  : fmt::format("see `{} {}--help`", program_name(), command));
}

void require_command(const CLI::App& program, const std::string& word) {
  if (word == "-h" || word == "--help" || word == "--version") return;
  std::vector<std::string> names;
  for (const Command& command : all_commands()) names.emplace_back(command.name);
  if (std::ranges::find(names, word) != names.end()) return;
  if (word.starts_with('-')) {
    reject(program, fmt::format("found {}, expected a command first", word));
  }
  constexpr std::size_t min_length = 3;  // of an abbreviated command
  const auto begins = [&](const std::string& name) {
    return word.size() >= min_length && name.starts_with(word);
  };
  std::vector<std::string> answering = {"generate"};
  for (const Command& command : all_commands()) {
    if (command.answers_lines) answering.emplace_back(command.name);
  }
  const std::string to_answer = "use " + list_in_words(answering);
  const std::array<std::pair<const char*, std::string>, 5> others{
      {{"resume", "use `train --resume RUN`"},
       {"test", "use `evaluate RUN`"},
       {"predict", to_answer},
       {"infer", to_answer},
       {"version", "use `--version`"}}};
  for (const auto& [other, hint] : others) {
    if (word == other) throw UsageError(fmt::format("unknown command `{}`", word), hint);
  }
  const auto longer = std::ranges::find_if(names, begins);
  const auto meant = longer == names.end() ? closest(word, names) : std::optional(*longer);
  throw UsageError(fmt::format("unknown command `{}`", word),
                   meant ? fmt::format("did you mean `{}`?", *meant)
                         : fmt::format("use {}", list_in_words(names)));
}

const AddedCommand& given_command(const CLI::App& program,
                                  const std::vector<AddedCommand>& commands) {
  const CLI::App* const given = program.get_subcommands().front();
  return *std::ranges::find_if(commands,
                               [&](const AddedCommand& each) { return &each.app == given; });
}

/// The override that an unknown option means, such as "`schedule.learning_rate=3e-4`" for `--lr
/// 3e-4`, if the command accepts overrides; nullopt for other options. `next` is the word after the
/// option.
std::optional<std::string> override_meant_by(const CLI::App& command, const std::string& option,
                                             const std::string& next) {
  const auto has_overrides = [](const CLI::Option* each) {
    return each->get_name() == "OVERRIDES";
  };
  if (std::ranges::none_of(command.get_options(), has_overrides)) return std::nullopt;
  const std::size_t equals = option.find('=');
  const std::string name = option.substr(2, equals - 2);
  const auto keys = find_field(name) ? std::vector{name} : keys_meant_by(name);
  if (keys.empty()) return std::nullopt;
  const std::string value = equals != option.npos ? option.substr(equals + 1) : next;
  return fmt::format("`{}={}`", keys.front(), value.empty() ? "..." : value);
}

/// The option that corresponds to an option of other programs, such as --tokens for --length;
/// nullopt for other names.
std::optional<std::string> option_meant_by(const std::vector<std::string>& options,
                                           const std::string& name) {
  static constexpr std::array<std::array<const char*, 2>, 3> others{
      {{"--length", "--tokens"}, {"--max-length", "--tokens"}, {"--max-new-tokens", "--tokens"}}};
  for (const auto& [other, option] : others) {
    if (name == other && std::ranges::find(options, option) != options.end()) return option;
  }
  return std::nullopt;
}

/// The hint for an option that the program does not need, such as --device or --config; nullopt for
/// other options. `next` is the word after the option.
std::optional<std::string> hint_for_needless_option(const AddedCommand& given,
                                                    const std::string& option,
                                                    const std::string& next) {
  const std::size_t equals = option.find('=');
  const std::string name = option.substr(0, equals);
  if (name == "--config" && given.app.get_option_no_throw("CONFIG") != nullptr) {
    const std::string path = equals != option.npos ? option.substr(equals + 1) : next;
    return fmt::format("write `{} {} {}`", program_name(), given.command.name,
                       path.empty() ? "CONFIG" : format_argument(path));
  }
  return hint_for_missing_feature(name.substr(std::min(name.size(), std::size_t{2})));
}

/// Rejects an argument that the command does not accept. `words` are all words of the command line.
[[noreturn]] void reject_extra(const CLI::App& program, const AddedCommand& given,
                               const std::vector<std::string>& words) {
  std::vector<std::string> extra = program.remaining(true);
  std::erase(extra, "--");
  if (extra.empty()) reject(program, "found `--`, expected no more arguments");
  const std::string& argument = extra.front();
  if (argument.starts_with('-')) {
    std::vector<std::string> options;
    for (const CLI::Option* option : given.app.get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    const std::string name = argument.substr(0, argument.find('='));
    auto meant = option_meant_by(options, name);
    const auto longer = std::ranges::find_if(options, [&](const std::string& option) {
      return name.size() > 3 && option.starts_with(name);
    });
    if (!meant && longer != options.end()) meant = *longer;
    if (!meant) meant = closest(name, options);
    const auto at = std::ranges::find(words, argument);
    const bool has_next = at != words.end() && at + 1 != words.end() && !(at + 1)->starts_with('-');
    const std::string next = has_next ? *(at + 1) : "";
    if (!meant && argument.starts_with("--")) {
      meant = override_meant_by(given.app, argument, next);
    }
    const std::string mistake = fmt::format("there is no option {}", argument);
    const auto hint = meant ? std::nullopt : hint_for_needless_option(given, argument, next);
    if (hint) throw UsageError(mistake, *hint);
    reject(program, mistake, meant);
  }
  const std::string mistake = fmt::format("found `{}`, expected no more arguments", argument);
  const auto is_text = [](const CLI::Option* option) {
    return option->get_name() == "PROMPT" || option->get_name() == "TEXT";
  };
  if (std::ranges::any_of(given.app.get_options(), is_text)) {
    throw UsageError(mistake, "put a text of several words in quotes");
  }
  if (!given.command.answers_lines) reject(program, mistake);
  std::error_code ignored;
  if (std::filesystem::is_directory(argument, ignored)) {
    const auto file = std::ranges::find_if(words, [&](const std::string& word) {
      return !word.ends_with(".h5") && std::filesystem::is_regular_file(word, ignored);
    });
    if (file == words.end()) reject(program, mistake);
    throw UsageError(
        mistake, fmt::format("put the run first: {} {} {} < {}", program_name(), given.command.name,
                             format_argument(argument), format_argument(*file)));
  }
  throw UsageError(
      mistake,
      std::filesystem::exists(argument, ignored)
          ? fmt::format("to read a file, write < {}", format_argument(argument))
          : "pass lines on standard input: `echo TEXT |` before the command, or `< FILE` after it");
}

/// Describes a wrong number of values of an option. CLI11 2.3 reports it only in a message such as
/// "--tokens: At Most 1 required but received 2".
std::string count_mistake(const CLI::ArgumentMismatch& mismatch) {
  const std::string text = mismatch.what();
  std::string name = text.substr(0, text.find_first_of(": "));
  if (!name.starts_with('-')) name.insert(0, "--");  // of a flag
  if (text.ends_with("missing")) return name + ": found no value, expected one";
  if (text.ends_with("flag override")) return name + ": found a value, expected none";
  if (text.find("At Most 1 ") == text.npos) return text;
  return fmt::format("{}: found {} values, expected one", name, text.substr(text.rfind(' ') + 1));
}

}  // namespace

const AddedCommand* parse_command_line(CLI::App& program, const std::vector<AddedCommand>& commands,
                                       int argc, char** argv) {
  require_command(program, argv[1]);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& help_or_version) {
    std::ostringstream text;
    program.exit(help_or_version, text, text);
    end_on_broken_pipe();
    fmt::print("{}", text.str());
    flush_standard_output();
    return nullptr;
  } catch (const CLI::ExtrasError&) {
    reject_extra(program, given_command(program, commands), {argv + 1, argv + argc});
  } catch (const CLI::ArgumentMismatch& error) {
    reject(program, count_mistake(error));
  } catch (const CLI::ParseError& error) {
    const std::string mistake = error.what();  // may end with a line feed and a hint
    const std::size_t end = mistake.find('\n');
    if (end == mistake.npos) reject(program, mistake);
    throw UsageError(mistake.substr(0, end), mistake.substr(end + 1));
  }
  return &given_command(program, commands);
}

}  // namespace tapestry
