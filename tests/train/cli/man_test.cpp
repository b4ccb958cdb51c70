#include "train/cli/man.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/source_folder.h"
#include "train/cli/command.h"
#include "train/cli/roff.h"
#include "train/config/config.h"

namespace tapestry {
namespace {

using test::contains;

const std::string date = "2026-11-23";

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A page without line breaks inside of its texts.
std::string joined(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

TEST_CASE("tapestry(1) has every command with its arguments, options and examples") {
  const std::string page = manual_page("tapestry", date);
  CHECK(page.starts_with(".TH TAPESTRY 1 2026-11-23 "));
  CHECK(contains(page, ".SH NAME\ntapestry \\- train Transformers on CPUs\n"));
  for (const Command& command : all_commands()) {
    CAPTURE(command.name);
    CHECK(contains(page, fmt::format(".SS tapestry {} [OPTIONS]", command.name)));
    CHECK(contains(joined(page), roff::escaped(command.purpose) + "."));
    const auto parser = describe(command);
    for (const Option* option : parser->options()) {
      CHECK(contains(page, roff::literal(option->name())));
    }
  }
  CHECK(contains(page, ".SS tapestry train [OPTIONS] [CONFIG] [OVERRIDES ...]\n"));
  CHECK(contains(page, ".SS tapestry evaluate [OPTIONS] RUN [OVERRIDES ...]\n"));
  CHECK(contains(page, "\n  tapestry train \\-\\-resume runs/copy\n"));
}

TEST_CASE("an option is shown with its value, default and limits") {
  const std::string page = manual_page("tapestry", date);
  CHECK(contains(page, ".TP\n\\fB\\-\\-profile\\fR\n"));
  CHECK(
      contains(page, ".TP\n\\fB\\-\\-tokens UINT\\fR\nCharacters or words to add; default: 500\n"));
  CHECK(contains(joined(page), "may be repeated; only with \\fB\\-\\-resume\\fR"));
  CHECK(contains(joined(page), "checkpoint; not with \\fB\\-\\-fresh\\fR"));
  CHECK(contains(page, "The shell: bash, zsh or fish\n"));
}

TEST_CASE("in a manual page sentences below the options are filled, indented lines are kept") {
  const std::string page = manual_page("tapestry", date);
  CHECK(contains(joined(page),
                 "separated by commas: row by row from the top left, the channels "
                 "of a pixel side by side"));
  CHECK(contains(page, ".br\nExamples:\n.PP\n.nf\n  tapestry classify"));
  CHECK(contains(page, "\n  causality     an output depends on no later input"));
}

TEST_CASE("the exit codes of the manual page are those of the user's guide") {
  std::string table;
  for (const auto& [code, meaning] : manual_exit_codes()) {
    table += fmt::format("| {} | {} |\n", code, meaning);
  }
  CHECK(contains(read_file(test::source_folder() / "train/cli/README.md"),
                 "| code | meaning |\n|---|---|\n" + table));
}

/// The variables whose values a source file asks for by name.
std::set<std::string> variables_in(const std::string& source) {
  static const std::regex pattern(R"re((?:getenv\(|variable = )"([A-Z_]+)")re");
  std::set<std::string> names;
  for (std::sregex_iterator match(source.begin(), source.end(), pattern), end; match != end;
       ++match) {
    names.insert((*match)[1]);
  }
  return names;
}

TEST_CASE("tapestry(1) has the environment variables that the sources read") {
  std::set<std::string> read;
  for (const char* folder : {"autograd", "layers", "optim", "data", "train"}) {
    for (const auto& file :
         std::filesystem::recursive_directory_iterator(test::source_folder() / folder)) {
      if (file.path().extension() == ".cpp") read.merge(variables_in(read_file(file.path())));
    }
  }
  std::set<std::string> documented;
  for (const auto& [name, meaning] : manual_environment()) documented.emplace(name);
  CHECK(read == documented);
}

TEST_CASE("tapestry-config(5) has every key with its default, meaning, domain and use") {
  const std::string page = manual_page("tapestry-config", date);
  CHECK(page.starts_with(".TH TAPESTRY\\-CONFIG 5 2026-11-23 "));
  const std::string text = joined(page);
  for (const ConfigKey& key : config_keys()) {
    CAPTURE(key.path());
    CHECK(contains(text, fmt::format(".TP \\fB{}: {}\\fR {} .IP Value: {}.", key.key,
                                     roff::literal(key.default_value), roff::escaped(key.meaning),
                                     roff::escaped(key.expected))));
    const std::string only = fmt::format(" Only with \\fB{}\\fR.", key.used_with);
    if (!key.used_with.empty()) CHECK(contains(text, only));
  }
  for (const char* section : {"data", "model", "optimizer", "schedule", "train"}) {
    CHECK(contains(page, fmt::format(".SS {}\n.TP\n", section)));
  }
}

TEST_CASE("tapestry-config(5) says whether a resumed run may change a key") {
  const std::string text = joined(manual_page("tapestry-config", date));
  const auto says = [&](const std::string& key, const std::string& rule) {
    const std::size_t begin = text.find(".TP \\fB" + key + ": ");
    return contains(text.substr(begin, text.find(".TP", begin + 1) - begin), rule);
  };
  CHECK(says("steps", "A resumed run may change it."));
  CHECK(says("beta1", "A resumed run may change it with \\fB\\-\\-allow\\-change\\fR."));
  CHECK(says("d_model", "A resumed run cannot change it."));
}

TEST_CASE("an unknown manual page is an error") {
  CHECK_THROWS_AS(manual_page("tapestry(1)", date), std::logic_error);
}

}  // namespace
}  // namespace tapestry
