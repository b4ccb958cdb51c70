#include "train/config/domain.h"

#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <clocale>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "train/config/fields.h"

namespace tapestry {
namespace {

template <class D>
std::string refusal(const D& domain, std::string_view text) {
  const auto parsed = domain.parse(text);
  const auto* mistake = std::get_if<Diagnostic>(&parsed);
  if (mistake == nullptr) return "accepted";
  return mistake->hint.empty() ? mistake->message : mistake->message + " | " + mistake->hint;
}

}  // namespace

TEST_CASE("a whole number is decimal digits") {
  CHECK(std::get<std::uint64_t>(at_least(0).parse("0")) == 0);
  CHECK(std::get<std::uint64_t>(at_least(1).parse("64")) == 64);
  CHECK(std::get<std::uint64_t>(at_least(0).parse("18446744073709551615")) ==
        std::numeric_limits<std::uint64_t>::max());
}

TEST_CASE("text that is not a whole number is refused") {
  for (const char* text :
       {"abc",    "",         " 5",   "5 ",     "-1",       "1.5",  "1,5", "0x",
        "0xg",    "1e99",     ".inf", "nan",    "infinity", "5abc", "٣",   "1,00",
        "1,0000", "1234,567", ",000", "1,000,", "1,23k4",   "k",    "5kk"}) {
    CHECK(refusal(at_least(1), text) ==
          "expected a whole number >= 1, found \"" + std::string(text) + "\"");
  }
}

TEST_CASE("other notations of a whole number are refused with the decimal one") {
  const auto hint = [](const char* text) { return refusal(at_least(1), text); };
  CHECK(hint("010") ==
        "expected a whole number >= 1, found \"010\" | write `10`, in decimal digits alone");
  CHECK(hint("0x10") ==
        "expected a whole number >= 1, found \"0x10\" | write `16`, in decimal digits alone");
  CHECK(hint("1e3") ==
        "expected a whole number >= 1, found \"1e3\" | write `1000`, in decimal digits alone");
  CHECK(hint("1_000") ==
        "expected a whole number >= 1, found \"1_000\" | write `1000`, in decimal digits alone");
  CHECK(hint("12,000").ends_with("| write `12000`, in decimal digits alone"));
  CHECK(hint("1,234,567").ends_with("| write `1234567`, in decimal digits alone"));
  CHECK(hint("5k").ends_with("| write `5000`, in decimal digits alone"));
  CHECK(hint("1.5K").ends_with("| write `1500`, in decimal digits alone"));
  CHECK(hint("2M").ends_with("| write `2000000`, in decimal digits alone"));
  CHECK(hint("64.0") ==
        "expected a whole number >= 1, found \"64.0\" | write `64`, in decimal digits alone");
  CHECK(hint("+5") ==
        "expected a whole number >= 1, found \"+5\" | write `5`, in decimal digits alone");
}

TEST_CASE("a number of steps is a whole number, or a percentage above 0 and up to 100") {
  CHECK(std::get<std::uint64_t>(steps_between(0, 9).parse("9")) == 9);
  CHECK(StepCount::parse_percentage("5%") == 5.0);
  CHECK(StepCount::parse_percentage("0.625%") == 0.625);
  CHECK(StepCount::parse_percentage("100%") == 100.0);
  for (const char* text : {"5", "5 %", "%", "0%", "100.1%", "-1%", "nan%", "5%%", "05%"}) {
    CAPTURE(text);
    CHECK_FALSE(StepCount::parse_percentage(text).has_value());
  }
  CHECK(refusal(steps_between(1, 9), "110%") ==
        "expected a whole number from 1 to 9 or a percentage of `train.steps`, found \"110%\" | "
        "write a percentage above 0% and up to 100%, such as 5%");
  CHECK(refusal(steps_between(1, 9), "0.05") ==
        "expected a whole number from 1 to 9 or a percentage of `train.steps`, found \"0.05\"");
}

TEST_CASE("a number or word: the word is parsed and printed as it is") {
  const NumberOrWord domain{from_0_below_1(), "dropout"};
  using Value = std::optional<double>;
  CHECK(domain.expected() == "a number in [0, 1) or `dropout`");
  CHECK(std::get<Value>(domain.parse("dropout")) == Value());
  CHECK(std::get<Value>(domain.parse("0")) == Value(0.0));
  CHECK(std::get<Value>(domain.parse("0.25")) == Value(0.25));
  CHECK(domain.print({}) == "dropout");
  CHECK(domain.print(0.25) == "0.25");
}

TEST_CASE("a number or word: other text is refused with a suggestion") {
  const NumberOrWord domain{from_0_below_1(), "dropout"};
  CHECK(refusal(domain, "dropuot") ==
        "expected a number in [0, 1) or `dropout`, found \"dropuot\" | did you mean `dropout`?");
  CHECK(refusal(domain, "0,1") ==
        "expected a number in [0, 1) or `dropout`, found \"0,1\" | write `0.1`");
  CHECK(refusal(domain, "1") == "expected a number in [0, 1) or `dropout`, found \"1\"");
  CHECK(refusal(domain, "") == "expected a number in [0, 1) or `dropout`, found \"\"");
}

TEST_CASE("a duration is numbers with units, each unit once and larger ones first") {
  const auto seconds = [](const char* text) {
    return std::get<std::chrono::seconds>(Duration::parse(text)).count();
  };
  CHECK(seconds("0s") == 0);
  CHECK(seconds("90s") == 90);
  CHECK(seconds("3h50m") == 13800);
  CHECK(seconds("1d2h3m4s") == 93784);
  CHECK(seconds("10000d") == 864000000);
  CHECK(seconds("9999d24h") == 864000000);
  CHECK(seconds("864000000s") == 864000000);
  CHECK(seconds("1d24h60m60s") == 176460);
  for (const char* text :
       {"", "h", "3", "3 h", "-3h", "3h50", "50m3h", "3h3h", "1.5h", "3H", "3hm", "10001d",
        "864000001s", "1h1h", "1s1m", "1d1s1s", "99999999999999999999s", "9223372036854775807d"}) {
    CAPTURE(text);
    CHECK(refusal(Duration(), text).starts_with("expected a time such as 3h50m, 90s or 1d12h, "));
  }
  CHECK(refusal(Duration(), "9999d25h").ends_with(" | write 10000d or less"));
  CHECK(refusal(Duration(), "3600").ends_with(" | write `3600s` for seconds"));
}

TEST_CASE("a value that is no choice has the name `?`") {
  CHECK(choice_name(OnNan::skip) == "skip");
  CHECK(choice_name(static_cast<OnNan>(9)) == "?");
}

TEST_CASE("a duration is printed in the largest units") {
  for (const char* text : {"0s", "59s", "1m", "3h50m", "1d12h", "1d2h3m4s"}) {
    CHECK(Duration::print(std::get<std::chrono::seconds>(Duration::parse(text))) == text);
  }
  CHECK(Duration::print(std::chrono::seconds(3600)) == "1h");
}

TEST_CASE("the range of a whole number includes both ends") {
  CHECK(refusal(between(2, 9), "2") == "accepted");
  CHECK(refusal(between(2, 9), "9") == "accepted");
  CHECK(refusal(between(2, 9), "1") == "expected a whole number from 2 to 9, found \"1\"");
  CHECK(refusal(between(2, 9), "10") == "expected a whole number from 2 to 9, found \"10\"");
  CHECK(refusal(at_least(1), "0") == "expected a whole number >= 1, found \"0\"");
  CHECK(refusal(at_least(1), "18446744073709551616") ==
        "expected a whole number >= 1, found \"18446744073709551616\"");
}

TEST_CASE("a number may have a point and an exponent") {
  CHECK(std::get<double>(positive().parse("0.1")) == 0.1);
  CHECK(std::get<double>(positive().parse("1e-3")) == 1e-3);
  CHECK(std::get<double>(positive().parse("1E3")) == 1000.0);
  CHECK(std::get<double>(positive().parse(".5")) == 0.5);
  CHECK(std::get<double>(not_negative().parse("0")) == 0.0);
}

TEST_CASE("text that is not a finite number is refused") {
  for (const char* text : {"abc", "", ".nan", ".inf", "-.inf", "nan", "inf", "infinity", "0x10",
                           "1e", "1.2.3", " 1", "1 "}) {
    CHECK(refusal(positive(), text) ==
          "expected a number > 0, found \"" + std::string(text) + "\"");
  }
  CHECK(refusal(positive(), "1e400") ==
        "expected a number > 0, found \"1e400\" | write a number that a double can hold");
  CHECK(refusal(positive(), "1e-400") ==
        "expected a number > 0, found \"1e-400\" | write a number that a double can hold");
}

TEST_CASE("other notations of a number are refused with the right one") {
  CHECK(refusal(positive(), "0,1") == "expected a number > 0, found \"0,1\" | write `0.1`");
  CHECK(refusal(positive(), "+0.1") == "expected a number > 0, found \"+0.1\" | write `0.1`");
  CHECK(refusal(positive(), "010") == "expected a number > 0, found \"010\" | write `10`");
  CHECK(refusal(positive(), "00.5") == "expected a number > 0, found \"00.5\" | write `0.5`");
  CHECK(refusal(positive(), "1_000.5") ==
        "expected a number > 0, found \"1_000.5\" | write `1000.5`");
}

TEST_CASE("the ends of the range of a number are included or excluded") {
  CHECK(refusal(positive(), "0") == "expected a number > 0, found \"0\"");
  CHECK(refusal(positive(), "5e-324") == "accepted");
  CHECK(refusal(not_negative(), "0") == "accepted");
  CHECK(refusal(not_negative(), "-0.1") == "expected a number >= 0, found \"-0.1\"");
  CHECK(refusal(from_0_below_1(), "0") == "accepted");
  CHECK(refusal(from_0_below_1(), "0.9999999999999999") == "accepted");
  CHECK(refusal(from_0_below_1(), "1") == "expected a number in [0, 1), found \"1\"");
}

TEST_CASE("each end of a bounded range is included or excluded") {
  const RealNumber above_0{.high = 1.0, .has_low = false}, below_1{.high = 1.0, .has_high = false};
  CHECK(refusal(above_0, "1") == "accepted");
  CHECK(refusal(above_0, "0") == "expected a number in (0, 1], found \"0\"");
  CHECK(refusal(above_0, "1.5") == "expected a number in (0, 1], found \"1.5\"");
  CHECK(refusal(below_1, "0") == "accepted");
  CHECK(refusal(below_1, "1") == "expected a number in [0, 1), found \"1\"");
  CHECK(refusal(RealNumber{.low = 2.0, .high = 4.0}, "4") == "accepted");
  CHECK(refusal(RealNumber{.low = 2.0, .high = 4.0}, "1.9") ==
        "expected a number in [2, 4], found \"1.9\"");
}

TEST_CASE("a number is printed as the shortest text that parses to the same value") {
  CHECK(RealNumber::print(0.1) == "0.1");
  CHECK(RealNumber::print(1e-5) == "1e-05");
  CHECK(RealNumber::print(1.0) == "1");
  for (const double value : {1.0 / 3.0, 5e-324, 1.7976931348623157e308, 0.1 + 0.2, 1e22}) {
    CHECK(std::get<double>(not_negative().parse(RealNumber::print(value))) == value);
  }
}

TEST_CASE("a flag is true or false") {
  CHECK(std::get<bool>(Flag::parse("true")));
  CHECK_FALSE(std::get<bool>(Flag::parse("false")));
  CHECK(refusal(Flag(), "yes") == "expected true or false, found \"yes\" | write `true`");
  CHECK(refusal(Flag(), "True") == "expected true or false, found \"True\" | write `true`");
  CHECK(refusal(Flag(), "off") == "expected true or false, found \"off\" | write `false`");
  CHECK(refusal(Flag(), "0") == "expected true or false, found \"0\" | write `false`");
  for (const std::string word : {"on", "1", "y", "TRUE", "Yes"}) {
    CHECK(refusal(Flag(), word) == "expected true or false, found \"" + word + "\" | write `true`");
  }
  for (const std::string word : {"no", "n", "FALSE", "Off"}) {
    CHECK(refusal(Flag(), word) ==
          "expected true or false, found \"" + word + "\" | write `false`");
  }
  CHECK(refusal(Flag(), "maybe") == "expected true or false, found \"maybe\"");
}

TEST_CASE("a choice is one of the names") {
  CHECK(std::get<OptimizerKind>(Choice<OptimizerKind>::parse("adamw")) == OptimizerKind::adamw);
  CHECK(refusal(Choice<OptimizerKind>(), "AdamW") ==
        "expected sgd, adam or adamw, found \"AdamW\" | did you mean `adamw`?");
  CHECK(refusal(Choice<NormPlacement>(), "between") == "expected pre or post, found \"between\"");
}

TEST_CASE("every choice is printed by the name from which it is parsed") {
  for (const auto& [value, name] : choices_of<ScheduleKind>) {
    CHECK(Choice<ScheduleKind>::print(value) == name);
    CHECK(std::get<ScheduleKind>(Choice<ScheduleKind>::parse(name)) == value);
  }
}

TEST_CASE("a text is printed in quotes") {
  CHECK(Text::print("") == "\"\"");
  CHECK(Text::print("a \"b\" \\c") == "\"a \\\"b\\\" \\\\c\"");
}

TEST_CASE("files are one path or a list of paths") {
  const auto names = [](const char* text) {
    return std::get<FileList>(FilePaths::parse(text)).names();
  };
  using Names = std::vector<std::string>;
  CHECK(names("").empty());
  CHECK(names("[]").empty());
  CHECK(names("a b, c.txt") == Names{"a b, c.txt"});
  CHECK(names("[a.txt]") == Names{"a.txt"});
  CHECK(names("[ a.txt,b c.txt ]") == Names{"a.txt", "b c.txt"});
  CHECK(names("[\"a, \\\"b\", c]") == Names{"a, \"b", "c"});
  for (const char* text : {"[a,]", "[,a]", "[a,,b]", "[\"a]", "[\"a\"b]", "[\"\"]"}) {
    CHECK(refusal(FilePaths(), text) == "expected a path or a list of paths, found \"" +
                                            std::string(text) +
                                            "\" | write for example [a.txt, b.txt]");
  }
  CHECK(FilePaths::print(FileList()) == "\"\"");
  CHECK(FilePaths::print("a\"b") == "\"a\\\"b\"");
  const std::vector<Names> lists{{"a, b", "c\"d\\"}, {"[a]"}, {"[a", "b]"}};
  for (const Names& list : lists) CHECK(names(FilePaths::print(list).c_str()) == list);
}

TEST_CASE("a list of whole numbers has each of them in its range") {
  const WholeNumbers weights{{.low = 1, .high = 9}};
  const auto values = [&](const char* text) {
    return std::get<std::vector<std::size_t>>(weights.parse(text));
  };
  using Values = std::vector<std::size_t>;
  CHECK(values("[]").empty());
  CHECK(values("3") == Values{3});
  CHECK(values("[1, 9]") == Values{1, 9});
  CHECK(WholeNumbers::print({1, 9}) == "[1, 9]");
  CHECK(WholeNumbers::print({}) == "[]");
  const std::string expected =
      "expected a list such as [1, 3], each of them a whole number from 1 to 9, found ";
  CHECK(refusal(weights, "[1, 10]") == expected + "\"[1, 10]\"");
  CHECK(refusal(weights, "[0]") == expected + "\"[0]\"");
  CHECK(refusal(weights, "[1, 2.0]") ==
        expected + "\"[1, 2.0]\" | write `2`, in decimal digits alone");
  CHECK(refusal(weights, "[1,]") == expected + "\"[1,]\" | write for example [1, 3]");
}

TEST_CASE("words are listed as in a sentence") {
  CHECK(list_in_words({}) == "");
  CHECK(list_in_words({"a"}) == "a");
  CHECK(list_in_words({"a", "b"}) == "a or b");
  CHECK(list_in_words({"a", "b", "c"}) == "a, b or c");
}

namespace {

/// The value of a text; fails if it is not in the domain.
FieldValue parse_value(const Domain& domain, const std::string& text) {
  const Parsed<FieldValue> parsed = domain.parse(text);
  REQUIRE(std::holds_alternative<FieldValue>(parsed));
  return std::get<FieldValue>(parsed);
}

TEST_CASE("a domain of any kind parses, prints and describes its values") {
  const struct {
    Domain domain;
    std::string text, expected;
    FieldValue value;
  } rows[] = {
      {at_least(1), "12", "a whole number >= 1", std::uint64_t{12}},
      {positive(), "0.25", "a number > 0", 0.25},
      {Flag(), "true", "true or false", true},
      {NumberOrWord{from_0_below_1(), "none"}, "none", "a number in [0, 1) or `none`",
       std::optional<double>()},
      {Duration(), "1m30s", "a time such as 3h50m, 90s or 1d12h", std::chrono::seconds(90)},
      {FilePaths(), "[\"a\", \"b\"]", "a path or a list of paths",
       FileList(std::vector<std::string>{"a", "b"})},
      {WholeNumbers{{.low = 1, .high = 9}}, "[1, 3]",
       "a list such as [1, 3], each of them a whole number from 1 to 9",
       std::vector<std::size_t>{1, 3}},
      {Choice<OptimizerKind>(), "adamw", "sgd, adam or adamw", std::string("adamw")},
  };
  for (const auto& row : rows) {
    CAPTURE(row.text);
    CHECK((parse_value(row.domain, row.text) == row.value));
    CHECK(row.domain.print(row.value) == row.text);
    CHECK(row.domain.expected() == row.expected);
    CHECK(std::holds_alternative<Diagnostic>(row.domain.parse("not a value: {")) ==
          !row.domain.is_path());
  }
}

TEST_CASE("a domain knows its words and whether its values are paths, lists or any text") {
  CHECK(Domain(Choice<OptimizerKind>()).words() ==
        std::vector<std::string>{"sgd", "adam", "adamw"});
  CHECK(Domain(Flag()).words() == std::vector<std::string>{"true", "false"});
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

TEST_CASE("changes of key values are written to the config, and nothing else") {
  Config config;
  for_each_field(config, [](const Field& field, FieldValue& value, const Domain&) {
    if (field.path() == "optimizer.kind") value = std::string("sgd");
    if (field.path() == "train.steps") value = std::uint64_t{7};
    if (field.path() == "model.attention_dropout") value = std::optional(0.5);
  });
  CHECK(config.optimizer.kind == OptimizerKind::sgd);
  CHECK(config.train.steps == 7);
  CHECK(config.model.attention_dropout == 0.5);
  std::vector<std::string> changed;
  for (const ConfigDifference& row : compare_configs(Config(), config)) changed.push_back(row.key);
  CHECK(changed ==
        std::vector<std::string>{"model.attention_dropout", "optimizer.kind", "train.steps"});
}

}  // namespace

}  // namespace tapestry
