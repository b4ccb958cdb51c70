#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "data/text/codec.h"
#include "tests/support/contains.h"
#include "tests/train/wiring/keys_tasks.h"
#include "tests/train/wiring/train_finished.h"
#include "tests/train/wiring/train_replay.h"
#include "train/tasks/data_source.h"

/// What the program logs, prints and saves, recomputed from the data and the weights.
namespace tapestry {
namespace {

using namespace test;

TEST_CASE("a run of every task logs, prints and saves the results of its replay") {
  const TaskWorkplace work;
  for (const TaskCase& task : task_cases) {
    CAPTURE(task.name());
    const Config config = work.config(task);
    const Corpus corpus = load_corpus(config.data);
    const Replay expected = replay(config, corpus);
    // A log line sums up two epochs, and one step takes its batches from both.
    REQUIRE(expected.rows.front().split == "train");
    REQUIRE(expected.rows.at(2).epoch > 1);
    const Finished run = train(work, task, {});
    check_as_replayed(run, config, expected);
    check_evaluation(work, "runs/" + task.name(), config, corpus, expected);

    const ArrayStore& last = run.checkpoints.rbegin()->second;
    CHECK(last.get_scalar<std::uint64_t>("data/fingerprint") == corpus.fingerprint);
    CHECK(last.get_text("data/source_vocabulary") == corpus.source_vocabulary.to_text());
    CHECK(last.get_text("data/target_vocabulary") == corpus.target_vocabulary.to_text());
    CHECK(run.outcome.out.find(fmt::format(", {} validation, {} test; ", corpus.validation.size(),
                                           corpus.test.size())) < run.outcome.out.find('\n'));
    CHECK(contains(run.outcome.out, fmt::format("data: {} training ", corpus.train.size())));
  }
}

TEST_CASE("a run of every kind resumed between two log lines logs the results of its replay") {
  const TaskWorkplace work;
  for (const TaskCase& task : one_case_of_each_kind) {
    CAPTURE(task.name());
    const Config config = work.config(task);
    const Replay expected = replay(config, load_corpus(config.data));
    const std::string run_dir = "runs/" + task.name();
    // The line of step 6 sums up steps 4 to 6, of which two come after the resume.
    REQUIRE(train(work, task, {"train.steps=4"}).outcome.code == 0);
    const Finished run =
        finished(work, run_dir,
                 work.run({"train", "--resume", run_dir, "train.steps=7", "train.threads=1"}));
    CHECK(run.outcome.code == 0);
    check_metrics(run.metrics, expected.rows);
    REQUIRE(run.checkpoints.contains(7));
    CHECK(distance(weights_in(run.checkpoints.at(7)), expected.weights.at(7)) < 1e-9);
    CHECK(run.checkpoints.at(7).get_scalar<std::uint64_t>("train/best_step") ==
          expected.best_step.value());
  }
}

}  // namespace
}  // namespace tapestry
