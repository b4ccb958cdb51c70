#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

/// Declares, parses and describes the arguments of commands. Only argument_parser.cpp includes
/// CLI11, of which every file that includes it compiles a copy.
namespace tapestry {

/// Which texts are valid values of an argument.
struct ValueCheck {
  /// What is wrong with a text; empty if it is valid. The hint, if any, follows after a line feed.
  std::function<std::string(const std::string&)> problem;
  std::vector<std::string>
      choices{};  ///< all valid texts, which help lists as {a,b}; empty: others
};

/// An argument of a command: a positional argument, an option with values, or a flag. The functions
/// that declare its properties return it, so that calls can be chained.
class Option {
 public:
  Option(const Option&) = delete;
  Option& operator=(const Option&) = delete;

  // ---- Declaration.

  Option& required();
  Option& check(const ValueCheck& check);
  Option& show_default();                         ///< help shows the value of the variable
  Option& show_default(const std::string& text);  ///< help shows `text` as the default
  Option& value_name(const std::string& name);    ///< such as FILE, instead of TEXT
  Option& delimiter(char delimiter);              ///< separates values in one text
  Option& one_value_per_use();                    ///< of a list: `--a 1 --a 2`, not `--a 1 2`
  Option& only_with(const Option& other);         ///< refused unless `other` is given
  Option& not_with(const Option& other);          ///< refused if `other` is given

  // ---- Description.

  std::string name() const;                      ///< RUN; or `--json`, without the short name
  std::vector<std::string> long_names() const;   ///< without `--`
  std::vector<std::string> short_names() const;  ///< without `-`
  const std::string& description() const;
  /// UINT, FLOAT, FILE ...: the name of the value, for choices followed by `:{a,b}`.
  std::string type_name() const;
  std::string default_text() const;                 ///< what show_default() shows; empty: nothing
  const std::vector<std::string>& choices() const;  ///< of the last check; empty: not listed
  bool is_positional() const;
  bool is_required() const;
  bool is_flag() const;                         ///< whether it has no value
  bool is_repeatable() const;                   ///< whether it may be given several times
  std::vector<const Option*> needed() const;    ///< by only_with(), in the order of declaration
  std::vector<const Option*> excluded() const;  ///< by not_with(), of both options; in that order

  // ---- After parsing.

  bool is_given() const;

 private:
  friend class ArgumentParser;
  Option(const class ArgumentParser& parser, CLI::Option& option);
  std::vector<const Option*> among(const std::set<CLI::Option*>& options) const;

  const ArgumentParser& parser_;
  CLI::Option& option_;
  std::vector<std::string> choices_;
};

/// The command line has an argument that the command does not take.
class UnexpectedArgument : public std::runtime_error {
 public:
  explicit UnexpectedArgument(const std::string& argument) : std::runtime_error(argument) {}
  const char* argument() const { return what(); }  ///< `--` if there is nothing else
};

/// The command line lacks an argument, or has an invalid one.
class InvalidArgument : public std::runtime_error {
 public:
  InvalidArgument(const std::string& mistake, std::string hint)
      : std::runtime_error(mistake), hint_(std::move(hint)) {}
  const std::string& hint() const { return hint_; }  ///< may be empty

 private:
  std::string hint_;
};

/// The arguments of a command, or of a program of which the user gives one command. Every parser
/// has the flag `-h, --help`.
class ArgumentParser {
 public:
  ArgumentParser(const std::string& name, const std::string& purpose);
  ~ArgumentParser();
  ArgumentParser(const ArgumentParser&) = delete;
  ArgumentParser& operator=(const ArgumentParser&) = delete;

  // ---- Declaration.

  /// Adds an option with a value if `name` starts with `-`, else a positional argument. parse()
  /// assigns its value to the variable, which must exist until then; a vector takes any number of
  /// values.
  ///
  /// returns  the argument, which exists as long as the parser
  Option& add_option(const std::string& name, std::string& value, const std::string& description);
  Option& add_option(const std::string& name, unsigned& value, const std::string& description);
  Option& add_option(const std::string& name, std::size_t& value, const std::string& description);
  Option& add_option(const std::string& name, double& value, const std::string& description);
  Option& add_option(const std::string& name, std::vector<std::string>& values,
                     const std::string& description);
  Option& add_option(const std::string& name, std::optional<std::string>& value,
                     const std::string& description);
  Option& add_option(const std::string& name, std::optional<std::size_t>& value,
                     const std::string& description);
  Option& add_option(const std::string& name, std::optional<double>& value,
                     const std::string& description);
  /// Adds an option without a value, which sets the variable to true.
  Option& add_flag(const std::string& name, bool& value, const std::string& description);
  void set_footer(const std::string& text);   ///< the end of the help
  void add_version(const std::string& line);  ///< adds the flag `--version`, which prints the line
  /// Adds a command, of which the user then has to give one. It exists as long as this parser.
  ArgumentParser& add_command(const std::string& name, const std::string& purpose);

  // ---- Description.

  const std::string& name() const;
  std::string footer() const;
  std::string help() const;                            ///< as --help prints it
  std::string help(const std::string& command) const;  ///< of a command that add_command() added
  std::vector<const Option*> options() const;  ///< all, in the order of declaration; --help first
  std::vector<const Option*> positionals() const;
  const Option* find(const std::string& name) const;  ///< such as `--json`; nullptr: there is none

  // ---- Parsing.

  /// Parses the arguments of main() and assigns the values.
  ///
  /// returns  what to print if --help or --version is given, else nullopt
  /// throws   UnexpectedArgument, InvalidArgument.
  std::optional<std::string> parse(int argc, char** argv);

  /// The command that the user gave; nullptr if there is none. Also if parse() has thrown.
  const ArgumentParser* given_command() const;

 private:
  friend class Option;
  explicit ArgumentParser(CLI::App& command);
  template <class Value>
  Option& add(const std::string& name, Value& value, const std::string& description);
  Option& keep(CLI::Option& option);

  std::unique_ptr<CLI::App> owned_;  ///< null for a command of another parser
  CLI::App& app_;
  std::vector<std::unique_ptr<Option>> options_;
  std::vector<std::unique_ptr<ArgumentParser>> commands_;
};

}  // namespace tapestry
