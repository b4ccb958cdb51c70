#include "autograd/ops/detail/targets.h"

#include <doctest/doctest.h>

using namespace tapestry;

TEST_CASE("targets are -1 where they are ignored, and the others divide the loss") {
  const Targets targets("op", Ids{{4, 0}, {0, 2}}, 5, {.ignored_id = 0, .label_smoothing = 0.25});
  const kernels::CrossEntropyProblem problem = targets.problem();
  REQUIRE(problem.rows == 4);
  CHECK(std::vector<std::int32_t>(problem.targets, problem.targets + 4) ==
        std::vector<std::int32_t>{4, -1, -1, 2});
  CHECK(problem.vocabulary == 5);
  CHECK(problem.label_smoothing == 0.25);
  CHECK(targets.normalizer() == 2.0);
}

TEST_CASE("an id that is ignored need not be in the vocabulary, and a given normalizer is kept") {
  const Targets targets("op", Ids{{99, 99}}, 5, {.ignored_id = 99, .normalizer = 7});
  CHECK(targets.size() == 2);
  CHECK(targets.problem().targets[1] == -1);
  CHECK(targets.normalizer() == 7.0);
}
