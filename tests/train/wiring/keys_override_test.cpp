// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "tests/support/source_folder.h"
#include "tests/train/config/config_errors.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/config/fields.h"
#include "train/config/load.h"

/// Tests every key of every section in a config file and on the command line: the key sets the
/// member with its name, the last value has precedence, and errors refer to the last value.
namespace tapestry {
namespace {

using namespace test;

std::string without_quotes(std::string text) {
  std::erase(text, '"');
  return text;
}

/// A key with its default and two different values.
struct Key {
  std::string section, key, usual, one, two;
  bool used;  ///< whether the default config uses the key

  std::string in_file(const std::string& value) const {
    return section + ":\n  " + key + ": " + (value.empty() ? "\"\"" : value) + "\n";
  }
  std::string override(const std::string& value) const { return section + "." + key + "=" + value; }
};

std::vector<Key> all_keys() {
  std::vector<Key> all;
  for (const Field& field : fields_of(Config())) {
    const std::string one = another_value(field);
    all.push_back({std::string(field.section), std::string(field.key),
                   without_quotes(field.printed()), one, another_value(field, one),
                   field.in_use()});
  }
  return all;
}

/// The value of a key as unquoted YAML, or the errors: rules between keys may reject a value that
/// is valid by itself.
std::string value_or_problems(const Key& key, const std::string& text,
                              const std::vector<std::string>& overrides) {
  std::string result;
  for (const Diagnostic& problem : config_errors(text, overrides)) result += problem.message + "\n";
  if (!result.empty()) return result;
  for (const Field& field : fields_of(parse_config(text, "c.yaml", overrides))) {
    if (field.section == key.section && field.key == key.key) {
      result = without_quotes(field.printed());
    }
  }
  return result;
}

TEST_CASE("every key sets the member with its name") {
  const std::map<std::string, std::string> others = {
      {"subwords", "kind"},       {"text_normalization", "normalization"},
      {"subword_file", "file"},   {"target_subword_file", "target_file"},
      {"subword_alpha", "alpha"}, {"subword_dropout", "dropout"}};
  const std::string table = read_text(source_folder() / "train/config/fields.cpp");
  const std::regex entry(R"re(\(\s*"(\w+)",\s*(?:\w+\.)+(\w+),)re");
  std::set<std::string> found;
  for (std::sregex_iterator each(table.begin(), table.end(), entry), end; each != end; ++each) {
    const std::string key = (*each)[1], member = (*each)[2];
    const auto other = others.find(key);
    const bool is_named = member == key || member == "model_" + key;
    CHECK_MESSAGE((other == others.end() ? is_named : member == other->second), key, " sets ",
                  member);
    found.insert(key);
  }
  for (const Key& key : all_keys()) CHECK_MESSAGE(found.contains(key.key), key.key);
}

TEST_CASE("the last override of a key has precedence over the file and earlier overrides") {
  std::size_t taken = 0;
  const std::vector<Key> keys = all_keys();
  for (const Key& key : keys) {
    CAPTURE(key.override(""));
    for (const std::string& last : {key.usual, key.one, key.two}) {
      // A relative path on the command line refers to the working directory; an empty path stays
      // empty.
      const std::string expected =
          value_or_problems(key, "train:\n  log_every: 50\n", {key.override(last)});
      taken += expected == last ? 1 : 0;
      for (const std::string& first : {key.usual, key.one, key.two}) {
        CHECK(value_or_problems(key, key.in_file(first), {key.override(last)}) == expected);
        CHECK(value_or_problems(key, key.in_file(last),
                                {key.override(last), key.override(first), key.override(last)}) ==
              expected);
      }
    }
  }
  CHECK(taken > keys.size());
}

TEST_CASE("an invalid or unused value on the command line is reported there, not in the file") {
  for (const Key& key : all_keys()) {
    CAPTURE(key.override(""));
    const auto check_place = [&](const std::vector<std::string>& overrides, const char* expected) {
      const auto problems = config_errors(key.in_file(key.usual), overrides);
      REQUIRE(problems.size() == 1);
      CHECK(contains(problems[0].place.file, "command line: " + key.override(expected)));
      CHECK(problems[0].place.line == 0);
    };
    const bool is_text = config_errors(key.in_file(key.usual), {key.override("?")}).empty();
    if (!is_text) check_place({key.override("?")}, "?");
    if (key.used) continue;
    // The last of several overrides is reported, or replaces an invalid value.
    check_place({key.override(key.two), key.override(key.one)}, key.one.c_str());
    CHECK(config_errors(key.in_file(key.usual), {key.override(key.one), key.override(key.usual)})
              .empty());
  }
}

TEST_CASE("for every key, a value of the wrong type is rejected with its position") {
  for (const Field& field : fields_of(Config())) {
    CAPTURE(field.path());
    const std::string key = fmt::format("{}:\n  {}: ", field.section, field.key);
    const auto check = [&](const std::string& value, std::size_t column, const std::string& found) {
      CAPTURE(value);
      const std::string message =
          fmt::format("expected {}, found {}", field.domain.expected(), found);
      check_errors(config_errors(key + value + "\n"),
                   {{fmt::format("x:2:{}", column), "", {message}}});
    };
    const std::size_t of_key = 3, of_value = field.key.size() + 5;
    check("{a: 1}", of_value, "a map");
    check("~", of_key, "nothing");
    if (!field.domain.is_list()) check("[1, 2]", of_value, "a list");
    if (field.path() == "train.best_metric") continue;  // expects metrics of the kind of model
    if (!field.domain.is_text() && !field.domain.is_list()) check("?x", of_value, "\"?x\"");
  }
}

TEST_CASE("a contradiction between keys is reported at the last override") {
  struct Contradiction {
    std::string file;                    ///< without contradictions
    std::vector<std::string> overrides;  ///< the last override causes a contradiction
  };
  const std::vector<Contradiction> contradictions = {
      {"data: {min_length: 1, max_length: 9}", {"data.max_length=5", "data.min_length=6"}},
      {"data: {task: copy, train_text: ''}",
       {"model.kind=language_model", "data.task=images", "data.task=text"}},
      {"model: {d_model: 128}", {"model.d_model=64", "model.d_model=130"}},
      {"optimizer: {beta2: 0.98}", {"optimizer.beta2=0.5"}},
      {"schedule: {kind: cosine, warmup_steps: 5, decay_steps: 9}", {"schedule.decay_steps=4"}},
      {"train: {max_decode_length: 0}", {"train.max_decode_length=300"}}};
  for (const Contradiction& one : contradictions) {
    CAPTURE(one.file);
    CHECK(config_errors(one.file, {}).empty());
    const auto problems = config_errors(one.file, one.overrides);
    const auto is_named = [&](const Diagnostic& problem) {
      return problem.place.file == "command line: " + one.overrides.back();
    };
    CHECK(std::ranges::any_of(problems, is_named));
    for (const Diagnostic& problem : problems) CHECK(problem.place.line == 0);
  }
  // Contradictions of an invalid value are not reported.
  const auto problems =
      config_errors("model: {d_model: 130, num_heads: 13}", {"model.num_heads=x"});
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].place.file == "command line: model.num_heads=x");
}

}  // namespace
}  // namespace tapestry
