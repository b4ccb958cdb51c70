#include "train/report/number_text.h"

#include <doctest/doctest.h>

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <string>

namespace tapestry {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<double> stored(const std::vector<double>& numbers, NumberDigits digits) {
  return numbers_from_text(numbers_to_text(numbers, digits), digits);
}

/// The number with this many significant digits.
double rounded(double x, NumberDigits digits) {
  return std::stod(fmt::format("{:.{}e}", x, static_cast<int>(digits) - 1));
}

TEST_CASE("numbers are restored from text with all of their digits") {
  std::vector<double> numbers;
  for (int i = 0; i < 3000; ++i) {
    numbers.push_back(std::sin(i) * std::pow(10.0, (i % 41) / 10.0 - 2.0));
  }
  numbers.insert(numbers.end(), {1.0, -1.0, 99.99999, 999999.5, 9.999995, 1e-1, 5.0});
  for (const NumberDigits digits : {NumberDigits::four, NumberDigits::six}) {
    const std::vector<double> read = stored(numbers, digits);
    REQUIRE(read.size() == numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) CHECK(read[i] == rounded(numbers[i], digits));
  }
}

TEST_CASE("a number has 2, 3 or 4 characters") {
  const std::vector<double> numbers{1.5, -2.25, 3.125};
  for (const auto& [digits, characters] :
       {std::pair{NumberDigits::three, 2U}, {NumberDigits::four, 3U}, {NumberDigits::six, 4U}}) {
    CHECK(characters_per_number(digits) == characters);
    CHECK(numbers_to_text(numbers, digits).text.size() == 3 * characters);
    CHECK(stored(numbers, digits)[1] == rounded(-2.25, digits));
  }
}

TEST_CASE("the last decade of each format is stored, smaller numbers become 0 with their sign") {
  for (const auto& [digits, decades] :
       {std::pair{NumberDigits::three, 4}, {NumberDigits::four, 36}, {NumberDigits::six, 31}}) {
    const double last = std::stod(fmt::format("9.87e{}", 2 - decades + 1));
    const double next = std::stod(fmt::format("9.87e{}", 2 - decades));
    const std::vector<double> numbers{999.0, last, -last, next, -next};
    const std::vector<double> read = stored(numbers, digits);
    CHECK(read[0] == 999.0);
    CHECK(read[1] == last);
    CHECK(read[2] == -last);
    CHECK(read[3] == 0.0);
    CHECK_FALSE(std::signbit(read[3]));
    CHECK(read[4] == 0.0);
    CHECK(std::signbit(read[4]));
  }
}

TEST_CASE("rounding up to the next power of ten is the next exponent") {
  const NumberText text = numbers_to_text(std::vector<double>{9.9996}, NumberDigits::four);
  CHECK(text.exponent == 1);
  CHECK(numbers_from_text(text, NumberDigits::four) == std::vector{10.0});
}

TEST_CASE("zeros are stored by their number") {
  CHECK(numbers_to_text(std::vector<double>(3, 0.0), NumberDigits::six).text == "~$");
  std::vector<double> zeros(1000, 0.0);
  zeros.push_back(2.0);
  const NumberText text = numbers_to_text(zeros, NumberDigits::six);
  CHECK(text.text.size() < 30);
  CHECK(numbers_from_text(text, NumberDigits::six) == zeros);
  CHECK(numbers_to_text({}, NumberDigits::six).text.empty());
}

TEST_CASE("numbers that are not finite are stored as such") {
  const std::vector<double> read = stored(
      {infinity, 0.0, -infinity, std::numeric_limits<double>::quiet_NaN(), 7.0}, NumberDigits::six);
  CHECK(read[0] == infinity);
  CHECK(read[1] == 0.0);
  CHECK(read[2] == -infinity);
  CHECK(std::isnan(read[3]));
  CHECK(read[4] == 7.0);
}

TEST_CASE("the text has no character that JSON or HTML escapes") {
  std::vector<double> numbers;
  for (int i = 1; i < 20000; ++i) numbers.push_back((i % 2 == 0 ? -1.0 : 1.0) * i * 0.37);
  for (const NumberDigits digits : {NumberDigits::three, NumberDigits::four, NumberDigits::six}) {
    const std::string text = numbers_to_text(numbers, digits).text;
    CHECK(text.find_first_of("\"\\<>&'") == std::string::npos);
  }
}

}  // namespace
}  // namespace tapestry
