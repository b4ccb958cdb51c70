// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/resume.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/open_run.h"
#include "train/config/difference.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/keys.h"

namespace tapestry {
namespace {

std::string rejection(const std::vector<ConfigDifference>& differences,
                      const std::vector<std::string>& allowed = {}) {
  try {
    sort_changes("runs/x", differences, allowed);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

/// The classification of a change of a key: "free", "allowed" or "rejected".
std::string outcome(const std::string& key, const std::vector<std::string>& allowed) try {
  const ConfigChanges changes = sort_changes("runs/x", {{key, "1", "2"}}, allowed);
  return changes.free.size() == 1 ? "free" : changes.allowed.size() == 1 ? "allowed" : "lost";
} catch (const ConfigError&) {
  return "rejected";
}

TEST_CASE("changes are classified by the rules of their keys, and process settings are free") {
  for (const Field& field : fields_of(Config())) {
    const std::string key = field.path();
    CAPTURE(key);
    const auto rule = change_rule(key);
    REQUIRE(rule.has_value());
    const bool free = rule == ChangeRule::free, permitted = rule == ChangeRule::with_permission;
    CHECK(outcome(key, {}) == (free ? "free" : "rejected"));
    CHECK(outcome(key, {key}) == (free ? "free" : permitted ? "allowed" : "rejected"));
    if (field.domain.is_file() && key.starts_with("data.")) CHECK(free);
    if (!field.policy.stored && key != "train.run_dir") CHECK(free);
  }
  CHECK_FALSE(change_rule("model.width").has_value());
}

TEST_CASE("keys that determine arrays of the model can never change") {
  for (const char* key : {"model.kind", "model.d_model", "model.num_heads", "model.d_ff",
                          "model.num_encoder_layers", "model.norm", "train.seed", "train.dtype"}) {
    CAPTURE(key);
    CHECK(change_rule(key) == ChangeRule::never);
  }
}

TEST_CASE(
    "config changes on resume are free, allowed by --allow-change, or rejected in one table") {
  const ConfigDifference steps{"train.steps", "10", "20"}, dropout{"model.dropout", "0.1", "0.2"};
  const ConfigChanges changes =
      sort_changes("runs/x", {steps, dropout}, {"model.dropout", "data.train_source"});
  REQUIRE(changes.free.size() == 1);
  REQUIRE(changes.allowed.size() == 1);
  CHECK(to_string(changes.free[0]) == "train.steps: 10 -> 20");
  CHECK(to_string(changes.allowed[0]) == "model.dropout: 0.1 -> 0.2");

  const std::string table = rejection({{"model.d_model", "16", "32"},
                                       {"train.steps", "10", "20"},
                                       {"schedule.learning_rate", "0.001", "0.0025"},
                                       {"train.run_dir", "\"a\"", "\"b\""}});
  for (const char* row :
       {"\n  key                     checkpoint  config  to change it\n",
        "\n  model.d_model           16          32      start a new run\n",
        "\n  schedule.learning_rate  0.001       0.0025  --allow-change schedule.learning_rate\n",
        "\n  train.run_dir           \"a\"         \"b\"     a run is resumed in its own "
        "directory"}) {
    CHECK(test::contains(table, row));
  }
  CHECK_FALSE(test::contains(table, "train.steps"));
}

TEST_CASE("--allow-change rejects unknown keys and keys that can never change") {
  for (const auto& [key, words] :
       {std::pair("model.dropuot", "did you mean `model.dropout`?"),
        {"lr", "did you mean `schedule.learning_rate`?"},
        {"colour", "see configs/README.md"},
        {"model.d_model", "cannot change: the saved state would be invalid"}}) {
    CHECK(test::contains(rejection({}, {key}), std::string("--allow-change ") + key));
    CHECK(test::contains(rejection({}, {key}), words));
  }
}

TEST_CASE("plan_resume() plans a resume with different settings") {
  test::TinyRun run;
  run.train(test::tiny_config());
  const RunDirectory directory = run.directory();
  const auto plan = [&](const ResumeRequest& request) {
    return plan_resume(directory, *read_newest_of_run(directory), request);
  };
  const ResumePlan same = plan({});
  CHECK(same.config.train.steps == test::tiny_config().train.steps);
  CHECK(test::contains(reason_of_end(same), "steps"));
  CHECK(same.changes.free.empty());
  CHECK(describe_effects(same).empty());
  CHECK(warnings_of(same).empty());

  const ResumePlan longer = plan({.overrides = {"train.steps=9999"}});
  CHECK(longer.config.train.steps == 9999);
  CHECK(reason_of_end(longer).empty());
  REQUIRE(longer.changes.free.size() == 1);
  CHECK(longer.changes.free[0].key == "train.steps");

  const std::vector<std::string> dropout{"model.dropout=0.375"};
  CHECK_THROWS_AS(plan({.overrides = dropout}), ConfigError);
  const ResumePlan allowed = plan({.overrides = dropout, .allowed = {"model.dropout"}});
  REQUIRE(describe_effects(allowed).size() == 1);
  CHECK(test::contains(describe_effects(allowed)[0], "changed model.dropout"));
}

}  // namespace
}  // namespace tapestry
