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

TEST_CASE("check prints a line for each property of a config and how many hold") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome done = work.run({"check", "tiny.yaml", "model.norm=post"});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(done.out.starts_with("tiny.yaml, initial values\nok      causality    d(logits at t)/"));
  CHECK(done.out.ends_with("\n10 of 10 properties hold\n"));
  CHECK(std::ranges::count(done.out, '\n') == 12);
}

TEST_CASE("check --help says what each property means") {
  const Outcome help = Workplace().run({"check", "--help"});
  CHECK(help.code == 0);
  CHECK(contains(help.out, "\n  threads      any number of threads gives the same bits\n"));
}

TEST_CASE("check takes a trained run, which has no first loss") {
  const TrainedWorkplace work;
  const Outcome done = work.run({"check", "runs/tiny"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, "\n-       first loss   loss "));
  CHECK(done.out.ends_with("\n9 of 9 properties hold\n"));
}

TEST_CASE("a property that does not hold is a line of its own and exit code 1") {
  const Workplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  const Outcome failed = work.run({"check", "tiny.yaml", "model.layer_norm_epsilon=1e30"});
  CHECK(failed.code == 1);
  CHECK(failed.err.empty());
  CHECK(contains(failed.out, "\nFAILED  by heart     loss of 6 sentences from "));
  CHECK_FALSE(failed.out.ends_with("\n10 of 10 properties hold\n"));
}

}  // namespace
}  // namespace tapestry
