#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/train/wiring/keys_rows.h"
#include "tests/train/wiring/keys_tasks.h"

/// Every key of the section `optimizer`, in runs of every kind of model.
namespace tapestry {
namespace {

using namespace test;

/// Where epsilon is small Adam makes the same steps of gradients of any length, and large ones of
/// gradients that are 0 but for rounding.
const std::string coarse = "optimizer.epsilon=0.01";

/// The update rules of HandOptimizer, with each key at another value than its default. A rate of
/// 0.1 makes steps of sgd large enough to be told apart.
const std::vector<std::pair<std::string, std::vector<KeyRow>>> rows_of_kinds = {
    {"sgd",
     {{"optimizer.kind", "adam", {weights}, {}},
      {"optimizer.momentum", "0.9", {weights}, {}},
      {"optimizer.weight_decay", "0.1", {weights}, {}},
      {"optimizer.clip_norm", "0.05", {weights}, {}},
      {"optimizer.clip_norm", "0", {weights}, {}, {"optimizer.clip_norm=0.1"}}}},
    {"adam",
     {{"optimizer.kind", "adamw", {weights}, {}, {"optimizer.weight_decay=0.1"}},
      {"optimizer.beta1", "0.5", {weights}, {}},
      {"optimizer.beta2", "0.9", {weights}, {}},
      {"optimizer.epsilon", "0.1", {weights}, {}},
      {"optimizer.weight_decay", "0.1", {weights}, {}},
      {"optimizer.clip_norm", "0.05", {weights}, {}}}},
    {"adamw",
     {{"optimizer.kind", "adam", {weights}, {}, {"optimizer.weight_decay=0.1"}},
      {"optimizer.beta1", "0.5", {weights}, {}},
      {"optimizer.beta2", "0.9", {weights}, {}},
      {"optimizer.epsilon", "0.1", {weights}, {}},
      {"optimizer.weight_decay", "0.1", {weights}, {}},
      {"optimizer.clip_norm", "0.05", {weights}, {}}}},
};

TEST_CASE("every optimizer key updates the weights of every kind of model by its formula") {
  const TaskWorkplace work;
  Baselines baselines(work);
  for (const TaskCase& task : one_case_of_each_kind) {
    for (const auto& [kind, rows] : rows_of_kinds) {
      for (KeyRow row : rows) {
        row.before.push_back("optimizer.kind=" + kind);
        row.before.emplace_back("train.steps=4");
        row.before.emplace_back("train.validate_every=1000");
        row.before.push_back(kind == "sgd" ? "schedule.learning_rate=0.1" : coarse);
        check_row(How::trainer, work, task, row, baselines);
      }
    }
  }
}

TEST_CASE("every key that an optimizer uses has a row") {
  const TaskWorkplace work;
  REQUIRE(rows_of_kinds.size() == choices_of<OptimizerKind>.size());
  for (const auto& of_kind : rows_of_kinds) {
    const auto& kind = of_kind.first;
    const auto& rows = of_kind.second;
    CAPTURE(kind);
    const Config config = work.config(task_cases.front(), {"optimizer.kind=" + kind});
    for (const std::string& key : keys_in_use(config, "optimizer")) {
      CAPTURE(key);
      CHECK(std::ranges::count(rows, "optimizer." + key, &KeyRow::key) > 0);
    }
  }
}

}  // namespace
}  // namespace tapestry
