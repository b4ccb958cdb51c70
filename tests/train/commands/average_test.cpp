// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <string>

#include <vector>

#include "tests/train/program.h"
#include "train/checkpoint/checkpoint_file.h"

/// Tests `tapestry average`, train.average_last and train.keep_best.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;

const std::string train_average =
    "train tiny.yaml train.save_every=2 train.average_last=4 train.validate_every=3 ";

struct AverageWorkplace : test::TinyWorkplace {
  ArrayStore weights(const std::string& file) const {
    ArrayStore parameters;
    for (const auto& [path, array] : read_checkpoint(*this / file)) {
      if (path.starts_with("parameters/")) parameters.put(path, array);
    }
    return parameters;
  }
  /// Averages the checkpoints of these steps of runs/tiny with `tapestry average`.
  ArrayStore average(const std::vector<std::uint64_t>& steps) const {
    std::filesystem::remove(*this / "mean.h5");
    std::string command = "average mean.h5";
    for (const std::uint64_t step : steps) command += " " + checkpoint(step);
    CHECK(contains(out(command), fmt::format("average of {} checkpoints", steps.size())));
    return weights("mean.h5");
  }
};

TEST_CASE("average writes a checkpoint that evaluate and initialize_from accept") {
  const AverageWorkplace work;
  REQUIRE(work.run("train tiny.yaml train.save_every=1").code == 0);
  test::check_rows(
      work,
      {{"average mean.h5 runs/tiny", 2, {"--last N", "--best N"}},
       {"average mean.h5 a.h5 --last 1", 2, {"run directory"}},
       {"average mean.h5 a.h5", 4, {"a.h5"}},
       {"average mean.h5 runs/tiny runs/tiny", 2, {"runs/tiny is a folder", "--last N"}},
       {"average mean.h5 runs/tiny --last 1 --best 1", 2, {"excludes"}},
       {"average mean.h5 runs/tiny --best 1000", 4, {"expected 1000"}},
       {"average mean.h5 runs/tiny --last 2", 0, {"average of 2 checkpoints: mean.h5\n"}},
       {"average mean.h5 runs/tiny --last 1", 2, {"mean.h5 exists, expected the name of a new"}},
       {"evaluate mean.h5", 0, {"held-out pairs: loss"}},
       {"inspect mean.h5", 0, {"average of the checkpoints of steps"}},
       {"train tiny.yaml train.run_dir=next train.steps=1 train.initialize_from=mean.h5", 0, {}}});
}

TEST_CASE("a run ends by averaging its last checkpoints and validating the average") {
  const AverageWorkplace work;
  const std::string trained = work.out(train_average + "train.keep_last=2");
  const ArrayStore average = read_checkpoint(work / "runs/tiny/average.h5");
  const std::string loss =
      fmt::format("loss {:.4f}", average.get_scalar<double>("train/best_loss"));
  CHECK(contains(trained, "\naverage of the checkpoints of steps 6, 8, 10, 12: " + loss));
  CHECK(contains(work.out("evaluate runs/tiny/average.h5"), loss));
  CHECK(work.average({6, 8, 10, 12}) == work.weights("runs/tiny/average.h5"));
  std::filesystem::remove(work / "mean.h5");
  work.out("average mean.h5 runs/tiny --last 4");
  CHECK(work.weights("mean.h5") == work.weights("runs/tiny/average.h5"));
  CHECK(work.run("average more.h5 runs/tiny --last 5").code == 4);

  // Commands use the average only if it is better than the best checkpoint.
  const std::string best = work.out("inspect runs/tiny");
  for (const bool is_better : {false, true}) {
    CAPTURE(is_better);
    ArrayStore rated;
    for (const auto& [path, array] : average) {
      if (path != "train/best_loss") rated.put(path, array);
    }
    rated.put_scalar("train/best_loss", is_better ? 1e-3 : 1e3);
    write_checkpoint(work / "runs/tiny/average.h5", rated);
    const Outcome shown = work.run("evaluate runs/tiny");
    CHECK(shown.out.starts_with("runs/tiny/average.h5") == is_better);
    const std::string used = is_better ? "runs/tiny/average.h5" : best.substr(0, best.find(':'));
    const auto scores = [](const std::string& text) { return text.substr(text.find('\n')); };
    CHECK(scores(shown.out) == scores(work.run("evaluate " + used).out));
  }
}

TEST_CASE(
    "a finished run without validation uses its own average, but not the average of another run") {
  const AverageWorkplace work;
  const std::string trained = work.out(train_average + "data.validation_size=0");
  CHECK(contains(trained, "\naverage of the checkpoints of steps 6, 8, 10, 12\n"));
  const auto choice = [&] { return work.run("translate runs/tiny", "a\n").choice; };
  CHECK(contains(choice(), "runs/tiny/average.h5"));
  const std::string own = work.read("runs/tiny/average.h5");
  work.out(train_average + "data.validation_size=0 train.seed=2 train.run_dir=other");
  work.write("runs/tiny/average.h5", work.read("other/average.h5"));
  CHECK(choice().empty());
  work.write("runs/tiny/average.h5", own);
  REQUIRE(work.run("train --resume runs/tiny train.steps=14 --until 13").code == 0);
  CHECK(choice().empty());
}

