#include "train/cli/argument_parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>
#include <utility>

namespace tapestry {
namespace {

/// What is wrong with the number of values of an option. CLI11 only has it as a text, such as
/// "--tokens: At Most 1 required but received 2".
std::string count_mistake(const CLI::ArgumentMismatch& mismatch) {
  const std::string text = mismatch.what();
  std::string name = text.substr(0, text.find_first_of(": "));
  if (!name.starts_with('-')) name.insert(0, "--");  // of a flag
  const auto about = [&](std::string_view mistake) { return fmt::format("{}: {}", name, mistake); };
  if (text.ends_with("missing")) return about("found no value, expected one");
  if (text.ends_with("flag override")) return about("found a value, expected none");
  if (text.find("At Most 1 ") == text.npos) return text;
  return about(fmt::format("found {} values, expected one", text.substr(text.rfind(' ') + 1)));
}

}  // namespace

// ---- Option.

Option::Option(const ArgumentParser& parser, CLI::Option& option)
    : parser_(parser), option_(option) {}

Option& Option::required() {
  option_.required();
  return *this;
}

Option& Option::check(const ValueCheck& check) {
  choices_ = check.choices;
  option_.check(CLI::Validator(
      check.problem, choices_.empty() ? "" : fmt::format("{{{}}}", fmt::join(choices_, ","))));
  return *this;
}

Option& Option::show_default() {
  option_.capture_default_str();
  return *this;
}

Option& Option::show_default(const std::string& text) {
  option_.default_str(text);
  return *this;
}

Option& Option::value_name(const std::string& name) {
  option_.type_name(name);
  return *this;
}

Option& Option::delimiter(char delimiter) {
  option_.delimiter(delimiter);
  return *this;
}

Option& Option::one_value_per_use() {
  option_.allow_extra_args(false);
  return *this;
}

Option& Option::only_with(const Option& other) {
  option_.needs(&other.option_);
  return *this;
}

Option& Option::not_with(const Option& other) {
  option_.excludes(&other.option_);
  return *this;
}

std::string Option::name() const { return option_.get_name(); }
std::vector<std::string> Option::long_names() const { return option_.get_lnames(); }
std::vector<std::string> Option::short_names() const { return option_.get_snames(); }
const std::string& Option::description() const { return option_.get_description(); }
std::string Option::type_name() const { return option_.get_type_name(); }
std::string Option::default_text() const { return option_.get_default_str(); }
const std::vector<std::string>& Option::choices() const { return choices_; }
bool Option::is_positional() const { return !option_.nonpositional(); }
bool Option::is_required() const { return option_.get_required(); }
bool Option::is_flag() const { return option_.get_items_expected_max() == 0; }

bool Option::is_repeatable() const {
  return option_.get_items_expected_max() >= CLI::detail::expected_max_vector_size;
}

std::vector<const Option*> Option::among(const std::set<CLI::Option*>& options) const {
  std::vector<const Option*> result = parser_.options();
  std::erase_if(result, [&](const Option* each) { return !options.contains(&each->option_); });
  return result;
}

std::vector<const Option*> Option::needed() const { return among(option_.get_needs()); }
std::vector<const Option*> Option::excluded() const { return among(option_.get_excludes()); }
bool Option::is_given() const { return option_.count() > 0; }

// ---- ArgumentParser.

ArgumentParser::ArgumentParser(const std::string& name, const std::string& purpose)
    : owned_(std::make_unique<CLI::App>(purpose, name)), app_(*owned_) {
  keep(*app_.get_help_ptr());
}

ArgumentParser::ArgumentParser(CLI::App& command) : app_(command) {
  keep(*app_.get_help_ptr()->disable_flag_override());
}

ArgumentParser::~ArgumentParser() = default;

Option& ArgumentParser::keep(CLI::Option& option) {
  options_.push_back(std::unique_ptr<Option>(new Option(*this, option)));
  return *options_.back();
}

template <class Value>
Option& ArgumentParser::add(const std::string& name, Value& value, const std::string& description) {
  return keep(*app_.add_option(name, value, description));
}

Option& ArgumentParser::add_option(const std::string& name, std::string& value,
                                   const std::string& description) {
  return add(name, value, description);
}

Option& ArgumentParser::add_option(const std::string& name, unsigned& value,
                                   const std::string& description) {
  return add(name, value, description);
}

Option& ArgumentParser::add_option(const std::string& name, std::size_t& value,
                                   const std::string& description) {
  return add(name, value, description);
}

Option& ArgumentParser::add_option(const std::string& name, double& value,
                                   const std::string& description) {
  return add(name, value, description);
}

Option& ArgumentParser::add_option(const std::string& name, std::vector<std::string>& values,
                                   const std::string& description) {
  return add(name, values, description);
}

Option& ArgumentParser::add_option(const std::string& name, std::optional<std::string>& value,
                                   const std::string& description) {
  return add(name, value, description);
}

Option& ArgumentParser::add_option(const std::string& name, std::optional<std::size_t>& value,
                                   const std::string& description) {
  return add(name, value, description);
}

Option& ArgumentParser::add_option(const std::string& name, std::optional<double>& value,
                                   const std::string& description) {
  return add(name, value, description);
}

Option& ArgumentParser::add_flag(const std::string& name, bool& value,
                                 const std::string& description) {
  return keep(*app_.add_flag(name, value, description)->disable_flag_override());
}

void ArgumentParser::set_footer(const std::string& text) { app_.footer(text); }

void ArgumentParser::add_version(const std::string& line) {
  keep(*app_.set_version_flag("--version", line));
}

ArgumentParser& ArgumentParser::add_command(const std::string& name, const std::string& purpose) {
  app_.require_subcommand(1);
  CLI::App& command = *app_.add_subcommand(name, purpose);
  commands_.push_back(std::unique_ptr<ArgumentParser>(new ArgumentParser(command)));
  return *commands_.back();
}

const std::string& ArgumentParser::name() const { return app_.get_name(); }
std::string ArgumentParser::footer() const { return app_.get_footer(); }
std::string ArgumentParser::help() const { return app_.help(); }

std::string ArgumentParser::help(const std::string& command) const {
  return app_.get_subcommand(command)->help(name());
}

std::vector<const Option*> ArgumentParser::options() const {
  std::vector<const Option*> options;
  for (const auto& option : options_) options.push_back(option.get());
  return options;
}

std::vector<const Option*> ArgumentParser::positionals() const {
  std::vector<const Option*> positionals = options();
  std::erase_if(positionals, [](const Option* option) { return !option->is_positional(); });
  return positionals;
}

const Option* ArgumentParser::find(const std::string& name) const {
  const CLI::Option* found = app_.get_option_no_throw(name);
  const auto option =
      std::ranges::find_if(options_, [&](const auto& each) { return &each->option_ == found; });
  return option == options_.end() ? nullptr : option->get();
}

std::optional<std::string> ArgumentParser::parse(int argc, char** argv) {
  try {
    app_.parse(argc, argv);
  } catch (const CLI::Success& asked_for_help) {
    std::ostringstream text;
    app_.exit(asked_for_help, text, text);
    return text.str();
  } catch (const CLI::ExtrasError&) {
    std::vector<std::string> extra = app_.remaining(true);
    std::erase(extra, "--");
    throw UnexpectedArgument(extra.empty() ? "--" : extra.front());
  } catch (const CLI::ArgumentMismatch& error) {
    throw InvalidArgument(count_mistake(error), "");
  } catch (const CLI::ParseError& error) {
    const std::string problem = error.what();
    const std::size_t end = problem.find('\n');
    throw InvalidArgument(problem.substr(0, end),
                          end == problem.npos ? "" : problem.substr(end + 1));
  }
  return std::nullopt;
}

const ArgumentParser* ArgumentParser::given_command() const {
  const auto given =
      std::ranges::find_if(commands_, [](const auto& command) { return command->app_.parsed(); });
  return given == commands_.end() ? nullptr : given->get();
}

}  // namespace tapestry
