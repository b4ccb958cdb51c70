// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/domain.h"

#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tests/support/contains.h"
#include "train/config/difference.h"
#include "train/config/fields.h"
#include "train/config/numbers.h"

namespace tapestry {
namespace {

using Texts = std::vector<std::string>;

const Domain name_or_number = NumberOrWord{from_0_below_1(), "dropout"};
const Domain weights = WholeNumbers{{.low = 1, .high = 9}};
const Domain above_0_to_1 = RealNumber{.high = 1.0, .has_low = false};
const std::string most = "18446744073709551615", one_more = "18446744073709551616";

TEST_CASE("a domain of any kind parses, prints and describes its values") {
  const struct {
    Domain domain;
    std::string expected;
    Texts texts;         ///< texts that are accepted and printed unchanged
    FieldValue first{};  ///< the value of the first text
  } rows[] = {
      {at_least(0), "a whole number >= 0", {"0", "64", most}, std::uint64_t{0}},
      {between(2, 9), "a whole number from 2 to 9", {"2", "9"}, std::uint64_t{2}},
      {steps_between(1, 9),
       "a whole number from 1 to 9 or a percentage of `train.steps`",
       {"9"},
       std::uint64_t{9}},
      {positive(), "a number > 0", {"0.25", "5e-324", "1e+22", "1.7976931348623157e+308"}, 0.25},
      {not_negative(), "a number >= 0", {"0", "1e-05", "0.30000000000000004"}, 0.0},
      {from_0_below_1(), "a number in [0, 1)", {"0", "0.9999999999999999"}, 0.0},
      {above_0_to_1, "a number in (0, 1]", {"1"}, 1.0},
      {between_reals(2, 4), "a number in [2, 4]", {"2", "4"}, 2.0},
      {Flag(), "true or false", {"true", "false"}, true},
      {name_or_number,
       "a number in [0, 1) or `dropout`",
       {"dropout", "0", "0.25"},
       std::optional<double>()},
      {Duration(),
       "a time such as 3h50m, 90s or 1d12h",
       {"1d2h3m4s", "0s", "59s", "1m", "3h50m", "1d12h", "10000d"},
       std::chrono::seconds(93784)},
      {FilePaths(),
       "a path or a list of paths",
       {R"(["a, b", "c\"d\\"])", R"(["[a]"])"},
       FileList(Texts{"a, b", "c\"d\\"})},
      {weights,
       "a list such as [1, 3], where each item is a whole number from 1 to 9",
       {"[1, 9]", "[]"},
       std::vector<std::size_t>{1, 9}},
      {any_of<OptimizerKind>(), "sgd, adam or adamw", {"adamw"}, std::string("adamw")},
      {Text(), "a text", {}},
  };
  for (const auto& row : rows) {
    CHECK(row.domain.expected() == row.expected);
    for (const std::string& text : row.texts) {
      CAPTURE(text);
      const Parsed parsed = row.domain.parse(text);
      REQUIRE(std::holds_alternative<FieldValue>(parsed));
      CHECK(row.domain.print(std::get<FieldValue>(parsed)) == text);
      if (text == row.texts.front()) CHECK((std::get<FieldValue>(parsed) == row.first));
    }
  }
  CHECK(Domain(Text()).print(std::string("a \"b\" \\c")) == R"("a \"b\" \\c")");
  CHECK(Domain(FilePaths()).print(FileList()) == "\"\"");
}

TEST_CASE("all notations of a value are parsed as the same value") {
  const struct {
    Domain domain;
    std::string text, printed;
  } rows[] = {
      {positive(), "1e-3", "0.001"},
      {positive(), "1E3", "1000"},
      {positive(), ".5", "0.5"},
      {Duration(), "90s", "1m30s"},
      {Duration(), "1d24h60m60s", "2d1h1m"},
      {Duration(), "9999d24h", "10000d"},
      {Duration(), "864000000s", "10000d"},
      {weights, "3", "[3]"},
      {FilePaths(), "", "\"\""},
      {FilePaths(), "[]", "\"\""},
      {FilePaths(), "a b, c.txt", "\"a b, c.txt\""},
      {FilePaths(), "[a.txt]", "\"a.txt\""},
      {FilePaths(), "[ a.txt,b c.txt ]", R"(["a.txt", "b c.txt"])"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    const Parsed parsed = row.domain.parse(row.text);
    REQUIRE(std::holds_alternative<FieldValue>(parsed));
    CHECK(row.domain.print(std::get<FieldValue>(parsed)) == row.printed);
  }
}

TEST_CASE(
    "invalid texts are rejected, and the hint has the valid notation if the meaning is clear") {
  const struct {
    Domain domain;
    Texts texts;
    std::string hint{};
  } rows[] = {
      {at_least(1),
       {"abc",  "",       " 5",     "5 ",       "-1",   "1.5", "1,5",   "0x",     "0xg",
        "1e99", ".inf",   "nan",    "infinity", "5abc", "٣",   "1,00",  "1,0000", "1234,567",
        ",000", "1,000,", "1,23k4", "k",        "5kk",  "0",   one_more}},
      {at_least(1), {"010", "0xa", "1e1", "1_0", "10.0", "+10"}, "write `10`, in decimal digits"},
      {at_least(1), {"12,000", "12k", "12K", "0.012M"}, "write `12000`, in decimal digits"},
      {at_least(1), {"1,234,567"}, "write `1234567`"},
      {between(2, 9), {"1", "10"}},
      {steps_between(1, 9), {"10"}},
      {steps_between(1, 9), {"0.07"}, "write `7%`"},
      {steps_between(1, 9), {"110%", "0%", "5 %"}, "write a percentage above 0% and up to 100%"},
      {positive(),
       {"abc", "", ".nan", ".inf", "-.inf", "nan", "inf", "infinity", "0x10", "1e", "1.2.3", " 1",
        "1 ", "0", "-0.1"}},
      {positive(), {"1e400", "1e-400"}, "write a number that a double can hold"},
      {positive(), {"0,1", "+0.1", "00.1"}, "write `0.1`"},
      {positive(), {"0,001"}, "write `0.001`"},
      {from_0_below_1(), {"0,125"}, "write `0.125`"},
      {positive(), {"1_000.5"}, "write `1000.5`"},
      {not_negative(), {"-0.1"}},
      {from_0_below_1(), {"1", "-0.1"}},
      {above_0_to_1, {"0", "1.5"}},
      {between_reals(2, 4), {"1.9", "4.1"}},
      {Flag(), {"yes", "True", "on", "1", "y", "TRUE", "Yes"}, "write `true`"},
      {Flag(), {"off", "0", "no", "n", "FALSE", "Off"}, "write `false`"},
      {Flag(), {"maybe", ""}},
      {name_or_number, {"dropuot"}, "did you mean `dropout`?"},
      {name_or_number, {"0,1"}, "write `0.1`"},
      {name_or_number, {"1", ""}},
      {Duration(),
       {"", "h", "3 h", "-3h", "3h50", "50m3h", "3h3h", "1.5h", "3H", "3hm", "10001d", "864000001s",
        "1h1h", "1s1m", "1d1s1s", "99999999999999999999s", "9223372036854775807d"}},
      {Duration(), {"9999d25h"}, "write 10000d or less"},
      {Duration(), {"3600"}, "write `3600s` for seconds"},
      {Duration(), {"2hours", "2 h", "2H", "2 Hours"}, "write `2h`"},
      {Duration(), {"1 day 30min"}, "write `1d30m`"},
      {any_of<OptimizerKind>(), {"AdamW", "adanw"}, "did you mean `adamw`?"},
      {any_of<NormPlacement>(), {"between"}},
      {FilePaths(), {"[a,]", "[,a]", "[a,,b]", "[\"a]", "[\"a\"b]", "[\"\"]"}, "[a.txt, b.txt]"},
      {weights, {"[1, 10]", "[0]"}},
      {weights, {"[1, 2.0]"}, "write `2`, in decimal digits"},
      {weights, {"[1,]"}, "for example, write [1, 3]"},
  };
  for (const auto& row : rows) {
    for (const std::string& text : row.texts) {
      CAPTURE(text);
      const Parsed parsed = row.domain.parse(text);
      REQUIRE(std::holds_alternative<Diagnostic>(parsed));
      const auto& bad = std::get<Diagnostic>(parsed);
      CHECK(bad.message == "expected " + row.domain.expected() + ", found \"" + text + "\"");
      const bool may_have_hint = row.domain.is<Duration>();
      if (!row.hint.empty() || !may_have_hint) CHECK(bad.hint.empty() == row.hint.empty());
      CHECK_MESSAGE(test::contains(bad.hint, row.hint), bad.hint);
    }
  }
}

TEST_CASE("a percentage is a number above 0 and up to 100") {
  CHECK(parse_percentage("5%") == 5.0);
  CHECK(parse_percentage("0.625%") == 0.625);
  CHECK(parse_percentage("100%") == 100.0);
  for (const char* text : {"5", "5 %", "%", "0%", "100.1%", "-1%", "nan%", "5%%", "05%"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_percentage(text).has_value());
  }
}

TEST_CASE("every choice is printed and parsed with the same name") {
  for (const auto& [value, name] : choices_of<ScheduleKind>) {
    CHECK(choice_name(value) == name);
    CHECK(choice_named<ScheduleKind>(name) == value);
  }
  CHECK(choice_name(static_cast<OnNan>(9)) == "?");
}

TEST_CASE("list_in_words() joins words with commas and a final `or`") {
  CHECK(list_in_words({}) == "");
  CHECK(list_in_words({"a"}) == "a");
  CHECK(list_in_words({"a", "b"}) == "a or b");
  CHECK(list_in_words({"a", "b", "c"}) == "a, b or c");
}

TEST_CASE("a domain lists its words and states whether its values are paths, lists or text") {
  CHECK(Domain(any_of<OptimizerKind>()).words() == Texts{"sgd", "adam", "adamw"});
  CHECK(Domain(Flag()).words() == Texts{"true", "false"});
  CHECK(Domain(Text()).words().empty());
  CHECK(Domain(FilePath()).is_file());
  CHECK(Domain(FilePaths()).is_file());
  CHECK_FALSE(Domain(FolderPath()).is_file());
  CHECK(Domain(FolderPath()).is_path());
  CHECK_FALSE(Domain(RunPath()).is_path());
  CHECK(Domain(RunPath()).is_text());
  CHECK_FALSE(Domain(Flag()).is_text());
  CHECK(Domain(FilePaths()).is_list());
  CHECK_FALSE(Domain(FilePath()).is_list());
}

TEST_CASE("for_each_field() writes only changed values to the config") {
  Config config;
  for_each_field(config, [](Field& field) {
    if (field.path() == "optimizer.kind") field.value = std::string("sgd");
    if (field.path() == "train.steps") field.value = std::uint64_t{7};
    if (field.path() == "model.attention_dropout") field.value = std::optional(0.5);
  });
  CHECK(config.optimizer.kind == OptimizerKind::sgd);
  CHECK(config.train.steps == 7);
  CHECK(config.model.attention_dropout == 0.5);
  Texts changed;
  for (const ConfigDifference& row : compare_configs(Config(), config)) changed.push_back(row.key);
  CHECK(changed == Texts{"model.attention_dropout", "optimizer.kind", "train.steps"});
}

}  // namespace
}  // namespace tapestry
