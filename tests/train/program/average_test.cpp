#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/checkpoint/metrics.h"

/// `tapestry average`.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;

/// A folder with a config.
struct AverageWorkplace : test::KindWorkplace {
  AverageWorkplace() { write("tiny.yaml", test::tiny_yaml); }
};

TEST_CASE("average writes a checkpoint that evaluate and initialize_from accept") {
  const AverageWorkplace work;
  REQUIRE(work.run({"train", "tiny.yaml", "train.save_every=1"}).code == 0);
  const Outcome averaged = work.run({"average", "mean.h5", "runs/tiny", "--last", "2"});
  CHECK(averaged.code == 0);
  CHECK(contains(averaged.out, "average of 2 checkpoints: mean.h5\n"));
  const Outcome scores = work.run({"evaluate", "mean.h5"});
  CHECK(scores.code == 0);
  CHECK(contains(scores.out, "held-out pairs: loss"));
  CHECK(contains(work.run({"inspect", "mean.h5"}).out, "average of the checkpoints of steps"));
  const Outcome started = work.run({"train", "tiny.yaml", "train.run_dir=next", "train.steps=1",
                                    "train.initialize_from=mean.h5"});
  CHECK(started.code == 0);
}

TEST_CASE("average explains what is missing and overwrites nothing") {
  const AverageWorkplace work;
  REQUIRE(work.run({"train", "tiny.yaml"}).code == 0);
  const Outcome without = work.run({"average", "mean.h5", "runs/tiny"});
  CHECK(without.code == 2);
  CHECK(contains(without.err, "expected --last N or --best N"));
  CHECK(work.run({"average", "mean.h5", "a.h5", "--last", "1"}).code == 2);
  CHECK(work.run({"average", "mean.h5", "a.h5"}).code == 4);
  CHECK(work.run({"average", "mean.h5", "runs/tiny", "--last", "1", "--best", "1"}).code == 2);
  CHECK(work.run({"average", "mean.h5", "runs/tiny", "--best", "1000"}).code == 4);
  REQUIRE(work.run({"average", "mean.h5", "runs/tiny", "--last", "1"}).code == 0);
  const Outcome again = work.run({"average", "mean.h5", "runs/tiny", "--last", "1"});
  CHECK(again.code == 2);
  CHECK(contains(again.err, "mean.h5 exists, expected the name of a new file"));
}

// ---- train.average_last and train.keep_best

const test::Arguments train_average = {"train", "tiny.yaml", "train.save_every=2",
                                       "train.average_last=4", "train.validate_every=3"};

