#include "data/text/text_sample.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace tapestry {
namespace {

constexpr std::size_t overhead = TextSample::bytes_per_sentence;

/// A sample of "0", "1", ... with a number of digits that is always the same.
TextSample sample_of(std::size_t sentences, std::size_t limit) {
  TextSample sample(limit);
  for (std::size_t i = 0; i < sentences; ++i) sample.add(std::to_string(10'000 + i));
  return sample;
}

TEST_CASE("a text that fits is its own sample") {
  TextSample sample = sample_of(7, 7 * (overhead + 5));
  CHECK_FALSE(sample.is_partial());
  CHECK(std::move(sample).take() ==
        std::vector<std::string>{"10000", "10001", "10002", "10003", "10004", "10005", "10006"});
}

TEST_CASE("a text sample has as many sentences as fit, in the order of the text") {
  TextSample sample = sample_of(1000, 10 * (overhead + 5) + 1);
  CHECK(sample.is_partial());
  CHECK(sample.added() == 1000);
  CHECK(sample.kept() == 10);
  const std::vector<std::string> sentences = std::move(sample).take();
  CHECK(sentences.size() == 10);
  CHECK(std::ranges::is_sorted(sentences));
  CHECK(sentences == sample_of(1000, 10 * (overhead + 5)).take());
}

TEST_CASE("a larger text sample contains a smaller one") {
  const std::vector<std::string> small = sample_of(1000, 50 * (overhead + 5)).take();
  const std::vector<std::string> large = sample_of(1000, 60 * (overhead + 5)).take();
  CHECK(small.size() == 50);
  CHECK(std::ranges::includes(large, small));
}

TEST_CASE("all parts of a text are equally frequent in a sample") {
  const std::vector<std::string> sentences = sample_of(10'000, 1000 * (overhead + 5)).take();
  std::vector<int> of_tenth(10);
  for (const std::string& sentence : sentences) ++of_tenth[std::stoul(sentence) / 1000 - 10];
  for (const int count : of_tenth) CHECK(std::abs(count - 100) < 40);  // 4 standard deviations
}

TEST_CASE("a text sample counts the bytes of its sentences") {
  TextSample sample(4 * (overhead + 5));
  std::size_t long_ones = 0;
  for (std::size_t i = 0; i < 100; ++i)
    sample.add(std::string(i % 2 == 0 ? 5 : overhead + 10, 'x'));
  std::size_t bytes = 0;
  for (const std::string& sentence : std::move(sample).take()) {
    bytes += sentence.size() + overhead;
    long_ones += sentence.size() > 5 ? 1 : 0;
  }
  CHECK(bytes <= 4 * (overhead + 5));
  CHECK(bytes > 2 * (overhead + 5));
  CHECK(long_ones > 0);
}

TEST_CASE("a text sample leaves out a sentence larger than the limit and no other one") {
  TextSample sample(4 * (overhead + 5));
  sample.add("first");
  sample.add(std::string(1000, 'x'));
  sample.add("third");
  CHECK(sample.is_partial());
  CHECK(std::move(sample).take() == std::vector<std::string>{"first", "third"});
}

}  // namespace
}  // namespace tapestry
