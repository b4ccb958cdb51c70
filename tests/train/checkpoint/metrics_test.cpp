// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/metrics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "data/io/file.h"
#include "tests/support/temporary_folder.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

const std::string header =
    "step,epoch,split,loss,perplexity,token_accuracy,exact_match,learning_rate,gradient_norm,"
    "target_tokens\n";

const TrainMetrics training{.step = 50,
                            .epoch = 2,
                            .loss = 0.1,
                            .perplexity = 1.5,
                            .learning_rate = 1e-3,
                            .gradient_norm = 0.25,
                            .target_tokens = 640};

TEST_CASE("a table has a heading, and each row fills the columns of its split") {
  MetricsTable table;
  CHECK(table.csv() == header);
  table.add(training);
  TrainMetrics row = training;
  row.loss = 0.1 + 0.2;  // needs 17 significant digits
  table.add(row);
  table.add_validation(100, 3,
                       {.sentences = 8,
                        .tokens = 40,
                        .loss = 0.5,
                        .perplexity = 1.75,
                        .token_accuracy = 0.875,
                        .others = {{"exact_match", 0.25}}});
  // Without decoding, the exact match is empty, not 0.
  table.add_validation(1, 1, {.tokens = 4, .loss = 2, .perplexity = 8, .token_accuracy = 0});
  CHECK(table.csv() == header +
                           "50,2,train,0.1,1.5,,,0.001,0.25,640\n"
                           "50,2,train,0.30000000000000004,1.5,,,0.001,0.25,640\n"
                           "100,3,validation,0.5,1.75,0.875,0.25,,,40\n"
                           "1,1,validation,2,8,0,,,,4\n");
}

TEST_CASE("additional scores of a task have separate columns, which are empty in training rows") {
  MetricsTable table(std::vector<std::string>{"span_f1", "bleu_4"});
  const std::string heading = header.substr(0, header.size() - 1) + ",span_f1,bleu_4\n";
  table.add(training);
  table.add_validation(1, 1,
                       {.tokens = 4, .loss = 2, .perplexity = 8, .others = {{"bleu_4", 0.5}}});
  CHECK(table.csv() ==
        heading + "50,2,train,0.1,1.5,,,0.001,0.25,640,,\n" + "1,1,validation,2,8,0,,,,4,,0.5\n");
  MetricsTable next(table.csv());
  next.add_validation(2, 1, {.others = {{"span_f1", 1.0}}});
  CHECK(next.csv() == table.csv() + "2,1,validation,0,0,0,,,,0,1,\n");
}

TEST_CASE("rows can be removed") {
  MetricsTable table, without;
  table.add(training);
  without.add(training);
  const std::size_t begin = table.csv().size();
  table.add(training);
  const std::size_t end = table.csv().size();
  TrainMetrics last = training;
  ++last.step;
  table.add(last);
  without.add(last);
  table.erase(begin, end);
  CHECK(table.csv() == without.csv());
}

TEST_CASE("write() replaces the old file") {
  const test::TemporaryFolder folder;
  MetricsTable table;
  table.add(training);
  table.write(folder / "metrics.csv");
  MetricsTable().write(folder / "metrics.csv");
  const auto bytes = read_binary_file(folder / "metrics.csv").bytes;
  CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == header);
  CHECK_THROWS_AS(table.write(folder / "none/metrics.csv"), OutputError);
}

const std::string training_row = "50,2,train,0.1,1.5,,,0.001,0.25,640\n";
const std::string validation_row = "100,3,validation,0.5,1.75,0.875,0.25,,,40\n";

/// The error about a table, without the prefix; empty if the table is accepted.
std::string rejection(const std::string& csv) try {
  require_metrics(csv, "x.h5: train/metrics");
  return "";
} catch (const CheckpointError& error) {
  const std::string message = error.what(), place = "x.h5: train/metrics: ";
  CHECK(message.starts_with(place));
  return message.substr(place.size());
}

