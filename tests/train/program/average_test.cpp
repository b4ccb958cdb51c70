#include <doctest/doctest.h>

#include <string>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"

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

}  // namespace
}  // namespace tapestry
