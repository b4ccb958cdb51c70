#include <doctest/doctest.h>

#include <limits>

#include "tests/support/values.h"
#include "tests/train/error_text.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/loop/trainer.h"
#include "train/tasks/data_source.h"

/// What train.detect_anomaly does to a run.
namespace tapestry {
namespace {

using test::tiny_config;
using test::tiny_steps;
using test::TinyRun;

/// The error of a run whose parameter `name` has this value in its first place.
std::string error_with(const char* name, float value) {
  TinyRun run;
  Config config = tiny_config();
  config.train.detect_anomaly = true;
  const Corpus corpus = load_corpus(config.data);
  Trainer trainer(config, corpus, run.directory(), run.progress());
  Tensor parameter = trainer.model().parameters.find(name)->tensor;
  parameter.mutable_values<float>()[0] = value;
  const std::string text = test::error_text<NumericError>([&] { trainer.run(); });
  CHECK(trainer.step() == 0);
  CHECK(run.directory().steps().empty());
  return text;
}

TEST_CASE("an anomaly is named with step, layer, operation and the ranges of its inputs") {
  const std::string text =
      error_with("encoder.layers.0.ff.linear1.bias", std::numeric_limits<float>::infinity());
  CHECK(
      text.starts_with("step 1: a value is not finite, expected a finite number; first in "
                       "encoder.layers.0.ff.linear"));
  CHECK(text.find("linear: forward: the output has ") != std::string::npos);
  CHECK(text.find("; input 3: ") != std::string::npos);
  CHECK(text.find("; the weights are those of step 0\nhint: no parameter has been updated ") !=
        std::string::npos);
}

TEST_CASE("a run with detect_anomaly ends with the bytes of one without") {
  TinyRun plain, watched;
  Config config = tiny_config();
  plain.train(config);
  config.train.detect_anomaly = true;
  watched.train(config);
  CHECK(watched.checkpoint_bytes(tiny_steps) == plain.checkpoint_bytes(tiny_steps));
}

}  // namespace
}  // namespace tapestry
