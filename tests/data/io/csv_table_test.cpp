// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/csv_table.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/data/rejection.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;
using tapestry::test::TemporaryFolder;
using Fields = std::vector<std::string>;

namespace {

CsvTable table_of(std::string_view text, const CsvOptions& options = {}) {
  const TemporaryFolder folder;
  return read_csv(folder.write("table.csv", text), options);
}

}  // namespace

TEST_CASE("read_csv reads the numbers of a CSV file row by row") {
  const CsvTable table = table_of("1,2.5,-3e2\n+0.25, 1e-3 ,\"7\"\n");
  CHECK(table.rows == 2);
  CHECK(table.columns == 3);
  CHECK(table.values == std::vector<double>{1, 2.5, -300, 0.25, 1e-3, 7});
  CHECK(table_of("4").values == std::vector<double>{4});
  CHECK(table_of("1\r\n2\r\n").rows == 2);
}

TEST_CASE("empty lines and the header of a CSV file are skipped") {
  const CsvTable table = table_of("\n1,2\n \n3,4\n\n");
  CHECK(table.rows == 2);
  CHECK(table.values == std::vector<double>{1, 2, 3, 4});
  CHECK(table_of("a,b\n1,2\n", {.header = true}).values == std::vector<double>{1, 2});
  CHECK(table_of("5,6\n1,2\n", {.header = true}).rows == 1);
}

TEST_CASE("a CSV file that is not a table of numbers is rejected with the line number") {
  const std::string number = "expected a finite number";
  std::vector<test::BadInput> tables{
      {"1,2\n3,x\n", {"table.csv:2: found \"x\" in field 2", number}},
      {"a,b\n1,2\n", {"table.csv:1: found \"a\" in field 1", "{.header = true}"}},
      {"1,2\na,b\n", {"table.csv:2: ", "correct the field"}},
      {"1,\u22122\n", {"(U+2212, which is not `-`) in field 2", number}},
      {"1,2\n\n3,4,5\n", {"table.csv:3: found 3 fields", "expected 2"}},
      {"1,\"2\n", {"table.csv:1: found a quote that is not closed"}},
      {"\n\n", {"table.csv: found no numbers"}},
      {"", {"table.csv: "}},
  };
  for (const std::string field : {"nan", "inf", "-inf", "1e999", "", "1 2", "1;2", "+-1", "0x10"}) {
    tables.push_back({"1," + field, {"table.csv:1: found \"" + field + "\"", number}});
  }
  test::check_rejected(tables, [](const std::string& text) { table_of(text); });
  test::check_rejected({{"a\n", {"table.csv: found no numbers"}}},
                       [](const std::string& text) { table_of(text, {.header = true}); });
  CHECK_THROWS_AS(read_csv("no/such/table.csv"), DataError);
}

TEST_CASE("fields are separated by commas, and quotes around a field are removed") {
  const std::pair<const char*, Fields> lines[] = {
      {"a,b,c", {"a", "b", "c"}},
      {" a\t, b c ,", {"a", "b c", ""}},
      {"", {""}},
      {",,", {"", "", ""}},
      {"\"0\",\"255\",\"cat\"", {"0", "255", "cat"}},
      {"\"a,b\", \"c,d\" ,e", {"a,b", "c,d", "e"}},
      {"\"a\"\"b\",\"\"\"\",\"\"", {"a\"b", "\"", ""}},
      {"\" a \"", {" a "}},
      {"5\",a\"b", {"5\"", "a\"b"}},  // a quote inside an unquoted field
  };
  for (const auto& [line, fields] : lines) CHECK(split_csv_line(line) == fields);
  for (const char* line : {"\"a,b", "a,\"", "\"a\"\""}) {  // a quote that is not closed
    CHECK_FALSE(split_csv_line(line).has_value());
  }
}
