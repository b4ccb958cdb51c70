#include "train/plan/setting_trials.h"

#include <doctest/doctest.h>

#include <vector>

namespace tapestry {
namespace {

TEST_CASE(
    "numbers of threads are all up to 8 cores, powers of two beyond, and that of the config") {
  using Counts = std::vector<std::size_t>;
  CHECK(thread_counts(1, 1) == Counts{1});
  CHECK(thread_counts(2, 2) == Counts{1, 2});
  CHECK(thread_counts(4, 2) == Counts{1, 2, 3, 4});
  CHECK(thread_counts(2, 6) == Counts{1, 2, 6});
  CHECK(thread_counts(24, 24) == Counts{1, 2, 4, 8, 16, 24});
  CHECK(thread_counts(0, 1) == Counts{1});
}

}  // namespace
}  // namespace tapestry
