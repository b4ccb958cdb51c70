// SPDX-License-Identifier: BSD-3-Clause
#include "train/base/format.h"

#include <doctest/doctest.h>

#include <cmath>
#include <ctime>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace tapestry {
namespace {

TEST_CASE("counts, durations, percentages and bytes are printed in human-readable form") {
  const std::vector<std::pair<std::string, const char*>> rows{
      {format_count(0), "0"},
      {format_count(999), "999"},
      {format_count(1000), "1,000"},
      {format_count(123456), "123,456"},
      {format_count(std::numeric_limits<std::uint64_t>::max()), "18,446,744,073,709,551,615"},
      {format_duration(-3), "0:00"},
      {format_duration(9.5), "0:10"},
      {format_duration(59.4), "0:59"},
      {format_duration(245), "4:05"},
      {format_duration(3599.6), "1:00:00"},
      {format_duration(3723), "1:02:03"},
      {format_duration(360000), "100:00:00"},
      {format_share(1.0), "100.0 %"},
      {format_share(0.205), "20.5 %"},
      {format_share(0.001), "0.1 %"},
      {format_share(0.00099), "under 0.1 %"},
      {format_bytes(1'400'000'000), "1.4 GB"},
      {format_bytes(35'000'000), "35 MB"},
      {format_bytes(9'900'000), "9.9 MB"},
      {format_bytes(300'000), "0.3 MB"}};
  for (const auto& [found, expected] : rows) CHECK(found == expected);
}

TEST_CASE("a path in a command is quoted if the shell requires it") {
  CHECK(format_argument("runs/copy-2_b.old,1") == "runs/copy-2_b.old,1");
  CHECK(format_argument("/läufe/größe=1") == "/läufe/größe=1");
  CHECK(format_argument("my run") == "'my run'");
  CHECK(format_argument("it's") == "'it'\\''s'");
  for (const char* special : {"~", "*", "?", "[a]", "{a}", "$a", "`a`", "a;b", "a&b", "a|b", "a<b",
                              "a>b", "(a)", "#a", "!a", "\"a\"", "a\\b", "^a"}) {
    CHECK(format_argument(special) == "'" + std::string(special) + "'");
  }
  CHECK(format_argument("") == "''");
}

TEST_CASE("control characters and invalid UTF-8 in a path are escaped in octal") {
  CHECK(format_argument("a\nb") == "$'a\\012b'");
  CHECK(format_argument("it's\t\\") == "$'it\\'s\\011\\\\'");
  CHECK(format_argument("\xFF"
                        "1") == "$'\\3771'");
  CHECK(format_argument("\u202Ea") == "$'\\342\\200\\256a'");
}

TEST_CASE("a path that looks like an option or an override is prefixed with ./") {
  CHECK(format_argument("-x") == "./-x");
  CHECK(format_argument("- x") == "'./- x'");
  CHECK(format_argument("a.b=c") == "./a.b=c");
  CHECK(format_argument("runs/a.b=c") == "runs/a.b=c");
}

TEST_CASE("a value is printed with the given decimals, or with as many as fit into 8 characters") {
  CHECK(format_value(2.32194, 4) == "2.3219");
  CHECK(format_value(0.0, 4) == "0.0000");
  CHECK(format_value(-12345.678, 4) == "-12345.7");
  CHECK(format_value(12345678.9, 3) == "12345679");
  CHECK(format_value(123456789.0, 3) == "1.23e+08");
  CHECK(format_value(-1e133, 3) == "-1e+133");
  CHECK(format_value(NAN, 3) == "nan");
  CHECK(format_value(INFINITY, 3) == "inf");
  for (int exponent = -320; exponent <= 308; ++exponent) {
    for (const double digits : {1.0, -9.9999999, 4.56789}) {
      CHECK(format_value(digits * std::pow(10.0, exponent), 4).size() <= 8);
    }
  }
}

TEST_CASE("words with the same index are printed below each other") {
  const auto aligned = align_words({"Ada café x", "B-PER O O", "O"});
  CHECK(aligned == std::vector<std::string>{"Ada   café x", "B-PER O    O", "O"});
  CHECK(align_words({"", "a b"}) == std::vector<std::string>{"", "a b"});
}

TEST_CASE("a time is printed in UTC, and as unknown if it is out of range") {
  CHECK(format_time(0) == "1970-01-01T00:00:00Z");
  CHECK(format_time(1'767'323'045) == "2026-01-02T03:04:05Z");
  CHECK(format_time(10'413'792'000) == "2300-01-01T00:00:00Z");  // more nanoseconds than 2^63
  CHECK(format_time(std::numeric_limits<std::time_t>::max()) == "unknown time");
}

}  // namespace
}  // namespace tapestry
