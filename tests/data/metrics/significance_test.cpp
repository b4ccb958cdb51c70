#include "data/metrics/significance.h"

#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <vector>

#include "data/io/random.h"

namespace tapestry {
namespace {

/// The share of wrong words in per cent, from statistics [wrong words, words].
class ErrorRate : public TextMetric {
 public:
  std::string name() const override { return "error rate"; }
  double score(std::span<const double> sums) const override { return 100.0 * sums[0] / sums[1]; }

 private:
  std::size_t width() const override { return 2; }
  void compute(const std::u32string&, const std::vector<std::u32string>&,
               std::span<double>) const override {}
  Settings settings() const override { return {}; }
};

const ErrorRate metric;

/// Statistics of sentences of one word, of which each is wrong with a probability.
SegmentStatistics words(std::size_t sentences, std::uint64_t wrong_of_100, std::uint64_t stream) {
  SegmentStatistics all(sentences, 2);
  RandomDraws random(5, DrawPurpose::training_example, stream);
  for (std::size_t i = 0; i < sentences; ++i) {
    all[i][0] = random.below(100) < wrong_of_100 ? 1.0 : 0.0;
    all[i][1] = 1.0;
  }
  return all;
}

TEST_CASE("a system compared with itself has the least p-value that samples can give") {
  const auto system = words(50, 30, 1);
  // All differences are 0, which is not larger than their mean by more than 0: only the +1 of the
  // formula counts.
  CHECK(paired_bootstrap(metric, system, system, 99).p_value == doctest::Approx(0.01));
}

TEST_CASE("clear differences are significant and small ones are not") {
  const auto baseline = words(300, 50, 1), similar = words(300, 50, 2), better = words(300, 30, 3);
  CHECK(paired_bootstrap(metric, baseline, better, 2000).p_value < 0.01);
  CHECK(paired_bootstrap(metric, baseline, similar, 2000).p_value > 0.05);
}

TEST_CASE("the bootstrap interval is that of a mean of independent sentences") {
  const auto system = words(400, 50, 1);
  const double score = metric.score(system.sum()) / 100.0;
  const ConfidenceInterval found = bootstrap_confidence(metric, system, 20'000);
  const double deviation = 100.0 * std::sqrt(score * (1.0 - score) / 400.0);
  CHECK(found.mean == doctest::Approx(100.0 * score).epsilon(0.002));
  CHECK(found.half_width == doctest::Approx(1.96 * deviation).epsilon(0.06));
}

TEST_CASE("p-values are the same for the same seed and differ for another") {
  const auto a = words(100, 50, 1), b = words(100, 40, 2);
  const auto bootstrap = [&](std::uint64_t seed) {
    return paired_bootstrap(metric, a, b, 500, seed);
  };
  CHECK(bootstrap(3).p_value == bootstrap(3).p_value);
  CHECK(bootstrap(3).system.mean == bootstrap_confidence(metric, b, 500, 3).mean);
  CHECK(bootstrap(3).baseline.half_width == bootstrap_confidence(metric, a, 500, 3).half_width);
  CHECK(bootstrap(3).system.mean != bootstrap(4).system.mean);
}

TEST_CASE("systems of different sentences, or without any, are rejected") {
  const auto ten = words(10, 50, 1), nine = words(9, 50, 1), none = SegmentStatistics(0, 2);
  CHECK_THROWS_AS((void)paired_bootstrap(metric, ten, nine), std::invalid_argument);
  CHECK_THROWS_AS((void)bootstrap_confidence(metric, none), std::invalid_argument);
  CHECK_THROWS_AS((void)bootstrap_confidence(metric, ten, 0), std::invalid_argument);
}

}  // namespace
}  // namespace tapestry
