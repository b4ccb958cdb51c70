#include "train/config/domain.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "train/config/fields.h"

namespace tapestry {
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
    CHECK(std::holds_alternative<Mistake>(row.domain.parse("not a value: {")) ==
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
