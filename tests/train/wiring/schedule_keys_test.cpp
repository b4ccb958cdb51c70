#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/train/wiring/keys_rows.h"
#include "tests/train/wiring/keys_tasks.h"

/// Every key of the section `schedule`: the learning rate of each step, as metrics.csv and the
/// screen have it and as the weights have felt it.
namespace tapestry {
namespace {

using namespace test;

const std::string warm = "schedule.warmup_steps=2";

const std::vector<std::pair<std::string, std::vector<KeyRow>>> rows_of_kinds = {
    {"constant",
     {{"schedule.kind", "cosine", {weights, training}, {}},
      {"schedule.learning_rate", "0.02", {weights, training}, {}}}},
    {"linear_warmup",
     {{"schedule.kind", "inverse_sqrt", {weights, training}, {}, {warm}},
      {"schedule.learning_rate", "0.02", {weights, training}, {}, {warm}},
      {"schedule.warmup_steps", "1", {weights, training}, {}, {warm}},
      {"schedule.warmup_steps", "20", {weights, training}, {}, {warm}}}},
    {"inverse_sqrt",
     {{"schedule.kind", "linear_warmup", {weights, training}, {}, {warm}},
      {"schedule.learning_rate", "0.02", {weights, training}, {}, {warm}},
      {"schedule.warmup_steps", "1", {weights, training}, {}, {warm}},
      {"schedule.warmup_steps", "5", {weights, training}, {}, {warm}},
      {"schedule.warmup_steps", "20", {weights, training}, {}, {warm}}}},
    {"cosine",
     {{"schedule.kind", "constant", {weights, training}, {}},
      {"schedule.learning_rate", "0.02", {weights, training}, {}, {warm}},
      {"schedule.warmup_steps", "1", {weights, training}, {}},
      {"schedule.warmup_steps", "3", {weights, training}, {}},
      {"schedule.decay_steps", "4", {weights, training}, {}, {"schedule.min_learning_rate=0.001"}},
      {"schedule.decay_steps", "40", {weights, training}, {}, {warm}},
      {"schedule.min_learning_rate", "0.004", {weights, training}, {}},
      {"schedule.min_learning_rate", "0.004", {weights, training}, {}, {warm, "train.steps=5"}},
      {"schedule.min_learning_rate",
       "0.01",
       {weights, training},
       {},
       {warm, "schedule.decay_steps=4"}}}},
};

std::vector<std::string> base_of(const std::string& kind) {
  const bool needs_warmup = kind == "linear_warmup" || kind == "inverse_sqrt";
  std::vector<std::string> overrides = {"train.steps=7", "train.log_every=1",
                                        "train.validate_every=1000", "schedule.kind=" + kind};
  if (needs_warmup) overrides.push_back(warm);
  return overrides;
}

TEST_CASE("every schedule key gives each step the rate of its formula") {
  const TaskWorkplace work;
  Baselines baselines(work);
  std::size_t next = 0;
  for (const auto& [kind, rows] : rows_of_kinds) {
    for (KeyRow row : rows) {
      std::vector<std::string> before = base_of(kind);
      before.insert(before.end(), row.before.begin(), row.before.end());
      row.before = before;
      // A rate does not depend on the kind of model; each has a share of the rows.
      check_row(How::trainer, work, one_case_of_each_kind[next++ % one_case_of_each_kind.size()],
                row, baselines);
    }
  }
}

TEST_CASE("every key that a schedule uses has a row") {
  const TaskWorkplace work;
  REQUIRE(rows_of_kinds.size() == choices_of<ScheduleKind>.size());
  for (const auto& of_kind : rows_of_kinds) {
    const auto& kind = of_kind.first;
    const auto& rows = of_kind.second;
    CAPTURE(kind);
    const Config config = work.config(task_cases.front(), base_of(kind));
    for (const std::string& key : keys_in_use(config, "schedule")) {
      CAPTURE(key);
      CHECK(std::ranges::count(rows, "schedule." + key, &KeyRow::key) > 0);
    }
  }
}

}  // namespace
}  // namespace tapestry
