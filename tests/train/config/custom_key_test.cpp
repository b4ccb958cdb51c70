// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "train/config/keys.h"
#include "train/config/kind.h"

namespace tapestry {
namespace {

TEST_CASE("a custom key has a section, name, default, domain and description") {
  const CustomKey key("train.warmth", 4, between(1, 64), "how warm it is", ChangeRule::free);
  CHECK(key.path() == "train.warmth");
  CHECK(key.section() == "train");
  CHECK(key.key() == "warmth");
  CHECK(key.initial() == CustomValue(std::uint64_t{4}));
  CHECK(key.meaning() == "how warm it is");
  CHECK(key.rule() == ChangeRule::free);
  CHECK(key.domain().expected() == "a whole number from 1 to 64");
  CHECK(key.definition_error().empty());
}

const RealNumber any_number{.low = -std::numeric_limits<double>::infinity()};

TEST_CASE("a custom key of any type is valid if its default is in its domain") {
  for (const CustomKey& key :
       {CustomKey("model.a", -0.5, any_number, ""), CustomKey("model.a", 1, not_negative(), ""),
        CustomKey("model.a", 2U, at_least(2), ""), CustomKey("model.a", true, Flag(), ""),
        CustomKey("model.a", "gru", OneOf{{"gru", "lstm"}}, ""),
        CustomKey("model.a", "a: b", Text(), ""), CustomKey("data.words", "", FilePath(), "")}) {
    CHECK(key.definition_error() == "");
    CHECK(key.rule() == ChangeRule::never);
  }
}

TEST_CASE("a custom key with a default outside its domain or an invalid choice is rejected") {
  const OneOf cells{{"gru", "lstm"}};
  const struct {
    CustomKey key;
    std::string mistake;
  } rows[] = {
      {{"model.n", 65, between(1, 64), ""}, "65, expected a whole number from 1 to 64"},
      {{"model.n", -1, between(0, 3), ""}, "-1, expected a whole number from 0 to 3"},
      {{"model.n", 1, RealNumber{.low = 2}, ""}, "1, expected a number >= 2"},
      {{"model.n", std::numeric_limits<double>::infinity(), any_number, ""},
       "inf, expected a number"},
      {{"model.n", "rnn", cells, ""}, "rnn, expected gru or lstm"},
      {{"model.n", "", cells, ""}, "\"\", expected gru or lstm"},
      {{"model.n", true, Text(), ""}, "true, expected a text"},
      {{"model.n", "3", at_least(0), ""}, "3, expected a whole number >= 0"},
      {{"model.n", "a", FilePaths(), ""}, "a, expected a path or a list of paths"},
  };
  for (const auto& row : rows) {
    CHECK(row.key.definition_error() == "the default is " + row.mistake);
  }
  for (const char* bad : {"a b", "a:", "", "-a"}) {
    CHECK(CustomKey("model.n", "a", OneOf{{"a", bad}}, "").definition_error() ==
          "found the choice \"" + std::string(bad) +
              "\", expected words of letters, digits, `_`, `-` and `.`");
  }
}

TEST_CASE("a custom key needs a section and a name") {
  for (const char* path : {"width", "models.width", "", ".width"}) {
    CHECK(CustomKey(path, false, Flag(), "").definition_error() ==
          "expected the section data, model, optimizer, schedule or train");
  }
  for (const char* path : {"model", "model.", "model.a b", "model.a.b"}) {
    CHECK(CustomKey(path, false, Flag(), "").definition_error() ==
          "expected model.KEY, with a key of letters, digits and `_`");
  }
}

}  // namespace
}  // namespace tapestry
