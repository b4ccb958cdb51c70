#include "train/config/kind.h"

#include <doctest/doctest.h>

#include <limits>
#include <string>
#include <variant>

#include "train/config/domain.h"

namespace tapestry {
namespace {

template <class D>
const D& domain_of(const CustomKey& key) {
  return std::get<D>(key.domain().any());
}

TEST_CASE("a custom key has a section, name, default, domain and description") {
  const CustomKey key =
      CustomKey::integer("train.warmth", {.initial = 4, .minimum = 1, .maximum = 64},
                         "how warm it is", ChangeRule::free);
  CHECK(key.path() == "train.warmth");
  CHECK(key.section() == "train");
  CHECK(key.key() == "warmth");
  CHECK(key.initial() == CustomValue(std::uint64_t{4}));
  CHECK(key.meaning() == "how warm it is");
  CHECK(key.rule() == ChangeRule::free);
  CHECK(domain_of<WholeNumber>(key).expected() == "a whole number from 1 to 64");
  CHECK(key.mistake().empty());
}

TEST_CASE("each type of custom key has its domain, and is valid if its default is in it") {
  const CustomKey real = CustomKey::real("model.a", {.initial = -0.5}, "");
  CHECK(domain_of<RealNumber>(real).expected() == "a number");
  const CustomKey most = CustomKey::real("model.a", {.maximum = 2.0}, "");
  CHECK(domain_of<RealNumber>(most).expected() == "a number <= 2");
  const CustomKey below =
      CustomKey::real("model.a", {.maximum = 2.0, .maximum_is_valid = false}, "");
  CHECK(domain_of<RealNumber>(below).expected() == "a number < 2");
  const CustomKey rate = CustomKey::real(
      "model.a", {.initial = 0.5, .minimum = 0, .maximum = 1, .minimum_is_valid = false}, "");
  CHECK(domain_of<RealNumber>(rate).expected() == "a number in (0, 1]");
  const CustomKey choice =
      CustomKey::choice("model.cell", {.initial = "gru", .choices = {"gru", "lstm"}}, "");
  CHECK(domain_of<OneOf>(choice).expected() == "gru or lstm");
  const CustomKey file = CustomKey::file("data.words", {}, "");
  CHECK(domain_of<FilePath>(file).expected() == "a path");
  const CustomKey flag = CustomKey::flag("model.gate", {.initial = true}, "");
  CHECK(domain_of<Flag>(flag).expected() == "true or false");
  const CustomKey text = CustomKey::text("model.name", {.initial = "a: b"}, "");
  CHECK(domain_of<Text>(text).expected() == "a text");
  for (const CustomKey& key : {real, most, below, rate, choice, file, flag, text}) {
    CHECK(key.mistake() == "");
    CHECK(key.rule() == ChangeRule::never);
  }
}

TEST_CASE("a custom key whose default is outside of its domain is refused") {
  CHECK(CustomKey::integer("model.n", {.initial = 65, .minimum = 1, .maximum = 64}, "").mistake() ==
        "the default is 65, expected a whole number from 1 to 64");
  CHECK(CustomKey::integer("model.n", {.initial = -1, .maximum = 3}, "").mistake() ==
        "the default is -1, expected a whole number from 0 to 3");
  CHECK(CustomKey::real("model.n", {.initial = 1, .minimum = 2}, "").mistake() ==
        "the default is 1, expected a number >= 2");
  constexpr double infinity = std::numeric_limits<double>::infinity();
  CHECK(CustomKey::real("model.n", {.initial = infinity}, "").mistake() ==
        "the default is inf, expected a number");
  CHECK(
      CustomKey::choice("model.n", {.initial = "rnn", .choices = {"gru", "lstm"}}, "").mistake() ==
      "the default is rnn, expected gru or lstm");
  CHECK(CustomKey::choice("model.n", {.choices = {"gru", "lstm"}}, "").mistake() ==
        "the default is \"\", expected gru or lstm");
}

TEST_CASE("a custom key whose values contradict each other is refused") {
  CHECK(CustomKey::integer("model.n", {.minimum = -3}, "").mistake() ==
        "the minimum is -3, expected 0 or more");
  CHECK(CustomKey::integer("model.n", {.initial = 5, .minimum = 5, .maximum = 4}, "").mistake() ==
        "the minimum is 5, more than the maximum (4)");
  CHECK(CustomKey::choice("model.n", {}, "").mistake() ==
        "there are no choices, expected at least one");
  CHECK(CustomKey::choice("model.n", {.initial = "a", .choices = {"a", "a"}}, "").mistake() ==
        "the choice a is there twice");
  for (const char* bad : {"a b", "a:", "", "-a"}) {
    CHECK(CustomKey::choice("model.n", {.initial = "a", .choices = {"a", bad}}, "").mistake() ==
          "there is a choice \"" + std::string(bad) +
              "\", expected words of letters, digits, `_`, `-` and `.`");
  }
}

TEST_CASE("a custom key needs a section and a name") {
  for (const char* path : {"width", "models.width", "", ".width"}) {
    CHECK(CustomKey::flag(path, {}, "").mistake() ==
          "expected a section data, model, optimizer, schedule or train");
  }
  for (const char* path : {"model", "model.", "model.a b", "model.a.b"}) {
    CHECK(CustomKey::flag(path, {}, "").mistake() ==
          "expected model.KEY, with a key of letters, digits and `_`");
  }
}

}  // namespace
}  // namespace tapestry
