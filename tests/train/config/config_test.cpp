// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/config.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/train/config/config_errors.h"
#include "train/config/load.h"

namespace tapestry {
using namespace test;

TEST_CASE("a key in the config replaces its default, and other keys keep their defaults") {
  const Config config = parse_config(
      "data:\n  task: sort\n  seed: 18446744073709551615\n"
      "model:\n  d_model: 64\n  norm: post\n  dropout: 0.25\n  tie_embeddings: all\n"
      "optimizer:\n  kind: adamw\n"
      "schedule:\n  kind: inverse_sqrt\n  warmup_steps: 10\n"
      "train:\n  dtype: float64\n  run_dir: \"a b\"\n",
      "c.yaml");
  CHECK(config.data.task == "sort");
  CHECK(config.data.generated.seed == 18446744073709551615u);
  CHECK(config.model.d_model == 64);
  CHECK(config.model.norm == NormPlacement::post);
  CHECK(config.model.dropout == 0.25);
  CHECK(config.model.tie_embeddings == TiedEmbeddings::all);
  CHECK(config.optimizer.kind == OptimizerKind::adamw);
  CHECK(config.schedule.kind == ScheduleKind::inverse_sqrt);
  CHECK(config.schedule.warmup_steps == 10);
  CHECK(config.train.dtype == DType::float64);
  CHECK(config.train.run_dir == "a b");
  CHECK(config.model.num_heads == TransformerOptions().num_heads);
  CHECK(config.train.steps == TrainOptions().steps);
}

TEST_CASE("parsing does not change paths or the run directory") {
  const Config config = parse_config(
      "data:\n  task: parallel_text\n  train_source: a\n  train_target: b\n"
      "  validation_source: c\n  validation_target: ../d\n",
      "c.yaml");
  CHECK(config.data.pairs.train_source == "a");
  CHECK(config.data.pairs.validation_target == "../d");
  CHECK(config.train.run_dir.empty());
}

TEST_CASE("overrides replace values of the file, and later overrides replace earlier ones") {
  const Config config =
      parse_config("model:\n  d_model: 64\n", "c.yaml", {"model.d_model=32", "model.d_model=256"});
  CHECK(config.model.d_model == 256);
}

TEST_CASE("the value of an override is all text after the first equals sign") {
  CHECK(parse_config("train:\n  steps: 9\n", "c", {"train.run_dir=a=b.c \"d\""}).train.run_dir ==
        "a=b.c \"d\"");
  CHECK(parse_config("train:\n  run_dir: x\n", "c", {"train.run_dir="}).train.run_dir.empty());
}

namespace {

/// A config or an override with errors.
struct Wrong {
  std::string text;
  std::vector<ExpectedError> errors;
};

const std::string expected_steps = "a whole number >= 1 or a percentage of `train.steps`";

const std::vector<Wrong> wrong_configs = {
    // Unknown names.
    {"model:\n  d_modl: 64\n",
     {{"x:2:3", "d_modl", {"unknown key `d_modl` in `model`", "did you mean `d_model`?"}}}},
    {"train:\n  dropout: 0.1\n", {{"x:2:3", "dropout", {"`dropout` belongs in `model`"}}}},
    {"model:\n  seed: 1\n", {{"x:2:3", "seed", {"`seed` belongs in `data` or `train`"}}}},
    {"train:\n  dropuot: 0.1\n", {{"x:2:3", "", {"did you mean `dropout` in `model`?"}}}},
    {"schedule:\n  lr: 0.1\n", {{"x:2:3", "lr", {"did you mean `learning_rate`?"}}}},
    {"schedule:\n  zeal: 0.1\n",
     {{"x:2:3", "", {"`schedule` has the keys kind, learning_rate, warmup_steps"}}}},
    {"modle:\n  d_model: 64\n  whatever: 1\n",
     {{"x:1:1", "modle", {"unknown section `modle`", "did you mean `model`?"}}}},
    {"d_model: 64\n", {{"x:1:1", "d_model", {"`d_model` belongs in `model`"}}}},
    {"logging:\n  level: 1\n",
     {{"x:1:1", "", {"use data, model, optimizer, schedule, decoding or train"}}}},
    {"model:\n", {{"x:1:1", "model", {"expected keys", "found nothing", "write `kind: ...`"}}}},
    {"model: 3\n", {{"x:1:1", "", {"expected keys indented below `model`, found a value"}}}},
    {"model: [d_model]\n", {{"x:1:1", "", {"expected keys", "found a list"}}}},
    // Invalid values.
    {"train:\n  log_every: abc\n",
     {{"x:2:14", "abc", {expected_steps, "found \"abc\"", "for example, write 50, the default"}}}},
    {"train:\n  steps: 0\n", {{"x:2:10", "0", {"from 1 to 1000000000000", "write 2000"}}}},
    {"model:\n  dropout: 1.0\n", {{"x:2:12", "1.0", {"a number in [0, 1)", "write 0.1"}}}},
    {"optimizer:\n  kind: adan\n", {{"x:2:9", "adan", {"sgd, adam or adamw", "mean `adam`"}}}},
    {"train:\n  keep_last: 0x10\n", {{"x:2:14", "0x10", {">= 2", "write `16`"}}}},
    {"train:\n  keep_last: 010\n", {{"x:2:14", "010", {"write `10`"}}}},
    {"model:\n  dropout: .nan\n", {{"x:2:12", ".nan", {"a number in [0, 1)"}}}},
    {"train:\n  keep_last: &n x\n  steps: *n\n",
     {{"x:2:17", "x", {">= 2"}}, {"x:3:10", "*n", {"found \"x\""}}}},
    {"x-a: &a\n  d_model: wide\nmodel:\n  <<: *a\n", {{"x:2:12", "wide", {"found \"wide\""}}}},
    {"model:\n  d_ff:\n  dropout: ~\n  norm: [pre]\n  positions: {a: b}\n",
     {{"x:2:3", "d_ff", {"found nothing", "remove the key to keep its default"}},
      {"x:3:3", "dropout", {"found nothing"}},
      {"x:4:9", "", {"expected pre or post, found a list", "write one value"}},
      {"x:5:14", "", {"found a map", "write one value"}}}},
    // Several errors, in the order of their lines.
    {"model:\n  d_modl: 64\n  num_heads: 0\n  norm: pre\n  norm: post\ndata:\n  min_length: 9\n"
     "  max_length: 3\n",
     {{"x:2:3", "", {"d_modl"}},
      {"x:3:14", "", {"from 1 to 1024"}},
      {"x:5:3", "", {"repeated"}},
      {"x:7:3", "", {"`min_length` is 9"}}}},
    {"data:\n  min_length: 9\n  max_length: 3\nmodel:\n  norm: no\n",
     {{"x:2:3", "", {"`min_length` is 9"}}, {"x:5:9", "", {"pre or post"}}}},
    {"model:\n  d_ff: 8\nmodel:\n  d_model: y\n",
     {{"x:3:1", "", {"repeated section `model`"}}, {"x:4:12", "", {"a whole number"}}}},
};

const std::vector<Wrong> wrong_overrides = {
    {"train.log_every=abc",
     {{"command line: train.log_every=abc", "", {expected_steps, "write 50"}}}},
    {"model.d_modl=64", {{"command line: model.d_modl=64", "", {"did you mean `d_model`?"}}}},
    {"modle.d_model=64", {{"command line: modle.d_model=64", "", {"unknown section `modle`"}}}},
    {"steps=64", {{"command line: steps=64", "", {"`section.key=value`", "`train.steps=...`"}}}},
    {"verbose", {{"command line: verbose", "", {"for example, write `model.d_model=128`"}}}},
    {"train.steps", {{"command line: train.steps", "", {"write `train.steps=...`"}}}},
    {"train.steps.x=1", {{"command line: train.steps.x=1", "", {"unknown key `steps.x`"}}}},
    {"", {{"command line: ", "", {"expected `section.key=value`"}}}},
    {"train.run_dir=a\nb", {{"command line", "", {"a\\nb", "control character U+000A"}}}},
    {"train.log_every=" + std::string(84, '9') + "x",
     {{"command line: train.log_every=" + std::string(84, '9') + "...", "", {"a whole number"}}}},
};

}  // namespace

TEST_CASE("config errors have a position, a reason and a hint, and are reported together") {
  for (const Wrong& row : wrong_configs) {
    CAPTURE(row.text);
    check_errors(config_errors(row.text), row.errors);
  }
}

TEST_CASE("errors of an override are reported for the command line") {
  for (const Wrong& row : wrong_overrides) {
    CAPTURE(row.text);
    check_errors(config_errors("train:\n  steps: 9\n", {row.text}), row.errors);
  }
}

TEST_CASE("an override does not hide an invalid value in the file") {
  check_errors(config_errors("train:\n  log_every: abc\n", {"train.log_every=5"}),
               {{"x:2:14", "abc", {"a whole number"}}});
}

TEST_CASE("aliases and merge keys set values, and a key of the map replaces a merged key") {
  const Config config = parse_config(
      "x-small: &small {d_model: 64, num_heads: 2, dropout: 0.3}\n"
      "model:\n  num_heads: 8\n  <<: *small\ntrain:\n  save_every: &often 40\n"
      "  validate_every: *often\n",
      "x", {"model.dropout=0"});
  CHECK(config.model.d_model == 64);
  CHECK(config.model.num_heads == 8);
  CHECK(config.model.dropout == 0);
  CHECK(config.train.validate_every == 40);
}

TEST_CASE("after a syntax error, missing keys are not reported") {
  const auto errors =
      config_errors("data:\n  task: parallel_text\n  train_source\n  train_target: x\n");
  REQUIRE(errors.size() == 1);
  CHECK(contains(errors.front().message, "not valid YAML"));
}

TEST_CASE("reading a config stops after fifty errors") {
  std::string text = "model:\n";
  for (int i = 0; i < 20000; ++i) text += "  k" + std::to_string(i) + ": 1\n";
  CHECK(config_errors(text).size() == 51);
}

}  // namespace tapestry
