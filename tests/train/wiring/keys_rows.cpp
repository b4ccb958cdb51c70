#include "tests/train/wiring/keys_rows.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <sstream>

#include "tests/support/contains.h"
#include "tests/train/wiring/train_replay.h"
#include "train/config/config.h"
#include "train/tasks/data_source.h"

namespace tapestry::test {
namespace {

std::string rows_in_split(const Finished& run, const std::string& split) {
  std::istringstream lines(run.metrics);
  std::string rows;
  for (std::string line; std::getline(lines, line);) {
    if (contains(line, "," + split + ",")) rows += line + "\n";
  }
  return rows;
}

/// Whether the parameters at all steps that both runs have a checkpoint of are the same.
bool same_weights(const Finished& a, const Finished& b) {
  std::size_t common = 0;
  bool same = true;
  for (const auto& [step, checkpoint] : a.checkpoints) {
    if (!b.checkpoints.contains(step)) continue;
    ++common;
    for (const auto& [path, array] : checkpoint) {
      if (!path.starts_with("parameters/")) continue;
      same = same && b.checkpoints.at(step).at(path) == array;
    }
  }
  CHECK_MESSAGE(common > 0, "no step has a checkpoint in both runs");
  return same;
}

std::vector<std::uint64_t> files_of(const Finished& run) {
  std::vector<std::uint64_t> steps;
  for (const auto& [step, checkpoint] : run.checkpoints) steps.push_back(step);
  return steps;
}

bool same(const Finished& a, const Finished& b, Seen what) {
  switch (what) {
    case Seen::weights:
      return same_weights(a, b);
    case Seen::training:
      return rows_in_split(a, "train") == rows_in_split(b, "train");
    case Seen::validation:
      return rows_in_split(a, "validation") == rows_in_split(b, "validation");
    case Seen::files:
      break;
  }
  return files_of(a) == files_of(b);
}

/// The checkpoint has the config of the run and the defaults of what belongs to the process.
void check_stored_config(const Finished& run, Config config) {
  const Config stored =
      parse_config(run.checkpoints.rbegin()->second.get_text("config"), "checkpoint");
  if (config.schedule.kind == ScheduleKind::cosine && config.schedule.decay_steps == 0) {
    config.schedule.decay_steps = config.train.steps;
  }
  for (const ConfigDifference& difference : compare_configs(stored, config)) {
    CAPTURE(difference.key);
    CHECK(process_settings.contains(difference.key));
  }
  for (const ConfigDifference& difference : compare_configs(stored, Config())) {
    CAPTURE(difference.key);
    CHECK_FALSE(process_settings.contains(difference.key));
  }
}

Finished trained(How how, const TaskWorkplace& work, const TaskCase& task,
                 const std::vector<std::string>& overrides) {
  return how == How::program ? train(work, task, overrides) : train_here(work, task, overrides);
}

}  // namespace

const Finished& Baselines::of(How how, const TaskCase& task,
                              const std::vector<std::string>& overrides) {
  const std::tuple place(how, task.name(), overrides);
  const auto found = runs_.find(place);
  if (found != runs_.end()) return found->second;
  const Finished& run = runs_.emplace(place, trained(how, work_, task, overrides)).first->second;
  const Config config = work_.config(task, overrides);
  check_as_replayed(run, config, replay(config, load_corpus(config.data)));
  return run;
}

void check_row(How how, const TaskWorkplace& work, const TaskCase& task, const KeyRow& row,
               Baselines& baselines) {
  CAPTURE(task.name());
  CAPTURE(row.key);
  CAPTURE(row.value);
  std::vector<std::string> overrides = row.before;
  overrides.push_back(row.key + "=" + row.value);
  const Finished& without = baselines.of(how, task, row.before);
  const Finished with = trained(how, work, task, overrides);
  const Config config = work.config(task, overrides);
  const Replay expected = replay(config, load_corpus(config.data));
  check_as_replayed(with, config, expected);
  REQUIRE_FALSE(with.checkpoints.empty());
  check_stored_config(with, config);
  for (const Seen what : {weights, training, validation, files}) {
    CAPTURE(static_cast<int>(what));
    if (row.changes.contains(what)) CHECK_FALSE(same(with, without, what));
    if (row.keeps.contains(what)) CHECK(same(with, without, what));
  }
  if (row.says.empty() || how == How::trainer) return;
  CHECK_MESSAGE(contains(with.outcome.out, row.says), with.outcome.out);
  CHECK_FALSE(contains(without.outcome.out, row.says));
}

}  // namespace tapestry::test
