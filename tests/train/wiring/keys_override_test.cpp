#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/wiring/keys_tasks.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/fields.h"

/// Keys that a config file and the command line both give, for every section: the last word counts,
/// and what is wrong is reported where it was said last.
namespace tapestry {
namespace {

using namespace test;

std::vector<Diagnostic> problems_of(const std::string& text,
                                    const std::vector<std::string>& overrides) {
  try {
    parse_config(text, "c.yaml", overrides);
  } catch (const ConfigError& error) {
    return error.diagnostics();
  }
  return {};
}

struct OtherValues {
  std::string section, key, as_default, one, two;
  bool used = true;  ///< with the defaults of all other keys
};

std::vector<OtherValues> other_values() {
  std::vector<OtherValues> all;
  const Config defaults;
  for_each_field(defaults, [&](const Field& field, const FieldValue& value, const Domain& domain) {
    const std::string one = another_value(value, domain);
    all.push_back({std::string(field.section), std::string(field.key), domain.print(value), one,
                   another_value(value, domain, one), field.use.in_use()});
  });
  return all;
}

/// The value that a key has in a config, as in YAML without quotes.
std::string value_in(const Config& config, const OtherValues& key) {
  std::string text;
  for_each_field(config, [&](const Field& field, const FieldValue& value, const Domain& domain) {
    if (field.section == key.section && field.key == key.key) text = domain.print(value);
  });
  std::erase(text, '"');
  return text;
}

/// Whether the whole config is refused, and if not its value of the key. Rules that hold between
/// keys may refuse a value that is otherwise good.
std::string value_or_problems(const OtherValues& key, const std::string& text,
                              const std::vector<std::string>& overrides) {
  try {
    return value_in(parse_config(text, "c.yaml", overrides), key);
  } catch (const ConfigError& error) {
    std::string problems;
    for (const Diagnostic& problem : error.diagnostics()) problems += problem.message + "\n";
    return problems;
  }
}

TEST_CASE("of a file and several overrides the last one sets the value") {
  std::set<std::string> sections;
  std::size_t taken = 0;
  for (const OtherValues& key : other_values()) {
    CAPTURE(key.section);
    CAPTURE(key.key);
    const auto override_with = [&](const std::string& value) {
      return key.section + "." + key.key + "=" + value;
    };
    const auto file_with = [&](const std::string& value) {
      return key.section + ":\n  " + key.key + ": " + value + "\n";
    };
    const std::string other =
        key.section == "train" ? "model:\n  d_model: 128\n" : "train:\n  steps: 2000\n";
    std::string as_default = key.as_default;
    std::erase(as_default, '"');
    const std::vector<std::string> values = {as_default, key.one, key.two};
    for (const std::string& last : values) {
      for (const std::string& first : values) {
        // A file path on the command line starts at the working folder, and stays empty if it is.
        const std::string alone = value_or_problems(key, other, {override_with(last)});
        taken += alone == last ? 1 : 0;
        CHECK(value_or_problems(key, other, {override_with(first), override_with(last)}) == alone);
        CHECK(value_or_problems(key, other,
                                {override_with(last), override_with(first), override_with(last)}) ==
              alone);
        const std::string quoted = "\"" + first + "\"";
        CHECK(value_or_problems(key, file_with(first.empty() ? quoted : first),
                                {override_with(last)}) == alone);
      }
    }
    sections.insert(key.section);
  }
  CHECK(sections.size() == 6);
  CHECK(taken > 400);
}

TEST_CASE("a value outside its domain is reported for the override, not for the file") {
  for (const OtherValues& key : other_values()) {
    CAPTURE(key.section);
    CAPTURE(key.key);
    const std::string override = key.section + "." + key.key + "=?";
    const auto problems =
        problems_of(key.section + ":\n  " + key.key + ": " + key.as_default + "\n", {override});
    if (problems.empty()) continue;  // a text
    REQUIRE(problems.size() == 1);
    CHECK(contains(problems[0].place.file, "command line: " + key.section + "." + key.key + "="));
    CHECK(problems[0].place.line == 0);
  }
}

TEST_CASE("an unused key is reported for the override that changes it, and only there") {
  std::set<std::string> sections;
  for (const OtherValues& key : other_values()) {
    if (key.used) continue;
    CAPTURE(key.section);
    CAPTURE(key.key);
    sections.insert(key.section);
    const std::string override = key.section + "." + key.key + "=" + key.one;
    const std::string file = key.section + ":\n  " + key.key + ": " + key.as_default + "\n";
    const auto problems = problems_of(file, {override});
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].place.file == "command line: " + override);
    CHECK(problems[0].place.line == 0);
    // The last of several overrides is the one at fault, or the one that makes good.
    const std::string harmless = key.section + "." + key.key + "=";
    const auto last = problems_of(file, {harmless + key.two, override});
    REQUIRE(last.size() == 1);
    CHECK(last[0].place.file == "command line: " + override);
    std::string as_default = key.as_default;
    std::erase(as_default, '"');
    CHECK(problems_of(file, {override, harmless + as_default}).empty());
  }
  CHECK(sections == std::set<std::string>{"data", "model", "optimizer", "schedule"});
}

