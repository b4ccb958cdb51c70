#include "data/metrics/significance.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/metrics/bleu.h"
#include "data/metrics/ter.h"
#include "data/random.h"

namespace tapestry {
namespace {

/// TER statistics of sentences of one word, of which each is wrong with a probability.
SegmentStatistics words(std::size_t sentences, std::uint64_t wrong_of_100, std::uint64_t stream) {
  SegmentStatistics all(sentences, 2);
  RandomDraws random(5, DrawPurpose::training_example, stream);
  for (std::size_t i = 0; i < sentences; ++i) {
    all[i][0] = random.below(100) < wrong_of_100 ? 1.0 : 0.0;
    all[i][1] = 1.0;
  }
  return all;
}

TEST_CASE("a system compared with itself has a p-value of 1 by randomization") {
  const Ter ter;
  const auto system = words(50, 30, 1);
  // No difference of exchanged outputs is larger than 0: only the +1 of the formula counts.
  CHECK(approximate_randomization(ter, system, system, 99) == doctest::Approx(0.01));
  // All differences are 0, which is not larger than their mean by more than 0.
  CHECK(paired_bootstrap(ter, system, system, 99).p_value == doctest::Approx(0.01));
}

TEST_CASE("p-values of a one-word corpus are those of the sign test") {
  // Of 10 sentences, only the second system is right in 6 and only the first in 1. Exchanging
  // outputs gives 7 signs; |sum| > 5 only if all 7 are equal: p = 2 / 128.
  const Ter ter;
  SegmentStatistics first(10, 2), second(10, 2);
  for (std::size_t i = 0; i < 10; ++i) {
    first[i][0] = i < 6 ? 1.0 : 0.0;
    second[i][0] = i == 6 ? 1.0 : 0.0;
    first[i][1] = second[i][1] = 1.0;
  }
  const std::size_t trials = 200'000;
  const double p = approximate_randomization(ter, first, second, trials);
  const double expected = 2.0 / 128.0;
  CHECK(std::abs(p - expected) < 5.0 * std::sqrt(expected / static_cast<double>(trials)));
}

TEST_CASE("clear differences are significant and small ones are not") {
  const Ter ter;
  const auto baseline = words(300, 50, 1), similar = words(300, 50, 2), better = words(300, 30, 3);
  CHECK(approximate_randomization(ter, baseline, better, 2000) < 0.01);
  CHECK(paired_bootstrap(ter, baseline, better, 2000).p_value < 0.01);
  CHECK(approximate_randomization(ter, baseline, similar, 2000) > 0.05);
  CHECK(paired_bootstrap(ter, baseline, similar, 2000).p_value > 0.05);
}

TEST_CASE("the bootstrap interval is that of a mean of independent sentences") {
  const Ter ter;
  const auto system = words(400, 50, 1);
  const double score = ter.score(system.sum()) / 100.0;
  const ConfidenceInterval found = bootstrap_confidence(ter, system, 20'000);
  const double deviation = 100.0 * std::sqrt(score * (1.0 - score) / 400.0);
  CHECK(found.mean == doctest::Approx(100.0 * score).epsilon(0.002));
  CHECK(found.half_width == doctest::Approx(1.96 * deviation).epsilon(0.06));
}

TEST_CASE("p-values are the same for the same seed and differ for another") {
  const Ter ter;
  const auto a = words(100, 50, 1), b = words(100, 40, 2);
  const auto bootstrap = [&](std::uint64_t seed) { return paired_bootstrap(ter, a, b, 500, seed); };
  CHECK(bootstrap(3).p_value == bootstrap(3).p_value);
  CHECK(bootstrap(3).system.mean == bootstrap_confidence(ter, b, 500, 3).mean);
  CHECK(bootstrap(3).baseline.half_width == bootstrap_confidence(ter, a, 500, 3).half_width);
  CHECK(bootstrap(3).system.mean != bootstrap(4).system.mean);
  CHECK(approximate_randomization(ter, a, b, 5000, 3) ==
        approximate_randomization(ter, a, b, 5000, 3));
  CHECK(approximate_randomization(ter, a, b, 5000, 3) !=
        approximate_randomization(ter, a, b, 5000, 4));
}

TEST_CASE("systems of different sentences, or of none, are refused") {
  const Ter ter;
  const auto ten = words(10, 50, 1), nine = words(9, 50, 1), none = SegmentStatistics(0, 2);
  CHECK_THROWS_AS((void)paired_bootstrap(ter, ten, nine), std::invalid_argument);
  CHECK_THROWS_AS((void)approximate_randomization(ter, ten, nine), std::invalid_argument);
  CHECK_THROWS_AS((void)bootstrap_confidence(ter, none), std::invalid_argument);
  CHECK_THROWS_AS((void)bootstrap_confidence(ter, ten, 0), std::invalid_argument);
  CHECK_THROWS_AS((void)approximate_randomization(ter, ten, ten, 0), std::invalid_argument);
}

}  // namespace
}  // namespace tapestry
