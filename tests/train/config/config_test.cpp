#include "train/config/config.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "train/config/error.h"

namespace tapestry {
namespace {

using Overrides = std::vector<std::string>;

std::string problems_of(const std::string& text, const Overrides& overrides = {}) {
  try {
    parse_config(text, "c.yaml", overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

std::string problems_of_override(const std::string& override) {
  return problems_of("train:\n  steps: 9\n", {override});
}

}  // namespace

TEST_CASE("a key in the config replaces its default, other keys keep theirs") {
  const Config config = parse_config(
      "data:\n  task: sort\n  seed: 18446744073709551615\n"
      "model:\n  d_model: 64\n  norm: post\n  dropout: 0.25\n  tie_embeddings: all\n"
      "optimizer:\n  kind: adamw\n"
      "schedule:\n  kind: inverse_sqrt\n  warmup_steps: 10\n"
      "train:\n  dtype: float64\n  run_dir: \"a b\"\n",
      "c.yaml");
  CHECK(config.data.task == "sort");
  CHECK(config.data.seed == 18446744073709551615u);
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

TEST_CASE("parsing does not change paths and the run directory") {
  const Config config = parse_config(
      "data:\n  task: parallel_text\n  train_source: a\n  train_target: b\n"
      "  validation_source: c\n  validation_target: ../d\n",
      "c.yaml");
  CHECK(config.data.train_source == "a");
  CHECK(config.data.validation_target == "../d");
  CHECK(config.train.run_dir.empty());
}

TEST_CASE("overrides replace values of the file, and later ones earlier ones") {
  const Config config =
      parse_config("model:\n  d_model: 64\n", "c.yaml", {"model.d_model=32", "model.d_model=256"});
  CHECK(config.model.d_model == 256);
}

TEST_CASE("the value of an override is all text after the first equals sign") {
  CHECK(parse_config("train:\n  steps: 9\n", "c", {"train.run_dir=a=b.c \"d\""}).train.run_dir ==
        "a=b.c \"d\"");
  CHECK(parse_config("train:\n  run_dir: x\n", "c", {"train.run_dir="}).train.run_dir.empty());
}

TEST_CASE("an unknown key is reported with its section and a suggestion") {
  CHECK(problems_of("model:\n  d_modl: 64\n") ==
        "c.yaml:2:3: unknown key `d_modl` in `model`\n"
        "    d_modl: 64\n"
        "    ^~~~~~\n"
        "hint: did you mean `d_model`?");
  CHECK(problems_of("train:\n  dropout: 0.1\n") ==
        "c.yaml:2:3: unknown key `dropout` in `train`\n"
        "    dropout: 0.1\n"
        "    ^~~~~~~\n"
        "hint: `dropout` belongs in `model`");
  CHECK(problems_of("model:\n  seed: 1\n") ==
        "c.yaml:2:3: unknown key `seed` in `model`\n"
        "    seed: 1\n"
        "    ^~~~\n"
        "hint: `seed` belongs in `data` or `train`");
  CHECK(problems_of("train:\n  dropuot: 0.1\n") ==
        "c.yaml:2:3: unknown key `dropuot` in `train`\n"
        "    dropuot: 0.1\n"
        "    ^~~~~~~\n"
        "hint: did you mean `dropout` in `model`?");
  CHECK(problems_of("schedule:\n  lr: 0.1\n") ==
        "c.yaml:2:3: unknown key `lr` in `schedule`\n"
        "    lr: 0.1\n"
        "    ^~\n"
        "hint: did you mean `learning_rate`?");
  CHECK(problems_of("schedule:\n  zeal: 0.1\n") ==
        "c.yaml:2:3: unknown key `zeal` in `schedule`\n"
        "    zeal: 0.1\n"
        "    ^~~~\n"
        "hint: `schedule` has the keys kind, learning_rate, warmup_steps, decay_steps, "
        "min_learning_rate");
}

TEST_CASE("an unknown section is reported with a suggestion") {
  CHECK(problems_of("modle:\n  d_model: 64\n  whatever: 1\n") ==
        "c.yaml:1:1: unknown section `modle`\n"
        "    modle:\n"
        "    ^~~~~\n"
        "hint: did you mean `model`?");
  CHECK(problems_of("d_model: 64\n") ==
        "c.yaml:1:1: unknown section `d_model`\n"
        "    d_model: 64\n"
        "    ^~~~~~~\n"
        "hint: `d_model` belongs in `model`");
  CHECK(problems_of("logging:\n  level: 1\n") ==
        "c.yaml:1:1: unknown section `logging`\n"
        "    logging:\n"
        "    ^~~~~~~\n"
        "hint: use data, model, optimizer, schedule, decoding or train");
}

TEST_CASE("a section without keys is refused") {
  CHECK(problems_of("model:\n") ==
        "c.yaml:1:1: expected keys indented below `model`, found nothing\n"
        "    model:\n"
        "    ^~~~~\n"
        "hint: write `kind: ...` below it, or remove the section");
  CHECK(problems_of("model: 3\n") ==
        "c.yaml:1:1: expected keys indented below `model`, found a value\n"
        "    model: 3\n"
        "    ^~~~~\n"
        "hint: write `kind: ...` below it, or remove the section");
  CHECK(problems_of("model: [d_model]\n")
            .starts_with("c.yaml:1:1: expected keys indented below `model`, found a list\n"));
}

TEST_CASE("an invalid value is underlined, with the expected domain") {
  CHECK(
      problems_of("train:\n  log_every: abc\n") ==
      "c.yaml:2:14: expected a whole number >= 1 or a percentage of `train.steps`, found \"abc\"\n"
      "    log_every: abc\n"
      "               ^~~\n"
      "hint: write for example 50, the default");
  CHECK(problems_of("train:\n  steps: 0\n") ==
        "c.yaml:2:10: expected a whole number from 1 to 1000000000000, found \"0\"\n"
        "    steps: 0\n"
        "           ^\n"
        "hint: write for example 2000, the default");
  CHECK(problems_of("model:\n  dropout: 1.0\n") ==
        "c.yaml:2:12: expected a number in [0, 1), found \"1.0\"\n"
        "    dropout: 1.0\n"
        "             ^~~\n"
        "hint: write for example 0.1, the default");
  CHECK(problems_of("optimizer:\n  kind: adan\n") ==
        "c.yaml:2:9: expected sgd, adam or adamw, found \"adan\"\n"
        "    kind: adan\n"
        "          ^~~~\n"
        "hint: did you mean `adam`?");
  CHECK(problems_of("train:\n  keep_last: 0x10\n") ==
        "c.yaml:2:14: expected a whole number >= 2, found \"0x10\"\n"
        "    keep_last: 0x10\n"
        "               ^~~~\n"
        "hint: write `16`, in decimal digits alone");
}

TEST_CASE("a missing value, a list or a map instead of a value is refused") {
  CHECK(problems_of("model:\n  d_ff:\n  dropout: ~\n  norm: [pre]\n  positions: {a: b}\n") ==
        "c.yaml:2:3: expected a whole number from 1 to 1000000, found nothing\n"
        "    d_ff:\n"
        "    ^~~~\n"
        "hint: write a value, or remove the key to keep its default\n"
        "c.yaml:3:3: expected a number in [0, 1), found nothing\n"
        "    dropout: ~\n"
        "    ^~~~~~~\n"
        "hint: write a value, or remove the key to keep its default\n"
        "c.yaml:4:9: expected pre or post, found a list\n"
        "    norm: [pre]\n"
        "          ^\n"
        "hint: write one value\n"
        "c.yaml:5:14: expected sinusoidal, learned, none, rotary or alibi, found a map\n"
        "    positions: {a: b}\n"
        "               ^\n"
        "hint: write one value");
}

TEST_CASE("problems of an override are reported for the command line") {
  CHECK(problems_of_override("train.log_every=abc") ==
        "command line: train.log_every=abc: expected a whole number >= 1 or a percentage of "
        "`train.steps`, found \"abc\"\n"
        "hint: write for example 50, the default");
  CHECK(problems_of_override("model.d_modl=64") ==
        "command line: model.d_modl=64: unknown key `d_modl` in `model`\n"
        "hint: did you mean `d_model`?");
  CHECK(problems_of_override("modle.d_model=64") ==
        "command line: modle.d_model=64: unknown section `modle`\n"
        "hint: did you mean `model`?");
  CHECK(problems_of_override("steps=64") ==
        "command line: steps=64: expected `section.key=value`\n"
        "hint: write `train.steps=...`");
  CHECK(problems_of_override("verbose") ==
        "command line: verbose: expected `section.key=value`\n"
        "hint: write for example `model.d_model=128`");
  CHECK(problems_of_override("train.steps") ==
        "command line: train.steps: expected `section.key=value`\n"
        "hint: write `train.steps=...`");
  CHECK(problems_of_override("train.steps.x=1")
            .starts_with("command line: train.steps.x=1: unknown key `steps.x` in `train`"));
  CHECK(problems_of_override("").starts_with("command line: : expected `section.key=value`"));
  CHECK(
      problems_of_override("train.run_dir=a\nb") ==
      "command line: train.run_dir=a\\nb: found control character U+000A\nhint: write the override "
      "as UTF-8 text without control characters");
  CHECK(problems_of_override("train.log_every=" + std::string(200, '9')).size() < 300);
  const std::string longest = "train.log_every=" + std::string(83, '9') + "x";
  CHECK(problems_of_override(longest).starts_with("command line: " + longest + ": expected a "));
  CHECK(problems_of_override(longest + "y")
            .starts_with("command line: " + longest + "...: expected a whole number"));
}

TEST_CASE("an override does not hide an invalid value in the file") {
  CHECK(problems_of("train:\n  log_every: abc\n", {"train.log_every=5"})
            .starts_with("c.yaml:2:14: expected a whole number >= 1"));
}

TEST_CASE("all problems are reported at once, in the order of the lines") {
  const std::string text =
      "model:\n"
      "  d_modl: 64\n"
      "  num_heads: 0\n"
      "  norm: pre\n"
      "  norm: post\n"
      "data:\n"
      "  min_length: 9\n"
      "  max_length: 3\n";
  try {
    parse_config(text, "c.yaml", {"train.steps=many"});
    FAIL("expected a ConfigError");
  } catch (const ConfigError& error) {
    std::vector<std::size_t> lines;
    for (const Problem& problem : error.problems()) lines.push_back(problem.place.line);
    CHECK(lines == std::vector<std::size_t>{2, 3, 5, 0});
  }
}

TEST_CASE("contradictions are reported beside invalid values of other keys") {
  const std::string problems =
      problems_of("data:\n  min_length: 9\n  max_length: 3\nmodel:\n  norm: no\n");
  CHECK(problems.starts_with("c.yaml:2:3: `min_length` is 9, more than `max_length` (3)"));
  CHECK(problems.find("c.yaml:5:9: expected pre or post, found \"no\"") != std::string::npos);
}

TEST_CASE("after a syntax error, missing keys are not reported") {
  CHECK(problems_of("data:\n  task: parallel_text\n  train_source\n  train_target: x\n")
            .find("needs") == std::string::npos);
}

TEST_CASE("the values of a repeated section are checked too") {
  const std::string problems = problems_of("model:\n  d_ff: 8\nmodel:\n  d_model: x\n");
  CHECK(problems.starts_with("c.yaml:3:1: repeated section `model`"));
  CHECK(problems.find("c.yaml:4:12: expected a whole number") != std::string::npos);
}

TEST_CASE("a config with endless problems is abandoned after fifty") {
  std::string text = "model:\n";
  for (int i = 0; i < 20000; ++i) text += "  k" + std::to_string(i) + ": 1\n";
  try {
    parse_config(text, "c.yaml");
    FAIL("expected a ConfigError");
  } catch (const ConfigError& error) {
    CHECK(error.problems().size() == 51);
  }
}

}  // namespace tapestry
