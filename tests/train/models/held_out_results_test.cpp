// SPDX-License-Identifier: BSD-3-Clause
#include "train/models/held_out_results.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/tiny_run.h"
#include "train/checkpoint/metrics.h"
#include "train/loop/final_average.h"
#include "train/models/trained_model.h"

namespace tapestry {
namespace {

/// The examples that worst_and_spread() chooses from losses of 0, 1, ..., n - 1.
std::vector<std::size_t> chosen(std::size_t n, std::size_t count) {
  std::vector<ExampleLoss> losses;
  for (std::size_t i = 0; i < n; ++i) {
    losses.push_back({.example = i, .sum = static_cast<double>(i), .labels = 1});
  }
  std::vector<std::size_t> examples;
  for (const ExampleLoss& loss : worst_and_spread(losses, count)) examples.push_back(loss.example);
  return examples;
}

TEST_CASE(
    "half of the shown examples are the worst; the other half is evenly spaced among the rest") {
  CHECK(chosen(100, 6) == std::vector<std::size_t>{99, 98, 97, 96, 64, 32});
  CHECK(chosen(100, 5) == std::vector<std::size_t>{99, 98, 97, 96, 48});
  CHECK(chosen(4, 20) == std::vector<std::size_t>{3, 2, 1, 0});
  CHECK(chosen(4, 1) == std::vector<std::size_t>{3});
  CHECK(chosen(4, 0).empty());
  CHECK(chosen(0, 3).empty());
}

/// Parallel text whose training and validation targets have only the word "ja", and whose test
/// targets also have "no". Within a few steps, a model learns to output "ja".
struct PairsOfText {
  PairsOfText() {
    std::string source_lines, learned_lines, other_lines;
    for (int i = 0; i < 6; ++i) {
      source_lines += i % 2 == 0 ? "ein Hund\n" : "ein Hund hier\n";
      learned_lines += learned.emplace_back("ja ja ja ja") + "\n";
      other_lines += others.emplace_back(i % 2 == 0 ? "no ja no" : "ja ja ja no no") + "\n";
    }
    config.data = {.task = "parallel_text"};
    config.data.pairs.train_source = folder.write("source", source_lines).string();
    config.data.pairs.train_target = folder.write("learned", learned_lines).string();
    config.data.pairs.validation_source = config.data.pairs.test_source = name("source");
    config.data.pairs.validation_target = name("learned");
    config.data.pairs.test_target = folder.write("others", other_lines).string();
    config.model.dropout = 0.0;
    config.train.exact_match_sequences = 100;
    config.train.average_last = 1;
    config.train.best_metric = "chrf";
  }

  std::string name(const char* file) const { return (folder / file).string(); }

  test::TemporaryFolder folder;
  std::vector<std::string> learned, others;  ///< targets of the validation and of the test set
  Config config = test::tiny_config();
};

TEST_CASE("each held-out set is scored against its references, during and after training") {
  const PairsOfText text;
  test::TinyRun run;
  run.train(text.config);
  const TrainedModel trained = load_model(run.snapshot(test::tiny_steps));
  Corpus corpus = load_corpus(text.config.data);
  const std::vector<SetScores> sets = score_held_out_sets(trained, corpus);
  REQUIRE(sets.size() == 2);

  // The scores equal direct calls of the metrics.
  const TaskAnswers& answers = find_task(text.config).answers();
  for (const SetScores& set : sets) {
    CAPTURE(set.name);
    const bool is_test = set.name == "test";
    const std::vector<std::string> outputs =
        answers.answer(trained, is_test ? corpus.test : corpus.validation);
    const std::vector<std::string>& references = is_test ? text.others : text.learned;
    CHECK(set.scores.others.at("bleu") == Bleu().corpus_score(outputs, {references}));
    CHECK(set.scores.others.at("chrf") == Chrf().corpus_score(outputs, {references}));
  }
  const double chrf = sets[0].scores.others.at("chrf");
  REQUIRE(chrf > 0.0);
  CHECK(sets[0].name == "validation");
  CHECK(sets[1].scores.others.at("chrf") != chrf);

  // The last validation, and the average of the last checkpoint, have the same scores.
  const std::vector<std::byte> bytes = run.metrics();
  const std::string csv(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  for (const char* score : {"loss", "bleu", "chrf"}) {
    CAPTURE(score);
    CHECK(score_value(sets[0].scores, score) ==
          doctest::Approx(validation_values(csv, score).at(test::tiny_steps)).epsilon(1e-4));
  }
  write_final_average(run.directory(), text.config, corpus, test::tiny_steps, run.progress());
  const auto average = read_checkpoint(run.directory().average_path());
  CHECK(average.get_scalar<double>("train/best_loss") == chrf);

  // Equal sets have equal scores.
  corpus.test = corpus.validation;
  corpus.test_lines = corpus.validation_lines;
  const std::vector<SetScores> equal = score_held_out_sets(trained, corpus);
  CHECK(equal[1].scores.others == equal[0].scores.others);
  CHECK(equal[1].scores.loss == equal[0].scores.loss);
}

}  // namespace
}  // namespace tapestry
