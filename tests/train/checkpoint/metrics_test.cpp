#include "train/checkpoint/metrics.h"

#include <doctest/doctest.h>

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

TEST_CASE("a new table has only its header") { CHECK(MetricsTable().csv() == header); }

TEST_CASE("an interval of training fills the columns of training") {
  MetricsTable table;
  table.add(training);
  CHECK(table.csv() == header + "50,2,train,0.1,1.5,,,0.001,0.25,640\n");
}

TEST_CASE("a validation fills the columns of validation") {
  MetricsTable table;
  table.add_validation(100, 3,
                       {.sentences = 8,
                        .tokens = 40,
                        .loss = 0.5,
                        .perplexity = 1.75,
                        .token_accuracy = 0.875,
                        .others = {{"exact_match", 0.25}}});
  CHECK(table.csv() == header + "100,3,validation,0.5,1.75,0.875,0.25,,,40\n");
}

TEST_CASE("a validation without decoding has an empty exact match, not 0") {
  MetricsTable table;
  table.add_validation(1, 1, {.tokens = 4, .loss = 2, .perplexity = 8, .token_accuracy = 0});
  CHECK(table.csv() == header + "1,1,validation,2,8,0,,,,4\n");
}

TEST_CASE("other scores of a task have their own columns, empty in training rows") {
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

TEST_CASE("numbers are written with all significant digits") {
  MetricsTable table;
  TrainMetrics row = training;
  row.loss = 0.1 + 0.2;
  table.add(row);
  CHECK(table.csv().find(",0.30000000000000004,") != std::string::npos);
}

TEST_CASE("a table continues the text of another") {
  MetricsTable first;
  first.add(training);
  MetricsTable second(first.csv());
  first.add(training);
  second.add(training);
  CHECK(second.csv() == first.csv());
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

TEST_CASE("the table is written in place of the old file") {
  const test::TemporaryFolder folder;
  MetricsTable table;
  table.add(training);
  table.write(folder / "metrics.csv");
  MetricsTable().write(folder / "metrics.csv");
  const auto bytes = read_binary_file(folder / "metrics.csv").bytes;
  CHECK(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()) == header);
  CHECK_THROWS_AS(table.write(folder / "none/metrics.csv"), OutputError);
}

}  // namespace
}  // namespace tapestry