TEST_CASE("a run that was stopped and resumed has the same average as an uninterrupted run") {
  const AverageWorkplace work;
  REQUIRE(work.run(train_average).code == 0);
  REQUIRE(work.run(train_average + "train.run_dir=parts --until 7").code == 0);
  CHECK_FALSE(work.has("parts/average.h5"));
  REQUIRE(work.run("train --resume parts").code == 0);
  const std::string expected = work.read("runs/tiny/average.h5");
  CHECK(work.read("parts/average.h5") == expected);

  // The average is computed again only if it is missing or damaged. It is not used once the run has
  // continued.
  std::filesystem::remove(work / "parts/average.h5");
  CHECK(contains(work.run("train --resume parts").out, "\naverage of the checkpoints"));
  CHECK(work.read("parts/average.h5") == expected);
  CHECK(contains(work.run("train --resume parts").out, "parts is finished: 12 of 12"));
  work.write("parts/average.h5", expected.substr(0, expected.size() / 2));
  CHECK(contains(work.run("evaluate parts").err, "another checkpoint of the run is used"));
  REQUIRE(work.run("train --resume parts").code == 0);
  CHECK(work.read("parts/average.h5") == expected);
  REQUIRE(work.run("train --resume parts train.steps=14 --until 13").code == 0);
  CHECK(work.read("parts/average.h5") == expected);
  CHECK_FALSE(contains(work.run("evaluate parts").out, "average.h5"));
  CHECK(contains(work.run("train --resume parts").out, "steps 8, 10, 12, 14: "));
}

TEST_CASE("a finished run is averaged again if it is resumed with a changed train.average_last") {
  const AverageWorkplace work;
  REQUIRE(work.run(train_average).code == 0);
  const auto resume = [&](const std::string& last) {
    return work.run("train --resume runs/tiny train.average_last=" + last).out;
  };
  CHECK(contains(resume("2"), "\naverage of the checkpoints of steps 10, 12: loss "));
  CHECK(work.weights("runs/tiny/average.h5") == work.average({10, 12}));
  const std::string again = resume("2");
  CHECK(contains(again, "runs/tiny is finished: 12 of 12 steps"));
  CHECK_FALSE(contains(again, "average"));
  const std::string more = resume("5");
  test::check_words(more, {"left out of the average: the checkpoints of steps 4, which are not in",
                           "steps 6, 8, 10, 12: loss "});
  CHECK(contains(resume("5"), "is finished"));

  // If train.best_metric changes, the average keeps the metric of its checkpoints.
  REQUIRE(work.run("train --resume runs/tiny train.average_last=3 "
                   "train.best_metric=token_accuracy --allow-change train.best_metric")
              .code == 0);
  const ArrayStore average = read_checkpoint(work / "runs/tiny/average.h5");
  const std::string config = average.get_text("config");
  CHECK(contains(config, "average_last: 3"));
  CHECK_FALSE(contains(config, "best_metric: token_accuracy"));
  CHECK(average.get_scalar<double>("train/best_loss") > 1);  // a loss
  CHECK(contains(resume("0"), "commands may use runs/tiny/average.h5 until it is deleted"));
  CHECK(work.has("runs/tiny/average.h5"));
}

TEST_CASE("an average that cannot be written, or lacks checkpoints, causes a warning") {
  const AverageWorkplace work;
  REQUIRE(work.run(train_average + "--until 9").code == 0);
  work.write(work.checkpoint(8), "damaged");
  std::filesystem::remove(work / work.checkpoint(6));
  test::check_words(work.out("train --resume runs/tiny"),
                    {"\nwarning: left out of the average: ", "of steps 10, 12: "});
  std::filesystem::remove(work / "runs/tiny/average.h5");
  std::filesystem::create_directories(work / "runs/tiny/average.h5/in_the_way");
  test::check_words(work.out("train --resume runs/tiny train.average_last=1"),
                    {"\nwarning: the last checkpoints were not averaged: runs/tiny/average.h5: ",
                     ", then resume the run to average them\n"});
}

TEST_CASE("a run with fewer checkpoints than train.average_last averages all of them") {
  const AverageWorkplace work;
  CHECK(contains(work.out("train tiny.yaml train.average_last=50"), "of steps 5, 10, 12: loss "));
  check_rejected(work, "average mean.h5 runs/tiny --last 50", 4,
                 {"expected 50 or more", "train.average_last=50"});
}

TEST_CASE("the best checkpoints that train.keep_best keeps can be averaged") {
  const AverageWorkplace work;
  const std::string train =
      "train tiny.yaml train.validate_every=1 train.save_every=100 train.keep_last=2 ";
  work.out(train);
  check_rejected(work, "average mean.h5 runs/tiny --best 6", 4,
                 {"found 2 checkpoints with a validation loss, expected 6", "train.keep_best=6"});
  work.out(train + "train.keep_best=6 train.run_dir=best");
  CHECK(contains(work.out("average mean.h5 best --best 6"), "average of 6 checkpoints"));
}

}  // namespace
}  // namespace tapestry
