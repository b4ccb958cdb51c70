#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/support/contains.h"
#include "tests/train/program.h"

/// What `tapestry check` prints and returns.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;
using test::TrainedWorkplace;
using test::Workplace;

TEST_CASE("check prints a line for each check and how many passed") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome done = work.run({"check", "tiny.yaml", "model.norm=post"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(done.out.starts_with("tiny.yaml, initial values\nok      causality     d(logits at t)/"));
  CHECK(done.out.ends_with("\n10 of 10 checks passed\n"));
  CHECK(std::ranges::count(done.out, '\n') == 12);
}

TEST_CASE("check --help says what each check means") {
  const Outcome help = Workplace().run({"check", "--help"});
  CHECK(help.code == 0);
  CHECK(contains(help.out, "\n  threads       any number of threads gives the same bits\n"));
}

TEST_CASE("check of a trained run skips the initial loss") {
  const TrainedWorkplace work;
  const Outcome done = work.run({"check", "runs/tiny"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\nskipped initial loss  the model is trained; its loss is "));
  CHECK(done.out.ends_with("\n9 of 9 checks passed\n"));
}

TEST_CASE("a check that fails is a line of its own and exit code 1") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome failed = work.run({"check", "tiny.yaml", "model.layer_norm_epsilon=1e30"});
  CHECK(failed.code == 1);
  CHECK(failed.err.empty());
  CHECK(contains(failed.out, "\nFAILED  overfitting   loss of 6 sentences from "));
  CHECK_FALSE(failed.out.ends_with("\n10 of 10 checks passed\n"));
}

}  // namespace
}  // namespace tapestry
