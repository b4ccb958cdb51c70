#include "data/io/csv_table.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "tests/data/refusal.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;
using tapestry::test::hint_of;
using tapestry::test::refusal;
using tapestry::test::TemporaryFolder;

namespace {

CsvTable table_of(std::string_view text, const CsvOptions& options = {}) {
  const TemporaryFolder folder;
  return read_csv(folder.write("table.csv", text), options);
}

/// The message for a text, without the folder.
std::string message_for(std::string_view text, const CsvOptions& options = {}) {
  const std::string message = refusal([&] { table_of(text, options); });
  return message.substr(message.find("table.csv"));
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

TEST_CASE("empty lines of a CSV file are skipped, and so is a header") {
  const CsvTable table = table_of("\n1,2\n \n3,4\n\n");
  CHECK(table.rows == 2);
  CHECK(table.values == std::vector<double>{1, 2, 3, 4});
  CHECK(table_of("a,b\n1,2\n", {.header = true}).values == std::vector<double>{1, 2});
  CHECK(table_of("5,6\n1,2\n", {.header = true}).rows == 1);
}

TEST_CASE("a CSV file that is not a table of numbers is refused with its line") {
  CHECK(message_for("1,2\n3,x\n") ==
        "table.csv:2: found \"x\" in field 2, expected a finite number");
  CHECK(message_for("a,b\n1,2\n") ==
        "table.csv:1: found \"a\" in field 1, expected a finite number");
  CHECK(hint_of([] { table_of("a,b\n1,2\n"); }) ==
        "if this line has the names of the columns, read_csv(path, {.header = true})");
  CHECK(hint_of([] { table_of("1,2\na,b\n"); }) == "correct the field");
  CHECK(message_for("1,2\n\n3,4,5\n") ==
        "table.csv:3: found 3 fields, expected 2 as in the lines before");
  CHECK(message_for("1,\"2\n") ==
        "table.csv:1: found a quote that is not closed, expected numbers");
  for (const char* field : {"nan", "inf", "-inf", "1e999", "", "1 2", "1;2", "+-1", "0x10"}) {
    CAPTURE(field);
    CHECK(message_for(std::string("1,") + field).starts_with("table.csv:1: found \""));
  }
  CHECK(message_for("\n\n") == "table.csv: found no numbers, expected numbers separated by commas");
  CHECK(message_for("a\n", {.header = true}).starts_with("table.csv: found no numbers"));
  CHECK(message_for("").starts_with("table.csv: "));
  CHECK_THROWS_AS(read_csv("no/such/table.csv"), DataError);
}
