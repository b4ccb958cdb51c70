// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/train/kinds.h"

/// Tests train.initialize_from: runs that begin with the parameters of another run.
namespace tapestry {
namespace {

using test::check_rejected;
using test::check_words;
using test::contains;

/// A workplace with a masked language model in runs/masked, and labelled sentences in the same
/// language.
struct PretrainedWorkplace : test::KindWorkplace {
  PretrainedWorkplace() {
    out("train masked.yaml");
    // `zzz` is not a word of the toy language.
    write("labels.txt", "yes\tle chat dort\nno\tla chat zzz\nyes\tun chien\n");
  }
};

const std::string from_masked = " train.initialize_from=runs/masked ";

TEST_CASE(
    "a classifier keeps the vocabulary of its pretrained model, and can be resumed without this "
    "model") {
  const PretrainedWorkplace work;
  const std::string out = work.out("train classes.yaml" + from_masked);
  CHECK(contains(out, ": loaded 19 of 21 tensors, "));
  CHECK_FALSE(contains(out, "vocabulary of 10, 2 classes"));
  work.out("train classes.yaml train.run_dir=parts train.steps=7" + from_masked);
  std::filesystem::remove_all(work / "runs/masked");
  work.out("train --resume parts train.steps=12");
  CHECK(work.read(work.checkpoint(12, "parts")) == work.read(work.checkpoint(12, "runs/classes")));
  check_words(work.run("evaluate parts --examples 3").out,
              {"\ninput     le chat dort\n", "\ninput     la chat <unk>\n"});
  CHECK(work.run("gradcheck parts --coordinates=1 --directions=1").code == 0);
}

TEST_CASE(
    "a translator builds its target vocabulary from the text if the pretrained model has only "
    "classes") {
  const PretrainedWorkplace work;
  work.out("train classes.yaml");
  work.write("a.txt", "le chat\nun chien\n");
  work.write("b.txt", "the cat\na dog\n");
  work.write("pairs.yaml",
             "data: {task: parallel_text, train_source: a.txt, train_target: b.txt, "
             "validation_source: a.txt, validation_target: b.txt}\n"
             "model: {d_model: 32, num_heads: 2, d_ff: 64, num_encoder_layers: 1, "
             "num_decoder_layers: 1, max_length: 12}\n"
             "train: {steps: 2, batch_size: 2, threads: 1}\n");
  // The classes are `no` and `yes`; both targets have four words, and four special symbols.
  for (const std::string from : {"runs/classes", "runs/masked"}) {
    CHECK(contains(work.out("train pairs.yaml --fresh train.initialize_from=" + from), " and 8\n"));
  }
  // A masked language model predicts words of its source vocabulary, not classes.
  work.write("blanks.yaml",
             "data: {task: text, train_text: text.txt, unit: word, context: 4}\n"
             "model: {kind: masked_language_model, d_model: 32, num_heads: 2, d_ff: 64, "
             "num_encoder_layers: 1, max_length: 12}\n"
             "train: {steps: 2, batch_size: 2, threads: 1}\n");
  CHECK(contains(work.out("train blanks.yaml train.initialize_from=runs/classes"),
                 "vocabulary of 11\n"));
}

TEST_CASE("with a learning rate near 0, a run validates and saves the pretrained weights") {
  const PretrainedWorkplace work;
  // The loss of each validation, then the loss of `evaluate`.
  const auto losses = [&](const std::string& more) {
    work.out(
        "train agreement.yaml --fresh schedule.learning_rate=1e-30 train.steps=6 "
        "train.validate_every=2 train.save_every=2" +
        from_masked + more);
    std::vector<double> found;
    for (const std::string& line : test::split_lines(work.read("runs/agreement/metrics.csv"))) {
      const std::size_t at = line.find(",validation,");
      if (at != line.npos) found.push_back(std::stod(line.substr(at + 12)));
    }
    REQUIRE(found.size() == 3);
    const auto evaluated = nlohmann::json::parse(work.run("evaluate runs/agreement --json").out);
    found.push_back(evaluated.at("validation").at("loss").get<double>());
    return found;
  };
  const double expected = losses("").front();
  for (const char* options : {"", "train.ema_decay=0.9", "train.average_last=3",
                              "train.ema_decay=0.9 train.average_last=2 train.keep_best=2",
                              "train.ema_decay=0.9 train.on_nan=rollback"}) {
    CAPTURE(options);
    for (const double loss : losses(options)) {
      CHECK(loss == doctest::Approx(expected).epsilon(1e-5));
    }
  }
}

TEST_CASE("replay, check and gradcheck begin with the pretrained parameters") {
  const PretrainedWorkplace work;
  work.out("train agreement.yaml train.keep_last=9" + from_masked);
  const test::Outcome replayed = work.run("replay runs/agreement --step 5");
  CHECK(replayed.code == 0);
  CHECK(contains(replayed.err, "from the initial values"));
  CHECK(contains(replayed.out, ", bit for bit\n"));
  CHECK(contains(work.out("gradcheck agreement.yaml --coordinates=1 --directions=1" + from_masked),
                 ", 0 wrong, 0 inconclusive;"));
  const auto looks = [&](const std::string& model) {
    const auto layer =
        nlohmann::json::parse(work.run("attention --json --text 'le chat dort' " + model).out)
            .at("layers")
            .at(0);
    REQUIRE(layer.at("keys").size() == 5);
    std::vector<double> weights;
    for (const auto& row : layer.at("heads").at(0).at("weights")) {
      weights.push_back(row.at(1).get<double>());
    }
    return weights;
  };
  const auto learned = looks("runs/masked");
  const auto begun = looks("agreement.yaml" + from_masked);
  const auto plain = looks("agreement.yaml");
  double farthest = 0.0;
  for (std::size_t i = 0; i < learned.size(); ++i) {
    CHECK(begun[i] == doctest::Approx(learned[i]).epsilon(1e-4));  // compares float64 with float32
    farthest = std::max(farthest, std::abs(plain[i] - learned[i]));
  }
  CHECK(farthest > 0.001);
}

TEST_CASE("a pretrained model that does not fit is rejected before anything is written") {
  const PretrainedWorkplace work;
  work.out("train tiny.yaml train.steps=1");
  const std::string place = "train.initialize_from: " + work.at("runs/masked") + ": ";
  check_rows(
      work,
      {{"train agreement.yaml model.d_model=24 model.d_ff=80" + from_masked,
        2,
        {place + "found no tensor that matches", "d_model, d_ff, layers"}},
       {"train agreement.yaml train.initialize_from=runs/tiny",
        2,
        {work.at("runs/tiny") + ": data.task: the source vocabulary of the task has "}},
       {"train images.yaml" + from_masked, 2, {place + "has a model that reads text, expected"}},
       {"train classes.yaml data.subwords=bpe" + from_masked,
        2,
        {"has a vocabulary of words, expected a vocabulary of subwords"}}});
  std::filesystem::remove_all(work / "runs/masked");
  for (const std::string command : {"train", "check"}) {
    check_rejected(work, command + " agreement.yaml" + from_masked, 2,
                   {place + "found no file or folder, expected a run or a checkpoint"});
  }
}

}  // namespace
}  // namespace tapestry
