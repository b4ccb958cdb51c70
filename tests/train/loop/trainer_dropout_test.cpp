#include <doctest/doctest.h>

#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/train/tiny_run.h"

namespace tapestry {
namespace {

using test::TinyRun;

/// A run on one pair, batch after batch, that learns nothing: only what is dropped can make one
/// step's loss differ from another's.
Config config_of_one_pair(double dropout, std::size_t accumulate) {
  Config config = test::tiny_config();
  config.data.generated.train_size = 1;
  config.data.generated.validation_size = 0;
  config.model.dropout = dropout;
  config.optimizer.kind = OptimizerKind::sgd;
  config.schedule = {.kind = ScheduleKind::constant, .learning_rate = 1e-30};
  config.train.batch_size = 1;
  config.train.accumulate = accumulate;
  config.train.steps = 6;
  config.train.log_every = 1;
  return config;
}

/// The loss of each step, as metrics.csv has it.
std::vector<std::string> losses(double dropout, std::size_t accumulate) {
  TinyRun run;
  run.train(config_of_one_pair(dropout, accumulate));
  const auto bytes = run.metrics();
  std::istringstream table(std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  std::vector<std::string> result;
  std::string line;
  std::getline(table, line);  // the names of the columns
  while (std::getline(table, line)) {
    std::istringstream cells(line);
    std::string cell;
    for (int column = 0; column < 4; ++column) std::getline(cells, cell, ',');
    result.push_back(cell);
  }
  return result;
}

std::size_t different(const std::vector<std::string>& values) {
  return std::set<std::string>(values.begin(), values.end()).size();
}

}  // namespace

TEST_CASE("every training step has another dropout mask") {
  CHECK(different(losses(0.3, 1)) == 6);
  CHECK(different(losses(0.0, 1)) == 1);  // nothing else tells the steps apart
}

TEST_CASE("every batch of a step has another dropout mask") {
  // One mask for both batches of a step would make their mean the loss of the first alone.
  const auto of_one = losses(0.3, 1);
  const auto of_two = losses(0.3, 2);
  REQUIRE(of_one.size() == 6);
  REQUIRE(of_two.size() == 6);
  for (std::size_t step = 0; step < 6; ++step) CHECK(of_two[step] != of_one[step]);
  CHECK(losses(0.0, 2) == losses(0.0, 1));
}

}  // namespace tapestry
