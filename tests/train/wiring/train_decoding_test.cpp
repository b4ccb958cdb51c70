#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "data/metrics/bleu.h"
#include "tests/support/contains.h"
#include "tests/train/wiring/train_finished.h"
#include "tests/train/wiring/train_replay.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/inference/beam_search.h"
#include "train/models/trained_model.h"
#include "train/tasks/data_source.h"

/// The exact-match score of a model that translates some sentences rightly: the keys
/// train.exact_match_sequences and train.max_decode_length, in validation and in `evaluate`.
namespace tapestry {
namespace {

using namespace test;

const TaskCase copying{"seq2seq", "copy"};

/// A run of a model that copies most sequences; it goes on at a rate that changes no weight.
struct DecodingWorkplace : TaskWorkplace {
  DecodingWorkplace() {
    config_of_run = config(copying, options);
    corpus = load_corpus(config_of_run.data);
    const Finished run = train(*this, copying, options);
    REQUIRE(run.outcome.code == 0);
    weights = weights_in(run.checkpoints.rbegin()->second);
    first = parse_metrics(run.metrics).back();
  }

  /// The last validation of the run, one step later.
  MetricsRow next(const std::string& override) {
    const std::string run_dir = "runs/" + copying.name();
    const Outcome done =
        run({"train", "--resume", run_dir, override, fmt::format("train.steps={}", ++steps),
             "train.validate_every=1", "schedule.learning_rate=1e-30", "--allow-change",
             "schedule.learning_rate"});
    CHECK(done.code == 0);
    return parse_metrics(read_text(*this / (run_dir + "/metrics.csv"))).back();
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
  Config config_of_run;
  Corpus corpus;
  Values weights;
  MetricsRow first;
};

TEST_CASE("exact match counts the sequences and tokens of its keys") {
  DecodingWorkplace work;
  const auto expected = [&](std::size_t sequences, std::size_t longest,
                            const std::vector<Example>& examples) {
    Config config = work.config_of_run;
    config.train.max_decode_length = longest;
    return scores_of(config, work.corpus, work.weights, examples, sequences);
  };
  const auto& held_out = work.corpus.validation;
  const double all = *expected(20, 0, held_out).exact_match;
  REQUIRE(all > 0.2);
  CHECK(work.first.exact_match == all);
  const double few = *expected(7, 0, held_out).exact_match;
  const double brief = *expected(20, 2, held_out).exact_match;
  REQUIRE(few != all);
  REQUIRE(brief > 0.0);
  REQUIRE(brief < all);
  CHECK(work.next("train.exact_match_sequences=7").exact_match == few);
  CHECK_FALSE(work.next("train.exact_match_sequences=0").exact_match.has_value());
  CHECK(work.next("train.exact_match_sequences=1000").exact_match == all);
  CHECK(work.next("train.max_decode_length=2").exact_match == brief);

  // The checkpoint keeps its limit: evaluate, which decodes everything, and translate know it.
  const std::string newest =
      fmt::format("runs/{}/checkpoints/step-{:08}.h5", copying.name(), work.steps);
  const Outcome scores = work.run({"evaluate", newest});
  for (const std::vector<Example>* examples : {&held_out, &std::as_const(work.corpus).test}) {
    const MetricsRow row = expected(1000, 2, *examples);
    const std::string line = fmt::format(" {} held-out pairs: {}\n", examples->size(),
                                         printed_scores(work.config_of_run, row));
    CHECK_MESSAGE(contains(scores.out, line), line, scores.out);
  }
  const Outcome brief_line = work.run({"translate", newest}, "a b c d\n");
  CHECK(brief_line.code == 0);
  CHECK(std::ranges::count(brief_line.out, ' ') == 1);
}

TEST_CASE("translate and evaluate use the beam of their options or of the config") {
  DecodingWorkplace work;
  const std::string checkpoint =
      fmt::format("runs/{}/checkpoints/step-00000160.h5", copying.name());
  const TrainedModel trained = load_model(read_checkpoint(work / checkpoint));
  const std::vector<Example>& pairs = work.corpus.test;
  std::string lines;
  for (const Example& pair : pairs) lines += trained.codec.decode_source(pair.source) + "\n";
  const auto answers = [&](std::vector<std::string> options) {
    options.insert(options.begin(), {"translate", checkpoint});
    const Outcome done = work.run(options, lines);
    CHECK(done.code == 0);
    return done.out;
  };
  const auto expected = [&](const SearchOptions& options) {
    std::vector<Sentence> sources;
    for (const Example& pair : pairs) sources.push_back(pair.source);
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
  CHECK(work.run({"translate", checkpoint, "--beam-size", "0"}, lines).code == 2);
  CHECK(work.run({"translate", checkpoint, "--length-penalty", "-1"}, lines).code == 2);

  const Outcome scores =
      work.run({"evaluate", checkpoint, "decoding.beam_size=4", "decoding.length_penalty=50"});
  std::string references;
  for (const Example& pair : pairs) references += trained.codec.decode_target(pair.target) + "\n";
  const auto split_lines = [](const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> all;
    for (std::string line; std::getline(stream, line);) all.push_back(line);
    return all;
  };
  const double bleu =
      Bleu().corpus_score(split_lines(expected(lengthy)), {split_lines(references)});
  REQUIRE(bleu != Bleu().corpus_score(split_lines(expected({})), {split_lines(references)}));
  CHECK(contains(scores.out, fmt::format("BLEU {:.2f}", bleu)));
  const Outcome unknown = work.run({"evaluate", checkpoint, "decoding.beam_sise=4"});
  CHECK(unknown.code == 2);
  CHECK(contains(unknown.err, "hint: did you mean `beam_size`?"));
}

}  // namespace
}  // namespace tapestry