/// The error about a table in which `by` replaces the text `replaced` in a training row.
std::string rejection_with(const std::string& replaced, const std::string& by) {
  std::string row = training_row;
  return rejection(header + validation_row + row.replace(row.find(replaced), replaced.size(), by));
}

TEST_CASE("a table with extreme and missing numbers is accepted") {
  const double inf = std::numeric_limits<double>::infinity();
  MetricsTable table;
  table.add({.step = std::numeric_limits<std::uint64_t>::max(),
             .loss = std::numeric_limits<double>::denorm_min(),
             .perplexity = inf,
             .learning_rate = -std::numeric_limits<double>::max(),
             .gradient_norm = std::nan("")});
  table.add_validation(1, 1, {.tokens = 4, .loss = -inf, .perplexity = -std::nan("")});
  table.add_validation(1, 1, {.tokens = 4, .loss = 1e-300, .others = {{"exact_match", 1}}});
  CHECK_NOTHROW(require_metrics(table.csv(), ""));
}

TEST_CASE("an invalid table is rejected with the number of the invalid line") {
  struct Case {
    std::string csv, found;
  };
  for (const auto& [csv, found] : std::vector<Case>{
           {"", "line 1: found the end of the table"},
           {"step,loss\n" + training_row, "line 1: found 'step,loss', expected step,epoch,split"},
           {header + training_row + "1,1,train,2\n", "line 3: found 4 fields, expected 10"},
           {header + "\n", "line 2: found 1 field,"},
           {header + "50,2,tr", "line 2: found the end of the table after '50,2,tr'"}}) {
    const auto& shown = csv;  // clang 14 cannot capture structured bindings
    CAPTURE(shown);
    CHECK(rejection(csv).starts_with(found));
  }
  CHECK(rejection_with("640", "640,").starts_with("line 3: found 11 fields"));
  CHECK(rejection_with("train", "test").starts_with("line 3: found split 'test'"));
  CHECK(rejection_with("train", "\x1b[2J").starts_with("line 3: found split '\\x1B[2J'"));
  CHECK(rejection_with("50", "-50") == "line 3: found step '-50', expected a whole number");
  CHECK(rejection_with("50", "18446744073709551616").starts_with("line 3: found step"));
  for (const char* text : {"=1+1", "1 ", " 1", "+1", "0x1", "1e", "1e999", "infinity", "NaN",
                           "nan(1)", "\"1\"", "1;2", "\x1b[2J"}) {
    CAPTURE(text);
    CHECK(rejection_with("0.1", text).starts_with("line 3: found loss '"));
  }
  CHECK_THROWS_AS(MetricsTable("step,loss\n"), CheckpointError);
}

TEST_CASE("columns of additional scores have names of lowercase letters, digits and _") {
  const auto with_columns = [](const std::string& columns, const std::string& rows) {
    return rejection(std::string(metrics_heading) + columns + "\n" + rows);
  };
  CHECK(with_columns(",span_f1,b", "1,1,validation,1,2,0.5,,,,4,0.5,\n").empty());
  CHECK(require_metrics(std::string(metrics_heading) + ",span_f1,b\n", "") ==
        std::vector<std::string>{"span_f1", "b"});
  for (const char* columns : {",", ",a,", ",,a", "a", ",A", ",=1", ",a b"}) {
    CAPTURE(columns);
    CHECK(with_columns(columns, "").starts_with("line 1: found 'step,"));
  }
  CHECK(with_columns(",a", "1,1,validation,1,2,0.5,,,,4\n").starts_with("line 2: found 10 fields"));
  CHECK(with_columns(",a", "1,1,validation,1,2,0.5,,,,4,x\n").starts_with("line 2: found a 'x'"));
}

TEST_CASE("a table that ends within a row is rejected") {
  const std::string table = header + training_row + validation_row;
  for (std::size_t size = 0; size < table.size(); ++size) {
    CAPTURE(size);
    const bool whole = size == header.size() || size == header.size() + training_row.size();
    CHECK(rejection(table.substr(0, size)).empty() == whole);
  }
}

}  // namespace
}  // namespace tapestry
