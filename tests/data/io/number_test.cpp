// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/number.h"

#include <doctest/doctest.h>

#include <clocale>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace tapestry {
namespace {

TEST_CASE("parse_number rejects text that is not a single number") {
  CHECK(parse_number<int>("-12") == -12);
  CHECK(parse_number<std::uint32_t>("1f", 16) == 31u);
  CHECK(parse_number<double>("1.5e3") == 1500.0);
  for (const char* text : {"", " 1", "+1", "1 ", "1x", "x", "1,5"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_number<int>(text));
    CHECK_FALSE(parse_number<double>(text));
  }
  CHECK_FALSE(parse_number<std::uint8_t>("256"));
  CHECK_FALSE(parse_number<std::uint8_t>("-1"));
  CHECK_FALSE(parse_number<double>("1e999"));
}

TEST_CASE("parse_number accepts infinity and NaN as floating-point numbers") {
  CHECK(parse_number<double>("-inf") == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(parse_number<double>("nan").value()));
}

TEST_CASE("parse_number does not depend on the locale") {
  const std::string before = std::setlocale(LC_ALL, nullptr);
  for (const char* locale : {"de_DE.UTF-8", "fr_FR.UTF-8"}) std::setlocale(LC_ALL, locale);
  CHECK(parse_number<double>("0.1234") == 0.1234);
  std::setlocale(LC_ALL, before.c_str());
}

}  // namespace
}  // namespace tapestry
