#include "train/report/attention_text.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "tests/support/contains.h"

namespace tapestry {
namespace {

TEST_CASE("weights are restored from text up to rounding, and 0 exactly") {
  std::vector<double> weights;
  for (int i = 0; i <= 1000; ++i) weights.push_back(i / 1000.0);
  for (int i = 0; i < 500; ++i) weights.push_back(0.0);
  for (int i = 0; i < 3; ++i) weights.push_back(0.25);
  weights.push_back(1e-9);
  weights.push_back(1.0);
  const std::vector<double> read = weights_from_text(weights_to_text(weights));
  REQUIRE(read.size() == weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    CHECK(std::abs(read[i] - weights[i]) <= 0.012);
    CHECK((read[i] == 0.0) == (weights[i] == 0.0));
  }
}

TEST_CASE("equal weights are stored once") {
  CHECK(weights_to_text(std::vector<double>(3, 0.0)) == "!!!");
  CHECK(weights_to_text(std::vector<double>(4, 0.0)) == "!~$");
  CHECK(weights_to_text(std::vector<double>(1600, 0.0)).size() < 50);
  CHECK(weights_to_text({}).empty());
  CHECK(weights_from_text("").empty());
}

TEST_CASE("weights out of range become the nearest level") {
  const std::vector<double> weights{-1.0, 2.0, std::numeric_limits<double>::quiet_NaN()};
  CHECK(weights_from_text(weights_to_text(weights)) == std::vector<double>{0.0, 1.0, 0.0});
}

TEST_CASE("the text needs no escapes in JSON and HTML") {
  for (const char c : std::string("\"\\<>&'~")) {
    CHECK(level_characters().find(c) == std::string_view::npos);
  }
  CHECK(std::ranges::all_of(level_characters(), [](char c) { return c > ' ' && c < 127; }));
}

}  // namespace
}  // namespace tapestry
