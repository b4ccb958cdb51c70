#include "train/report/report_time.h"

#include <doctest/doctest.h>

namespace tapestry {
namespace {

std::uint64_t reports(std::size_t steps, std::size_t validate_every, std::size_t report_every) {
  TrainOptions options;
  options.steps = steps;
  options.validate_every = validate_every;
  options.report_every = report_every;
  return count_reports(options);
}

TEST_CASE("reports are counted by train.report_every, with one at the last step") {
  CHECK(reports(12, 4, 0) == 0);
  CHECK(reports(12, 4, 1) == 3);  // 4 8 12
  CHECK(reports(13, 4, 1) == 4);  // 4 8 12 13
  CHECK(reports(12, 4, 2) == 2);  // 8 12
  CHECK(reports(16, 4, 2) == 2);  // 8 16
  CHECK(reports(12, 100, 1) == 1);
  CHECK(reports(1, 1, 1) == 1);
}

}  // namespace
}  // namespace tapestry
