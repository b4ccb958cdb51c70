#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <string_view>
#include <vector>

/// Completion of command lines by a shell. The scripts of the shells hold no command, option or
/// key: they hand the words of the command line to the hidden command `complete` of the program
/// that is completed, and offer what it prints.
namespace tapestry {

/// The candidates for the last of the words of a command line: commands, options, config keys,
/// their values and runs that start with it. Without candidates the shell completes a file name.
///
/// program  has all commands, see add_commands()
/// words    without the name of the program. A shell that splits words at `=` passes `key`, `=` and
///          `value`; the candidates then are values, else `key=value`.
/// returns  a line for each candidate: its text, a tab and its description, which may be empty
std::string complete(const CLI::App& program, const std::vector<std::string>& words);

/// The script that makes bash, zsh or fish complete command lines of the program.
std::string completion_script(std::string_view shell);

}  // namespace tapestry
