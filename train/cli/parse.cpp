// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <vector>

#include "train/base/error.h"
#include "train/base/format.h"
#include "train/base/program.h"
#include "train/cli/command.h"
#include "train/config/domain.h"
#include "train/config/suggestions.h"
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
  const auto meant = closest(word, names);
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

/// Rejects an argument that the command does not take.
[[noreturn]] void reject_extra(const CLI::App& program, const AddedCommand& given) {
  std::vector<std::string> extra = program.remaining(true);
  std::erase(extra, "--");
  if (extra.empty()) reject(program, "found `--`, expected nothing more");
  const std::string& argument = extra.front();
  if (argument.starts_with('-')) {
    std::vector<std::string> options;
    for (const CLI::Option* option : given.app.get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    reject(program, fmt::format("there is no option {}", argument), closest(argument, options));
  }
  const std::string mistake = fmt::format("found `{}`, expected nothing more", argument);
  if (!given.command.answers_lines) reject(program, mistake);
  std::error_code ignored;
  throw UsageError(mistake,
                   std::filesystem::exists(argument, ignored)
                       ? fmt::format("to read a file, write < {}", format_argument(argument))
                       : "give it the lines as standard input, such as `< FILE`");
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
    reject_extra(program, given_command(program, commands));
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
