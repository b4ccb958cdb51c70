// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "data/metrics/bleu.h"
#include "tests/support/contains.h"
#include "tests/train/wiring/finished_runs.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/inference/beam_search.h"
#include "train/models/trained_model.h"
#include "train/tasks/data_source.h"

/// Tests the keys train.exact_match_sequences and train.max_decode_length in validation and in
/// `evaluate`, with a model that translates some sentences correctly.
namespace tapestry {
namespace {

using namespace test;

const TaskCase copying{"seq2seq", "copy"};

/// A run of a model that copies most sequences. When it is resumed, its learning rate is too small
/// to change a weight.
struct DecodingWorkplace : TaskWorkplace {
  DecodingWorkplace() {
    corpus = load_corpus(config(copying, options).data);
    const Finished run = train(*this, copying, options);
    REQUIRE(run.outcome.code == 0);
    trained = load_model(run.checkpoints.rbegin()->second);
    first = exact_match_in(run);
  }

  /// Resumes the run for one step with `override` and returns the exact match of its validation.
  std::string next(const std::string& override) {
    const std::string run_dir = "runs/" + copying.name();
    const Finished run_on =
        finished(*this, run_dir,
                 run({"train", "--resume", run_dir, override,
                      fmt::format("train.steps={}", ++steps), "train.validate_every=1",
                      "schedule.learning_rate=1e-30", "--allow-change", "schedule.learning_rate"}));
    CHECK(run_on.outcome.code == 0);
    return exact_match_in(run_on);
  }

  std::string newest() const {
    return fmt::format("runs/{}/checkpoints/step-{:08}.h5", copying.name(), steps);
  }

  /// The fraction of `wanted` evenly spaced examples that greedy decoding translates correctly.
  double exact_match(const std::vector<Example>& examples, std::size_t wanted,
                     std::size_t max_length) const {
    const std::size_t count = std::min(wanted, examples.size());
    std::vector<Sentence> sources, targets;
    for (std::size_t i = 0; i < count; ++i) {
      const Example& pair = examples[i * examples.size() / count];
      sources.push_back(pair.source);
      targets.push_back(pair.target);
    }
    const auto outputs = decode(*trained->model->network, trained->config.model.max_length, sources,
                                {.max_length = max_length});
    std::size_t right = 0;
    for (std::size_t i = 0; i < count; ++i) right += outputs[i] == targets[i] ? 1 : 0;
    return static_cast<double>(right) / static_cast<double>(count);
  }

  const std::vector<std::string> options = {"train.steps=160",
                                            "train.log_every=1000",
                                            "train.validate_every=160",
                                            "train.save_every=160",
                                            "train.accumulate=1",
                                            "train.batch_size=32",
                                            "data.train_size=400",
                                            "data.num_symbols=6",
                                            "data.validation_size=20",
                                            "data.test_size=15",
                                            "model.d_model=16",
                                            "model.dropout=0",
                                            "data.min_length=1",
                                            "train.label_smoothing=0",
                                            "schedule.learning_rate=0.02",
                                            "train.exact_match_sequences=20"};
  std::size_t steps = 160;
  Corpus corpus;
  std::optional<TrainedModel> trained;
  std::string first;

 private:
  static std::string exact_match_in(const Finished& run) {
    return rows_in(run, "validation").back().at("exact_match");
  }
};

TEST_CASE("exact match uses the configured number of sequences and maximum length") {
  DecodingWorkplace work;
  const auto& held_out = work.corpus.validation;
  const double all = work.exact_match(held_out, 20, 0), few = work.exact_match(held_out, 7, 0),
               brief = work.exact_match(held_out, 20, 2);
  REQUIRE(all > 0.2);
  REQUIRE(few != all);
  REQUIRE(brief > 0.0);
  REQUIRE(brief < all);
  CHECK(std::stod(work.first) == all);
  CHECK(std::stod(work.next("train.exact_match_sequences=7")) == few);
  CHECK(work.next("train.exact_match_sequences=0").empty());
  CHECK(std::stod(work.next("train.exact_match_sequences=1000")) == all);
  CHECK(std::stod(work.next("train.max_decode_length=2")) == brief);
  // `evaluate`, which decodes all sequences, and `translate` use the limit in the checkpoint.
  const double percent = 100 * work.exact_match(work.corpus.test, 1000, 2);
  CHECK(contains(work.run({"evaluate", work.newest()}).out,
                 fmt::format("exact match {:.2f} %", percent)));
  const Outcome brief_line = work.run({"translate", work.newest()}, "a b c d\n");
  CHECK(std::ranges::count(brief_line.out, ' ') == 1);
}

TEST_CASE("translate and evaluate use the beam size of the config unless an option sets it") {
  DecodingWorkplace work;
  const TrainedModel& trained = *work.trained;
  std::vector<Sentence> sources;
  std::string lines;
  for (const Example& pair : work.corpus.test) {
    sources.push_back(pair.source);
    lines += trained.codec.decode_source(pair.source) + "\n";
  }
  const auto answers = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"translate", work.newest()});
    return work.run(options, lines).out;
  };
  const auto expected = [&](const SearchOptions& options) {
    std::string text;
    for (const Sentence& output :
         decode(*trained.model->network, trained.config.model.max_length, sources, options)) {
      text += trained.codec.decode_target(output) + "\n";
    }
    return text;
  };
  const SearchOptions lengthy{.beam_size = 4, .length_penalty = 50};
  REQUIRE(expected(lengthy) != expected({}));
  REQUIRE(expected(lengthy) != expected({.beam_size = 4}));
  CHECK(answers({}) == expected({}));
  CHECK(answers({"--beam-size", "4", "--length-penalty", "0"}) == expected({.beam_size = 4}));
  CHECK(answers({"--beam-size", "4"}) == expected({.beam_size = 4, .length_penalty = 0.6}));
  CHECK(answers({"--beam-size", "4", "--length-penalty", "50"}) == expected(lengthy));

  std::string references;
  for (const Example& pair : work.corpus.test) {
    references += trained.codec.decode_target(pair.target) + "\n";
  }
  const auto split_lines = [](const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> all;
    for (std::string line; std::getline(stream, line);) all.push_back(line);
    return all;
  };
  const auto bleu = [&](const SearchOptions& options) {
    const auto hypotheses = split_lines(expected(options));
    return Bleu().corpus_score(hypotheses, {split_lines(references)});
  };
  REQUIRE(bleu(lengthy) != bleu({}));
  const Outcome scores =
      work.run({"evaluate", work.newest(), "decoding.beam_size=4", "decoding.length_penalty=50"});
  CHECK(contains(scores.out, fmt::format("BLEU {:.2f}", bleu(lengthy))));
}

}  // namespace
}  // namespace tapestry
