#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"

/// `tapestry config`.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;

/// A folder with a config and data of each kind.
struct ConfigWorkplace : test::KindWorkplace {
  ConfigWorkplace() { write("tiny.yaml", test::tiny_yaml); }
};

TEST_CASE("config explain prints a config that trains to the same checkpoint") {
  const ConfigWorkplace work;
  const Outcome explained = work.run({"config", "explain", "tiny.yaml", "train.run_dir=runs/tiny"});
  REQUIRE(explained.code == 0);
  CHECK(contains(explained.out, "# tiny.yaml:"));
  CHECK(contains(explained.out, "# command line; default \"\""));
  work.write("all.yaml", explained.out);
  const Outcome same = work.run({"config", "diff", "tiny.yaml", "all.yaml"});
  CHECK(same.code == 0);
  CHECK(contains(same.out, "no key differs"));
  const Outcome json = work.run({"config", "explain", "tiny.yaml", "--json"});
  REQUIRE(json.code == 0);
  CHECK(nlohmann::json::parse(json.out).size() > 100);
}

TEST_CASE("config diff compares files, runs and checkpoints") {
  const ConfigWorkplace work;
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=runs/a"}).code == 0);
  REQUIRE(work.run({"train", "tiny.yaml", "train.run_dir=runs/b", "train.seed=7"}).code == 0);
  const Outcome runs = work.run({"config", "diff", "runs/a", "runs/b"});
  CHECK(runs.code == 0);
  CHECK(contains(runs.out, "  runs/b\n"));
  CHECK(contains(runs.out, "train.seed"));
  CHECK(contains(runs.out, "  7\n"));
  const Outcome json = work.run({"config", "diff", "tiny.yaml", "runs/b", "--json"});
  REQUIRE(json.code == 0);
  CHECK(contains(json.out, "\"key\": \"train.seed\",\n    \"a\": \"1\",\n    \"b\": \"7\""));
  CHECK(work.run({"config", "diff", "tiny.yaml"}).code == 2);
  CHECK(work.run({"config", "diff", "tiny.yaml", "runs/none.h5"}).code == 4);
}

TEST_CASE("config new asks what the task needs and writes a config that trains") {
  const ConfigWorkplace work;
  const std::string answers = "4\nmissing.txt\nlabels.txt\nlabels.txt\n\nhuge\nsmall\n0\n2\n";
  const Outcome made = work.run({"config", "new", "mine.yaml"}, answers);
  CHECK(made.code == 0);
  CHECK(contains(made.err, "missing.txt is not a file that can be read"));
  CHECK(contains(made.err, "expected small, medium, large, found \"huge\""));
  CHECK(contains(made.err, "expected a whole number from 1 to"));
  const std::string config = test::read_text(work / "mine.yaml");
  CHECK(contains(config, "\n  train_text: \"labels.txt\" "));
  CHECK(contains(config, "\n  steps: 2 "));
  CHECK(work.run({"train", "mine.yaml"}).code == 0);

  const Outcome spaced = work.run({"config", "new", "my own.yaml"}, answers);
  CHECK(contains(spaced.out, "tapestry train 'my own.yaml' --dry-run\n"));

  const Outcome again = work.run({"config", "new", "mine.yaml"}, answers);
  CHECK(again.code == 2);
  CHECK(contains(again.err, "mine.yaml exists"));
  CHECK(test::read_text(work / "mine.yaml") == config);

  const Outcome ended = work.run({"config", "new", "other.yaml"}, "4\nlabels.txt\n");
  CHECK(ended.code == 2);
  CHECK(contains(ended.err, "the answers end before the question \"Validation text\""));
  CHECK_FALSE(std::filesystem::exists(work / "other.yaml"));
}

TEST_CASE("config new sets the layers of the stacks that the model has") {
  const ConfigWorkplace work;
  const auto made = [&](const std::string& task, const std::string& kind) {
    const std::string file = kind + ".new.yaml";
    const Outcome outcome = work.run({"config", "new", file}, task + "\ntext.txt\n\nsmall\n2\n");
    CHECK(outcome.code == 0);
    const std::string config = test::read_text(work / file);
    CHECK(contains(config, "\n  kind: " + kind + " "));
    return config;
  };
  const std::string left_to_right = made("2", "language_model");
  CHECK(contains(left_to_right, "\n  num_decoder_layers: 3 "));
  CHECK_FALSE(contains(left_to_right, "num_encoder_layers"));
  const std::string masked = made("3", "masked_language_model");
  CHECK(contains(masked, "\n  num_encoder_layers: 3 "));
  CHECK_FALSE(contains(masked, "num_decoder_layers"));
}

TEST_CASE("config schema prints JSON") {
  const ConfigWorkplace work;
  const Outcome schema = work.run({"config", "schema"});
  CHECK(schema.code == 0);
  CHECK(nlohmann::json::parse(schema.out)["properties"].contains("schedule"));
  CHECK(work.run({"config", "schema", "extra"}).code == 2);
}

}  // namespace
}  // namespace tapestry