/// A contradiction between keys that the file does not have and an override brings in.
struct Contradiction {
  std::string file;
  std::vector<std::string> overrides;
  std::string at;  ///< the override that it is reported at
};

const std::vector<Contradiction> contradictions = {
    {"data:\n  min_length: 1\n  max_length: 9\n",
     {"data.max_length=5", "data.min_length=6"},
     "data.min_length=6"},
    {"data:\n  max_length: 9\n", {"data.max_length=400"}, "data.max_length=400"},
    {"data:\n  task: copy\n  train_text: \"\"\n",
     {"model.kind=language_model", "data.task=images", "data.task=text"},
     "data.task=text"},
    {"model:\n  d_model: 128\n", {"model.d_model=64", "model.d_model=130"}, "model.d_model=130"},
    {"model:\n  num_heads: 4\n", {"model.num_heads=3"}, "model.num_heads=3"},
    {"model:\n  kind: seq2seq\ndata:\n  task: copy\n",
     {"model.kind=classifier"},
     "model.kind=classifier"},
    {"optimizer:\n  beta2: 0.98\n", {"optimizer.beta2=0.5"}, "optimizer.beta2=0.5"},
    {"schedule:\n  kind: constant\n",
     {"schedule.kind=linear_warmup"},
     "schedule.kind=linear_warmup"},
    {"schedule:\n  kind: cosine\n  warmup_steps: 5\n  decay_steps: 9\n",
     {"schedule.decay_steps=4"},
     "schedule.decay_steps=4"},
    {"schedule:\n  kind: cosine\n  min_learning_rate: 0\n",
     {"schedule.min_learning_rate=0.5"},
     "schedule.min_learning_rate=0.5"},
    {"train:\n  max_decode_length: 0\n",
     {"train.max_decode_length=300"},
     "train.max_decode_length=300"},
    {"train:\n  steps: 100\nschedule:\n  kind: cosine\n  warmup_steps: 50\n",
     {"schedule.warmup_steps=200"},
     "schedule.warmup_steps=200"},
};

TEST_CASE("a contradiction is reported for the last override of its key") {
  for (const Contradiction& one : contradictions) {
    CAPTURE(one.at);
    CHECK(problems_of(one.file, {}).empty());
    const auto problems = problems_of(one.file, one.overrides);
    REQUIRE_FALSE(problems.empty());
    const bool found = std::ranges::any_of(problems, [&](const Diagnostic& problem) {
      return problem.place.file == "command line: " + one.at && problem.place.line == 0;
    });
    CHECK_MESSAGE(found, to_string(problems.front()));
    for (const Diagnostic& problem : problems) CHECK(problem.place.line == 0);
  }
}

TEST_CASE("an override that cannot be parsed is the only problem reported") {
  const auto problems =
      problems_of("model:\n  d_model: 130\n  num_heads: 13\n", {"model.num_heads=many"});
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].place.file == "command line: model.num_heads=many");
}

}  // namespace
}  // namespace tapestry