test::Arguments with(test::Arguments arguments, const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

TEST_CASE("a run ends with the average of its last checkpoints and its validation") {
  const AverageWorkplace work;
  const Outcome trained = work.run(train_average);
  CHECK(trained.code == 0);
  CHECK(contains(trained.out, "\naverage of the checkpoints of steps 6, 8, 10, 12: loss "));
  REQUIRE(
      work.run({"average", "mean.h5", "runs/tiny/checkpoints/step-00000006.h5",
                "runs/tiny/checkpoints/step-00000008.h5", "runs/tiny/checkpoints/step-00000010.h5",
                "runs/tiny/checkpoints/step-00000012.h5"})
          .code == 0);
  const ArrayStore average = read_checkpoint(work / "runs/tiny/average.h5");
  const ArrayStore expected = read_checkpoint(work / "mean.h5");
  for (const auto& entry : expected) {
    CAPTURE(entry.first);
    if (entry.first != "train/best_loss") CHECK(average.at(entry.first) == entry.second);
  }
  // The validation is that of `evaluate`.
  const std::string scores = work.run({"evaluate", "runs/tiny/average.h5"}).out;
  const std::string loss =
      fmt::format("loss {:.4f}", average.get_scalar<double>("train/best_loss"));
  CHECK(contains(trained.out, "steps 6, 8, 10, 12: " + loss));
  CHECK(contains(scores, loss));
}

TEST_CASE("commands use the average only if it is better than the best checkpoint") {
  const AverageWorkplace work;
  REQUIRE(work.run(train_average).code == 0);
  const ArrayStore average = read_checkpoint(work / "runs/tiny/average.h5");
  for (const bool is_better : {false, true}) {
    CAPTURE(is_better);
    ArrayStore rated;
    for (const auto& [path, array] : average) {
      if (path != "train/best_loss") rated.put(path, array);
    }
    rated.put_scalar("train/best_loss", is_better ? 1e-3 : 1e3);
    write_checkpoint(work / "runs/tiny/average.h5", rated);
    const Outcome shown = work.run({"evaluate", "runs/tiny"});
    CHECK(shown.code == 0);
    CHECK(contains(shown.choice,
                   "runs/tiny/average.h5, the average of the last checkpoints of the run\n") ==
          is_better);
    const std::string used =
        is_better ? "runs/tiny/average.h5" : work.run({"inspect", "runs/tiny"}).out;
    const auto scores = [](const std::string& text) { return text.substr(text.find('\n')); };
    CHECK(scores(shown.out) == scores(work.run({"evaluate", used.substr(0, used.find(':'))}).out));
  }
}

TEST_CASE("the average of another run is not used") {
  const AverageWorkplace work;
  REQUIRE(work.run(with(train_average, {"data.validation_size=0"})).code == 0);
  REQUIRE(work.run(with(train_average,
                        {"data.validation_size=0", "train.seed=2", "train.run_dir=other"}))
              .code == 0);
  std::filesystem::copy_file(work / "other/average.h5", work / "runs/tiny/average.h5",
                             std::filesystem::copy_options::overwrite_existing);
  CHECK(work.run({"translate", "runs/tiny"}, "a\n").choice.empty());
}

TEST_CASE("a run without validation uses the average") {
  const AverageWorkplace work;
  const Outcome trained = work.run(with(train_average, {"data.validation_size=0"}));
  CHECK(trained.code == 0);
  CHECK(contains(trained.out, "\naverage of the checkpoints of steps 6, 8, 10, 12\n"));
  CHECK(contains(work.run({"translate", "runs/tiny"}, "a\n").choice, "runs/tiny/average.h5"));
  REQUIRE(work.run({"train", "--resume", "runs/tiny", "train.steps=14", "--until", "13"}).code ==
          0);
  CHECK(work.run({"translate", "runs/tiny"}, "a\n").choice.empty());
}

TEST_CASE("the average of a run that was stopped and resumed is that of an uninterrupted run") {
  const AverageWorkplace work;
  REQUIRE(work.run(train_average).code == 0);
  REQUIRE(work.run(with(train_average, {"train.run_dir=parts", "--until", "7"})).code == 0);
  CHECK_FALSE(std::filesystem::exists(work / "parts/average.h5"));
  REQUIRE(work.run({"train", "--resume", "parts"}).code == 0);
  const std::string expected = test::read_text(work / "runs/tiny/average.h5");
  CHECK(test::read_text(work / "parts/average.h5") == expected);

  SUBCASE("the average is made again only if it is missing or damaged") {
    std::filesystem::remove(work / "parts/average.h5");
    CHECK(contains(work.run({"train", "--resume", "parts"}).out, "\naverage of the checkpoints"));
    CHECK(test::read_text(work / "parts/average.h5") == expected);
    CHECK(contains(work.run({"train", "--resume", "parts"}).out, "parts is finished: 12 of 12"));
    work.write("parts/average.h5", expected.substr(0, expected.size() / 2));
    CHECK(contains(work.run({"evaluate", "parts"}).err, "another checkpoint of the run is used"));
    REQUIRE(work.run({"train", "--resume", "parts"}).code == 0);
    CHECK(test::read_text(work / "parts/average.h5") == expected);
  }
  SUBCASE("the average is not used when the run is continued") {
    REQUIRE(work.run({"train", "--resume", "parts", "train.steps=14", "--until", "13"}).code == 0);
    CHECK(test::read_text(work / "parts/average.h5") == expected);
    CHECK_FALSE(contains(work.run({"evaluate", "parts"}).choice, "average.h5"));
    const Outcome ended = work.run({"train", "--resume", "parts"});
    CHECK(contains(ended.out, "\naverage of the checkpoints of steps 8, 10, 12, 14: "));
  }
}

TEST_CASE("a run with fewer checkpoints than train.average_last averages all of them") {
  const AverageWorkplace work;
  const Outcome trained = work.run({"train", "tiny.yaml", "train.average_last=50"});
  CHECK(trained.code == 0);
  CHECK(contains(trained.out, "\naverage of the checkpoints of steps 5, 10, 12: loss "));
  const Outcome more = work.run({"average", "mean.h5", "runs/tiny", "--last", "50"});
  CHECK(more.code == 4);
  CHECK(contains(more.err,
                 " checkpoints, expected 50 or more\n"
                 "hint: average fewer, or train with train.average_last=50\n"));
}

TEST_CASE("average refuses checkpoints of models of different widths") {
  const AverageWorkplace work;
  const std::string file = "/checkpoints/step-00000012.h5";
  REQUIRE(work.run({"train", "tiny.yaml"}).code == 0);
  REQUIRE(work.run({"train", "tiny.yaml", "model.d_model=32", "train.run_dir=wide"}).code == 0);
  const Outcome refused = work.run({"average", "mean.h5", "runs/tiny" + file, "wide" + file});
  CHECK(refused.code == 4);
  CHECK(refused.err == "tapestry: error: wide" + file +
                           ": model.d_model is 32, expected 16 as in runs/tiny" + file +
                           "\nhint: average checkpoints of one run, or of runs of one config\n");
  CHECK_FALSE(std::filesystem::exists(work / "mean.h5"));
}

TEST_CASE("a finished run is averaged again when it is resumed with another train.average_last") {
  const AverageWorkplace work;
  REQUIRE(work.run(train_average).code == 0);
  const auto resume = [&](const std::string& last) {
    return work.run({"train", "--resume", "runs/tiny", "train.average_last=" + last}).out;
  };
  CHECK(contains(resume("2"), "\naverage of the checkpoints of steps 10, 12: loss "));
  REQUIRE(work.run({"average", "two.h5", "runs/tiny/checkpoints/step-00000010.h5",
                    "runs/tiny/checkpoints/step-00000012.h5"})
              .code == 0);
  const auto weights = [&](const char* file) {
    const ArrayStore snapshot = read_checkpoint(work / file);
    return snapshot.at("parameters/output.weight");
  };
  CHECK(weights("runs/tiny/average.h5") == weights("two.h5"));
  const std::string again = resume("2");
  CHECK(contains(again, "runs/tiny is finished: 12 of 12 steps"));
  CHECK_FALSE(contains(again, "average"));

  SUBCASE("steps without a checkpoint are reported") {
    const std::string more = resume("5");
    CHECK(contains(more,
                   "\nwarning: left out of the average: the checkpoints of steps 4, which are "
                   "not in the run directory\n"));
    CHECK(contains(more, "\naverage of the checkpoints of steps 6, 8, 10, 12: loss "));
    CHECK(contains(resume("5"), "is finished"));
  }
  SUBCASE("with another best_metric, its value is still one that checkpoints have") {
    REQUIRE(work.run({"train", "--resume", "runs/tiny", "train.average_last=3",
                      "train.best_metric=token_accuracy", "--allow-change", "train.best_metric"})
                .code == 0);
    const ArrayStore average = read_checkpoint(work / "runs/tiny/average.h5");
    const std::string config = average.get_text("config");
    CHECK(contains(config, "average_last: 3"));
    CHECK_FALSE(contains(config, "best_metric: token_accuracy"));
    CHECK(average.get_scalar<double>("train/best_loss") > 1);  // a loss
  }
  SUBCASE("train.average_last 0 keeps the average, and says so") {
    CHECK(contains(resume("0"),
                   "; train.average_last is 0, but commands may use "
                   "runs/tiny/average.h5 until it is deleted\n"));
    CHECK(std::filesystem::exists(work / "runs/tiny/average.h5"));
  }
}

TEST_CASE("an average that cannot be written is a warning, since the run is complete") {
  const AverageWorkplace work;
  REQUIRE(work.run({"train", "tiny.yaml"}).code == 0);
  std::filesystem::create_directories(work / "runs/tiny/average.h5/in_the_way");
  const Outcome resumed = work.run({"train", "--resume", "runs/tiny", "train.average_last=1"});
  CHECK(resumed.code == 0);
  CHECK(contains(resumed.out,
                 "\nwarning: the last checkpoints were not averaged: runs/tiny/average.h5: could "
                 "not "));
  CHECK(contains(resumed.out, ", then resume the run to do it\n"));
}

TEST_CASE("the checkpoints that train.average_last keeps can be averaged by the command") {
  const AverageWorkplace work;
  REQUIRE(work.run(with(train_average, {"train.keep_last=2"})).code == 0);
  const Outcome averaged = work.run({"average", "mean.h5", "runs/tiny", "--last", "4"});
  CHECK(averaged.code == 0);
  CHECK(contains(averaged.out, "average of 4 checkpoints: mean.h5\n"));
  CHECK(read_checkpoint(work / "mean.h5").at("parameters/output.weight") ==
        read_checkpoint(work / "runs/tiny/average.h5").at("parameters/output.weight"));
  CHECK(work.run({"average", "more.h5", "runs/tiny", "--last", "5"}).code == 4);
}

TEST_CASE("a damaged checkpoint is left out of the average, with a warning") {
  const AverageWorkplace work;
  REQUIRE(work.run(with(train_average, {"--until", "9"})).code == 0);
  work.write("runs/tiny/checkpoints/step-00000008.h5", "damaged");
  std::filesystem::remove(work / "runs/tiny/checkpoints/step-00000006.h5");
  const Outcome ended = work.run({"train", "--resume", "runs/tiny"});
  CHECK(ended.code == 0);
  CHECK(contains(ended.out, "\nwarning: left out of the average: "));
  CHECK(contains(ended.out, "\naverage of the checkpoints of steps 10, 12: "));
}

TEST_CASE("the best checkpoints that train.keep_best keeps can be averaged") {
  const AverageWorkplace work;
  const test::Arguments train = {"train", "tiny.yaml", "train.validate_every=1",
                                 "train.save_every=100", "train.keep_last=2"};
  REQUIRE(work.run(train).code == 0);
  CHECK(work.run({"average", "mean.h5", "runs/tiny", "--best", "6"}).err ==
        "tapestry: error: runs/tiny: found 2 checkpoints with a validation loss, expected 6 or "
        "more\nhint: average fewer, or train with train.keep_best=6\n");
  REQUIRE(work.run(with(train, {"train.keep_best=6", "train.run_dir=best"})).code == 0);
  const auto values = validation_values(test::read_text(work / "best/metrics.csv"), "loss");
  std::vector<std::pair<double, std::uint64_t>> sorted;
  for (const auto& [step, loss] : values) sorted.emplace_back(loss, step);
  std::ranges::sort(sorted);
  std::set<std::string> expected;
  for (std::size_t i = 0; i < 6; ++i) {
    expected.insert(fmt::format("best/checkpoints/step-{:08}.h5", sorted[i].second));
  }
  const Outcome averaged = work.run({"average", "mean.h5", "best", "--best", "6"});
  CHECK(averaged.code == 0);
  for (const std::string& path : expected) CHECK(contains(averaged.out, path + "\n"));
}

}  // namespace
}  // namespace tapestry
