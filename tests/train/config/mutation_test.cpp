#include <doctest/doctest.h>

#include <array>
#include <random>
#include <string>
#include <string_view>

#include "train/config/config.h"
#include "train/config/error.h"

namespace tapestry {
namespace {

/// Pieces that mean something to YAML or to a number, and some that should mean nothing.
constexpr std::array<std::string_view, 46> yaml_pieces{
    ":",    ": ",  "\n", "\n  ", "  ",           "\t",     "- ",    "? ",      "[",    "]",
    "{",    "}",   ",",  "#",    " #",           "&a ",    "*a ",   "!!int ",  "! ",   "|\n",
    ">-\n", "\"",  "'",  "\\",   "\\x00",        "%YAML",  "---\n", "\n...\n", "<<",   "~",
    "null", "@",   "`",  "\r",   "\r\n",         "\x01",   "\x7f",  "\xff",    "\xc3", "ä",
    "1e9",  "0x1", "-1", ".nan", "\xEF\xBB\xBF", "data:\n"};

std::string mutated(std::string text, std::mt19937& random) {
  const auto below = [&](std::size_t n) { return random() % n; };
  const std::size_t edits = 1 + below(4);
  for (std::size_t i = 0; i < edits; ++i) {
    const std::size_t at = below(text.size() + 1);
    switch (below(5)) {
      case 0:
        text.insert(at, yaml_pieces[below(yaml_pieces.size())]);
        break;
      case 1:
        text.erase(at, 1 + below(8));
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 3:
        text.insert(at, text.substr(below(text.size() + 1), below(60)));
        break;
      case 4:
        text.resize(text.size() - below(text.size() / 4 + 1));
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("damaged configs are accepted or rejected, without a crash") {
  const std::string whole = "# a comment\n" + dump_config(Config());
  std::mt19937 random(1);
  int accepted = 0, rejected = 0;
  for (int i = 0; i < 2000; ++i) {
    const std::string text = mutated(whole, random);
    try {
      const Config config = parse_config(text, "mutant");
      CHECK(compare_configs(config, parse_config(dump_config(config), "dump")).empty());
      ++accepted;
    } catch (const ConfigError& error) {
      CHECK_FALSE(error.diagnostics().empty());
      ++rejected;
    }
  }
  CHECK(accepted > 25);
  CHECK(rejected > 1000);
}

TEST_CASE("random bytes are rejected") {
  std::mt19937 random(2);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::size_t n = random() % 40; n > 0; --n)
      text += yaml_pieces[random() % yaml_pieces.size()];
    CHECK_THROWS_AS(parse_config(text, "noise"), ConfigError);
  }
}

TEST_CASE("damaged overrides are accepted or rejected, without a crash") {
  std::mt19937 random(3);
  int rejected = 0;
  for (int i = 0; i < 3000; ++i) {
    try {
      parse_config("train:\n  steps: 9\n", "c", {mutated("model.d_model=256", random)});
    } catch (const ConfigError&) {
      ++rejected;
    }
  }
  CHECK(rejected > 1000);
}

}  // namespace tapestry
