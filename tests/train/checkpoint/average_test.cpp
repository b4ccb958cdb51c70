// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/average.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/error_text.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/checkpoint/metrics.h"
#include "train/models/trained_model.h"

namespace tapestry {
namespace {

using test::contains;
using test::error_text;
using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;
using Steps = std::vector<std::uint64_t>;

const std::string weight = "output.weight";

/// A run that keeps a checkpoint of every step and validates every second step.
Config kept_config() {
  Config config = tiny_config();
  config.train.save_every = 1;
  config.train.keep_last = 100;
  config.train.validate_every = 2;
  return config;
}

const TinyRun& kept_run() {
  static TinyRun run;
  if (run.directory().steps().empty()) run.train(kept_config());
  return run;
}

std::vector<double> values_in(const ArrayStore& snapshot, const std::string& path) {
  const auto values = snapshot.get<float>(path);
  return {values.begin(), values.end()};
}

TEST_CASE(
    "an average has the mean of each parameter and copies all other arrays from the last "
    "checkpoint") {
  CheckpointAverage average;
  for (const std::uint64_t step : {4, 7, 12}) average.add(kept_run().snapshot(step));
  const ArrayStore result = average.result();
  const auto a = values_in(kept_run().snapshot(4), "parameters/" + weight);
  const auto b = values_in(kept_run().snapshot(7), "parameters/" + weight);
  const auto c = values_in(kept_run().snapshot(12), "parameters/" + weight);
  const auto found = values_in(result, "parameters/" + weight);
  REQUIRE(found.size() == a.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(found[i] == static_cast<float>((a[i] + b[i] + c[i]) / 3));
  }
  CHECK(result.get_text("config") == kept_run().snapshot(12).get_text("config"));
  CHECK(result.get_text("train/history") == "average of the checkpoints of steps 4, 7, 12\n");
  CHECK_FALSE(result.contains("optimizer/steps"));
  const TrainedModel trained = load_model(result);
  CHECK(trained.step == 12);
  CHECK(trained.model->parameters.find(weight)->tensor.to_vector() == found);
}

TEST_CASE("the moving averages of checkpoints are averaged if they exist") {
  TinyRun run;
  Config config = kept_config();
  config.train.ema_decay = 0.5;
  run.train(config);
  CheckpointAverage average;
  average.add(run.snapshot(3));
  average.add(run.snapshot(9));
  const ArrayStore result = average.result();
  const auto a = values_in(run.snapshot(3), "average/" + weight);
  const auto b = values_in(run.snapshot(9), "average/" + weight);
  const auto found = values_in(result, "parameters/" + weight);
  for (std::size_t i = 0; i < a.size(); ++i) {
    CHECK(found[i] == static_cast<float>((a[i] + b[i]) / 2));
  }
  CHECK_FALSE(result.contains("average/" + weight));
}

/// The last checkpoint of a run with a changed tiny_config().
ArrayStore changed_run(const std::function<void(Config&)>& change) {
  TinyRun run;
  Config config = tiny_config();
  change(config);
  run.train(config);
  return run.snapshot(tiny_steps);
}

TEST_CASE(
    "checkpoints of different models are rejected, and a checkpoint equals its own "
    "average") {
  const ArrayStore same = kept_run().snapshot(tiny_steps);
  CheckpointAverage average;
  average.add(same);
  const auto rejection = [&](const ArrayStore& other) {
    return error_text<CheckpointError>([&] { average.add(other); });
  };
  CHECK(contains(rejection(changed_run([](Config& c) { c.model.d_ff = 40; })),
                 "model.d_ff is 40, expected 32 as in "));
  CHECK(contains(rejection(changed_run([](Config& c) { c.data.symbols.num_symbols = 6; })),
                 "data/source_vocabulary"));
  CHECK(contains(rejection(changed_run([](Config& c) { c.model.num_heads *= 2; })),
                 "model.num_heads is "));
  CHECK(contains(rejection(changed_run([](Config& c) { c.model.activation = Activation::gelu; })),
                 "model.activation is gelu, expected relu as in "));
  ArrayStore subwords(same.origin());
  for (const auto& [path, array] : same) subwords.put(path, array);
  subwords.put_text("data/source_subwords", "a model");
  CHECK(contains(rejection(subwords), "data/source_subwords"));
  CheckpointAverage of_dropout, of_average;
  of_dropout.add(changed_run([](Config& c) { c.model.dropout = 0.1; }));
  of_dropout.add(same);
  of_average.add(average.result());
  CHECK(of_average.result().at("parameters/" + weight) == same.at("parameters/" + weight));
}

TEST_CASE("parameters that are NaN or infinite, and sums that overflow, are rejected") {
  const std::string path = "parameters/" + weight;
  for (const float value : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    ArrayStore snapshot = kept_run().snapshot(4);
    const auto bytes = snapshot.mutable_bytes(path);
    std::memcpy(bytes.data() + sizeof value, &value, sizeof value);
    CheckpointAverage average;
    average.add(kept_run().snapshot(4));
    CHECK_THROWS_WITH_AS(average.add(snapshot), doctest::Contains("output.weight: element 1 is "),
                         NumericError);
  }
  ArrayStore large;
  for (const auto& [name, array] : kept_run().snapshot(4)) {
    const std::vector<double> values(array.bytes.size() / sizeof(float), 1e308);
    if (name == path) {
      large.put(name, std::span<const double>(values), array.shape);
    } else {
      large.put(name, array);
    }
  }
  CheckpointAverage average;
  average.add(large);
  average.add(large);
  CHECK_THROWS_WITH_AS(average.result(), doctest::Contains("the average of 2 checkpoints"),
                       NumericError);
}

TEST_CASE("newest_steps() and best_steps() find the newest and the best checkpoints of a run") {
  const RunDirectory run = const_cast<TinyRun&>(kept_run()).directory();
  CHECK(newest_steps(run, 3) == Steps{10, 11, 12});
  const auto losses =
      validation_values(kept_run().snapshot(tiny_steps).get_text("train/metrics"), "loss");
  REQUIRE(losses.size() == 6);
  const Steps best = best_steps(run, 2);
  REQUIRE(best.size() == 2);
  for (const auto& [step, loss] : losses) {
    if (step != best[0] && step != best[1]) {
      CHECK(loss >= losses.at(best[0]));
      CHECK(loss >= losses.at(best[1]));
    }
  }
  CHECK(best_steps(run, 6) == Steps{2, 4, 6, 8, 10, 12});
  CHECK(contains(error_text<CheckpointError>([&] { best_steps(run, 7); }),
                 "found 6 checkpoints with a validation loss, expected 7 or more"));
  CHECK(contains(error_text<CheckpointError>([&] { newest_steps(run, 13); }),
                 "found 12 checkpoints, expected 13 or more"));
}

TEST_CASE("the final average of a run is read only if its step and its run match") {
  TinyRun run;
  const RunDirectory directory = run.directory();
  CHECK_FALSE(read_final_average(directory, 8));
  CheckpointAverage average;
  for (const std::uint64_t step : {7, 8}) average.add(kept_run().snapshot(step));
  write_checkpoint(directory.average_path(), average.result());
  CHECK(read_final_average(directory, 8));
  CHECK_FALSE(read_final_average(directory, 12));  // the run has continued since
}

TEST_CASE("newest_steps() finds checkpoints kept by train.keep_last or train.average_last") {
  TinyRun run;
  Config config = kept_config();
  config.train.keep_last = 2;
  config.train.save_every = 3;
  config.train.validate_every = 4;
  config.train.average_last = 3;
  run.train(config);
  const RunDirectory directory = run.directory();
  REQUIRE(directory.steps().size() >= 3);
  CHECK(newest_steps(directory, 3) == Steps{6, 9, 12});
  const Steps two = directory.steps();
  CHECK(newest_steps(directory, 2) == Steps{two.end() - 2, two.end()});
  const auto rejection = [&](std::size_t count) {
    return error_text<CheckpointError>([&] { newest_steps(directory, count); });
  };
  // A checkpoint that is kept only because it is the best does not count.
  std::filesystem::copy_file(directory.checkpoint_path(6), directory.checkpoint_path(1));
  CHECK(contains(rejection(4), "found the 3 newest checkpoints (train.keep_last"));
  CHECK(contains(rejection(4), "train with train.average_last=4"));
  std::filesystem::remove(directory.checkpoint_path(6));
  CHECK(contains(rejection(3), "found the 2 newest checkpoints (train.keep_last"));
}

TEST_CASE("best_steps() ranks checkpoints by train.best_metric") {
  TinyRun run;
  Config config = kept_config();
  config.train.best_metric = "token_accuracy";
  run.train(config);
  const auto shares =
      validation_values(run.snapshot(tiny_steps).get_text("train/metrics"), "token_accuracy");
  const std::uint64_t best = best_steps(run.directory(), 1).front();
  for (const auto& [step, share] : shares) CHECK(share <= shares.at(best));
}

}  // namespace
}  // namespace tapestry
