#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/train/kind_configs.h"
#include "tests/train/refusal.h"

/// Runs that begin with the parameters of another: train.initialize_from.
namespace tapestry {
namespace {

using test::Arguments;
using test::check_refusal;
using test::contains;
using test::KindWorkplace;
using test::Outcome;
using test::read_text;

/// A workplace with a masked language model in runs/masked.
struct PretrainedWorkplace : KindWorkplace {
  PretrainedWorkplace() { CHECK(run({"train", "masked.yaml"}).code == 0); }
};

const std::string from_masked = "train.initialize_from=runs/masked";

TEST_CASE("a classifier initialized from a masked language model prints what was loaded") {
  const PretrainedWorkplace work;
  const Outcome done = work.run({"train", "agreement.yaml", from_masked});
  CHECK(done.code == 0);
  CHECK(done.err.empty());
  CHECK(contains(done.out, "runs/masked, step "));
  CHECK(contains(done.out,
                 ": 19 of 21 tensors loaded, 99.5 % of the values\n"
                 "  new: 2 tensors: head.weight (2, 32), head.bias (2)\n"
                 "  left: 2 tensors: output.weight ("));
  CHECK(work.run({"train", "agreement.yaml", "train.run_dir=scratch"}).code == 0);
  CHECK(read_text(work / "scratch/metrics.csv") != read_text(work / "runs/agreement/metrics.csv"));
}

TEST_CASE("a classifier of text keeps the vocabulary of its pretrained model") {
  const PretrainedWorkplace work;
  work.write("labels.txt", "yes\tle chat dort\nno\tla chat zzz\nyes\tun chien\n");
  const Outcome done = work.run({"train", "classes.yaml", from_masked});
  CHECK(done.code == 0);
  CHECK(contains(done.out, ": 19 of 21 tensors loaded, "));
  CHECK_FALSE(contains(done.out, "vocabulary of 10, 2 classes"));
  // `zzz` is no word of the toy language.
  const Outcome scores = work.run({"evaluate", "runs/classes", "--examples", "3"});
  CHECK(scores.code == 0);
  CHECK(contains(scores.out, "\ninput     le chat dort\n"));
  CHECK(contains(scores.out, "\ninput     la chat <unk>\n"));
}

TEST_CASE("a resumed run does not need its pretrained model, and has the same bytes") {
  const PretrainedWorkplace work;
  work.write("labels.txt", "yes\tle chat dort\nno\tla chat zzz\nyes\tun chien\n");
  CHECK(work.run({"train", "classes.yaml", from_masked}).code == 0);
  CHECK(work.run({"train", "classes.yaml", from_masked, "train.run_dir=parts", "train.steps=7"})
            .code == 0);
  std::filesystem::remove_all(work / "runs/masked");
  CHECK(work.run({"train", "--resume", "parts", "train.steps=12"}).code == 0);
  const std::string end = "/checkpoints/step-00000012.h5";
  CHECK(read_text(work / ("parts" + end)) == read_text(work / ("runs/classes" + end)));
  CHECK(work.run({"evaluate", "parts"}).code == 0);
  CHECK(work.run({"gradcheck", "parts", "--coordinates=1", "--directions=1"}).code == 0);
}

TEST_CASE("all weights that a run chooses among are the pretrained ones while it does not move") {
  const PretrainedWorkplace work;
  // The loss of each validation, and of the evaluation afterwards.
  const auto losses = [&](const Arguments& more) {
    Arguments arguments = {"train",
                           "agreement.yaml",
                           from_masked,
                           "schedule.learning_rate=1e-30",
                           "train.steps=6",
                           "train.validate_every=2",
                           "train.save_every=2"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    REQUIRE(work.run(arguments).code == 0);
    std::vector<double> found;
    std::istringstream table(read_text(work / "runs/agreement/metrics.csv"));
    for (std::string line; std::getline(table, line);) {
      const std::size_t at = line.find(",validation,");
      if (at != line.npos) found.push_back(std::stod(line.substr(at + 12)));
    }
    REQUIRE(found.size() == 3);
    const auto evaluated =
        nlohmann::json::parse(work.run({"evaluate", "runs/agreement", "--json"}).out);
    found.push_back(evaluated.at("validation").at("loss").get<double>());
    return found;
  };
  const double expected = losses({}).front();
  for (const Arguments& options :
       {Arguments{},
        Arguments{"train.ema_decay=0.9"},
        {"train.average_last=3"},
        {"train.ema_decay=0.9", "train.average_last=2", "train.keep_best=2"},
        {"train.ema_decay=0.9", "train.on_nan=rollback"}}) {
    Arguments fresh = options;
    fresh.emplace_back("--fresh");
    for (const double loss : losses(fresh)) CHECK(loss == doctest::Approx(expected).epsilon(1e-5));
  }
}

TEST_CASE("a replay from the initial values begins with the pretrained parameters") {
  const PretrainedWorkplace work;
  REQUIRE(work.run({"train", "agreement.yaml", from_masked, "train.keep_last=9"}).code == 0);
  const Outcome done = work.run({"replay", "runs/agreement", "--step", "5"});
  CHECK(done.code == 0);
  CHECK(contains(done.err, "from the initial values"));
  CHECK(contains(done.out, ", bit by bit\n"));
}

TEST_CASE("check and gradcheck use the pretrained parameters") {
  const PretrainedWorkplace work;
  const Outcome done =
      work.run({"gradcheck", "agreement.yaml", from_masked, "--coordinates=1", "--directions=1"});
  CHECK(done.code == 0);
  CHECK(contains(done.out, ", 0 wrong, 0 inconclusive;"));
  const auto looks = [&](const Arguments& model) {
    Arguments arguments{"attention", "--json", "--text", "le chat dort"};
    arguments.insert(arguments.end(), model.begin(), model.end());
    const auto layer = nlohmann::json::parse(work.run(arguments).out).at("layers").at(0);
    REQUIRE(layer.at("keys").size() == 5);
    std::vector<double> weights;
    for (const auto& row : layer.at("heads").at(0).at("weights")) {
      weights.push_back(row.at(1).get<double>());
    }
    return weights;
  };
  const auto learned = looks({"runs/masked"});
  const auto begun = looks({"agreement.yaml", from_masked});
  const auto plain = looks({"agreement.yaml"});
  double farthest = 0.0;
  for (std::size_t i = 0; i < learned.size(); ++i) {
    CHECK(begun[i] == doctest::Approx(learned[i]).epsilon(1e-4));  // float64 and float32
    farthest = std::max(farthest, std::abs(plain[i] - learned[i]));
  }
  CHECK(farthest > 0.001);
}

TEST_CASE("a pretrained model without matching tensors is refused before anything is written") {
  const PretrainedWorkplace work;
  const auto before = work.contents();
  const Outcome refused =
      work.run({"train", "agreement.yaml", from_masked, "model.d_model=24", "model.d_ff=80"});
  CHECK(refused.code == 2);
  CHECK(refused.out.empty());
  CHECK(refused.err ==
        "tapestry: error: train.initialize_from: " + (work / "runs/masked").string() +
            ": found no tensor with the name and shape of one of the model\n"
            "hint: name a run with the model's sizes (d_model, d_ff, layers), or leave the key "
            "out\n");
  CHECK(work.contents() == before);
}

TEST_CASE("a generated task with another vocabulary than the pretrained model's is refused") {
  const PretrainedWorkplace work;
  work.write("tiny.yaml", test::tiny_yaml);
  CHECK(work.run({"train", "tiny.yaml", "train.steps=1"}).code == 0);
  const auto before = work.contents();
  const Outcome refused = work.run({"train", "agreement.yaml", "train.initialize_from=runs/tiny"});
  CHECK(refused.code == 2);
  CHECK(refused.err.starts_with(
      "tapestry: error: train.initialize_from: " + (work / "runs/tiny").string() +
      ": data.task: the source vocabulary of the task has "));
  CHECK(work.contents() == before);
}

TEST_CASE("a pretrained model of images is refused for text") {
  const PretrainedWorkplace work;
  check_refusal(work, {"train", "images.yaml", from_masked}, 2,
                "train.initialize_from: " + (work / "runs/masked").string() +
                    ": is a model of text, expected a model of images\n"
                    "hint: name another run, or leave the key out");
}

TEST_CASE("a missing pretrained run is refused before anything is written") {
  const KindWorkplace work;
  for (const char* command : {"train", "check"}) {
    check_refusal(work, {command, "agreement.yaml", from_masked}, 2,
                  "train.initialize_from: " + (work / "runs/masked").string() +
                      ": found no file or folder, expected a run or a checkpoint\n"
                      "hint: name a run directory or a checkpoint; a relative path starts at the "
                      "folder of the config file, on the command line at the working folder");
  }
}

}  // namespace
}  // namespace tapestry
