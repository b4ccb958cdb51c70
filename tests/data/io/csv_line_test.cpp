#include "data/io/csv_line.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace tapestry;
using Fields = std::vector<std::string>;

TEST_CASE("fields are separated by commas, without the white space around them") {
  CHECK(split_csv_line("a,b,c") == Fields{"a", "b", "c"});
  CHECK(split_csv_line(" a\t, b c ,") == Fields{"a", "b c", ""});
  CHECK(split_csv_line("") == Fields{""});
  CHECK(split_csv_line(",,") == Fields{"", "", ""});
}

TEST_CASE("a field in quotes is its content") {
  CHECK(split_csv_line("\"0\",\"255\",\"cat\"") == Fields{"0", "255", "cat"});
  CHECK(split_csv_line("\"a,b\", \"c\" ,d") == Fields{"a,b", "c", "d"});
  CHECK(split_csv_line("\"a\"\"b\",\"\"\"\",\"\"") == Fields{"a\"b", "\"", ""});
  CHECK(split_csv_line("\" a \"") == Fields{" a "});
}

TEST_CASE("split_csv_line: a quote inside an unquoted field is a character") {
  CHECK(split_csv_line("5\",a\"b") == Fields{"5\"", "a\"b"});
}

TEST_CASE("split_csv_line: a quote that is not closed gives no fields") {
  CHECK_FALSE(split_csv_line("\"a,b").has_value());
  CHECK_FALSE(split_csv_line("a,\"").has_value());
  CHECK_FALSE(split_csv_line("\"a\"\"").has_value());
}
