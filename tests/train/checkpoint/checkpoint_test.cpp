// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/checkpoint.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "autograd/random.h"
#include "layers/transformer.h"
#include "optim/optimizer.h"
#include "tests/support/contains.h"
#include "tests/train/error_text.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/checkpoint/arithmetic.h"
#include "train/config/config.h"
#include "train/config/load.h"
#include "train/inference/beam_search.h"
#include "train/models/trained_model.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using test::contains;
using test::error_text;

Config small_config() {
  Config config;
  config.data.symbols.num_symbols = 3;
  config.data.symbols.max_length = 4;
  config.model = {.d_model = 8,
                  .num_heads = 2,
                  .num_encoder_layers = 1,
                  .num_decoder_layers = 1,
                  .d_ff = 8,
                  .max_length = 8,
                  .tie_embeddings = TiedEmbeddings::none};
  return config;
}

Vocabulary small_vocabulary() { return Vocabulary(Tokens{"a", "b", "c"}); }

/// A corpus with only the parts that a checkpoint stores.
Corpus small_corpus() {
  Corpus corpus;
  corpus.source_vocabulary = corpus.target_vocabulary = small_vocabulary();
  corpus.fingerprint = 77;
  corpus.files = {
      {.key = "data.train_source", .path = "/anywhere", .bytes = 12, .digest = 0xABCDEF}};
  return corpus;
}

/// All parts of a run; the numbers depend on `seed`.
struct Run {
  explicit Run(std::uint64_t seed, Config chosen = small_config())
      : config(std::move(chosen)),
        model(network_maker(config, {vocabulary.size(), vocabulary.size()}), config.train.dtype,
              seed),
        optimizer(make_optimizer(config.optimizer, model.parameters.list())) {
    for (NamedTensor& named : optimizer->state()) fill(named, RandomStream(seed));
    optimizer->set_steps(seed);
    state.step = 100 * seed;
    state.position = {.epoch = seed, .batch = 2 * seed};
    state.running = {.loss_sum = 0.1 * static_cast<double>(seed), .nll_sum = 0.2, .tokens = seed};
    state.best_value = 1.0 / static_cast<double>(seed);
    state.best_step = 10 * seed;
    state.validations_since_best = seed + 1;
    state.nan_steps = seed + 2;
    state.scheduled_save = seed + 3;
    for (std::uint64_t i = 0; i < 5; ++i)
      state.divergence.add(static_cast<double>(i * seed), 2.0, 3);
    state.history = "step 1: something\n" + std::to_string(seed);
    state.metrics.add({.step = seed});
  }

  static void fill(NamedTensor& named, const RandomStream& random) {
    std::uint64_t counter = 0;
    for (float& value : named.tensor.mutable_values<float>()) {
      value = static_cast<float>(random.named(named.name).uniform(counter++));
    }
  }

  RunParts parts() {
    return {.config = config,
            .corpus = corpus,
            .model = model,
            .optimizer = *optimizer,
            .average = nullptr,
            .state = state};
  }

  ArrayStore snapshot() { return collect_arrays(parts()); }

  Config config;
  Vocabulary vocabulary = small_vocabulary();
  Corpus corpus = small_corpus();
  Model model;
  std::unique_ptr<Optimizer> optimizer;
  TrainingState state;
};

/// A copy with the origin file.h5 in which `array` replaces the array at `path`, or removes it if
/// it is empty.
ArrayStore with(const ArrayStore& snapshot, const std::string& path,
                std::optional<StoredArray> array) {
  ArrayStore copy("file.h5");
  for (const auto& [name, original] : snapshot) {
    if (name != path) copy.put(name, original);
  }
  if (array) copy.put(path, std::move(*array));
  return copy;
}

/// Float32 numbers all equal to `value`.
StoredArray floats(ArrayShape shape, std::size_t count, float value) {
  ArrayStore made;
  made.put<float>("x", std::vector<float>(count, value), std::move(shape));
  return made.at("x");
}

/// The error from restoring a snapshot. Checks that the run does not change.
std::string rejection(const ArrayStore& snapshot) {
  Run other(2);
  const ArrayStore before = other.snapshot();
  const std::string text = error_text<CheckpointError>([&] { restore(snapshot, other.parts()); });
  CHECK(other.snapshot() == before);
  return text;
}

TEST_CASE("a run restored from a snapshot is bit-identical to the original run") {
  Run original(1), copy(2);
  const ArrayStore snapshot = original.snapshot();
  REQUIRE_FALSE(copy.snapshot() == snapshot);
  restore(snapshot, copy.parts());
  CHECK(copy.snapshot() == snapshot);
  CHECK(copy.optimizer->steps() == 1);
  CHECK(copy.state.step == 100);
  CHECK(copy.state.position == BatchPosition{.epoch = 1, .batch = 2});
  CHECK(copy.state.best_step == 10);
  CHECK(copy.state.metrics.csv() == original.state.metrics.csv());
}

TEST_CASE("fields for continuing beyond the end of a run are stored only at its end") {
  Run run(3), copy(2);
  CHECK_FALSE(run.snapshot().contains("train/before_end_sums"));
  CHECK_FALSE(has_pending_validation(run.snapshot()));
  run.state.validation_pending = true;
  run.state.before_end = BeforeEnd{.running = {.loss_sum = 0.5, .nll_sum = 0.25, .tokens = 7},
                                   .best_value = 1.5,
                                   .best_step = 9,
                                   .metrics_begin = run.state.metrics.csv().size(),
                                   .metrics_end = run.state.metrics.csv().size()};
  const ArrayStore snapshot = run.snapshot();
  CHECK(has_pending_validation(snapshot));
  restore(snapshot, copy.parts());
  CHECK(copy.state.validation_pending);
  CHECK(copy.snapshot() == snapshot);
}

TEST_CASE("invalid metrics sizes for continuing beyond the end of a run are rejected") {
  Run run(3);
  const std::uint64_t size = run.state.metrics.csv().size();
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> wrong = {
      {size, size + 1}, {size - 1, size}, {0, size}, {size, size - 1}};
  for (const auto& range : wrong) {
    CAPTURE(range.first);
    CAPTURE(range.second);
    run.state.before_end = BeforeEnd{.metrics_begin = range.first, .metrics_end = range.second};
    CHECK(contains(rejection(run.snapshot()), "train/before_end_counts: found "));
  }
}

TEST_CASE("each number of the state is stored under a separate path") {
  Run run(3);
  run.state.running.tokens = 41;
  run.state.scheduled_save = 52;
  run.optimizer->set_steps(63);
  const ArrayStore snapshot = run.snapshot();
  const std::map<std::string, std::uint64_t> counts = {
      {"train/step", 300},     {"train/epoch", 3},
      {"train/batch", 6},      {"train/running_tokens", 41},
      {"train/best_step", 30}, {"train/validations_since_best", 4},
      {"train/nan_steps", 5},  {"train/scheduled_save", 52},
      {"optimizer/steps", 63}, {"data/fingerprint", 77}};
  for (const auto& count : counts) {
    CAPTURE(count.first);
    CHECK(snapshot.get_scalar<std::uint64_t>(count.first) == count.second);
  }
  CHECK(snapshot.get_scalar<double>("train/running_loss_sum") == 0.1 * 3);
  CHECK(snapshot.get_scalar<double>("train/running_nll_sum") == 0.2);
  CHECK(snapshot.get_scalar<double>("train/best_loss") == 1.0 / 3);
  const DivergenceWatch::State watch = run.state.divergence.state();
  CHECK(std::ranges::equal(snapshot.get<double>("train/divergence", {watch.size()}), watch));
  CHECK(saved_history(snapshot) == "step 1: something\n3");
  CHECK(validations_since_best(snapshot) == 4);
}

TEST_CASE("a run restored before its first validation has no best step") {
  Run original(1), copy(2);
  original.state.best_value = std::numeric_limits<double>::infinity();
  original.state.best_step.reset();
  restore(original.snapshot(), copy.parts());
  CHECK_FALSE(copy.state.best_step.has_value());
  CHECK(std::isinf(copy.state.best_value));
}

TEST_CASE("a snapshot has the step, data, program version, and config without process settings") {
  Run run(3);
  run.config.train.threads = 7;
  run.config.train.run_dir = "runs/here";
  const ArrayStore snapshot = run.snapshot();
  CHECK(saved_step(snapshot) == 300);
  CHECK(data_identity(snapshot).fingerprint == 77);
  CHECK(data_identity(snapshot).files ==
        std::map<std::string, FileDigest>{{"data.train_source", {12, 0xABCDEF}}});
  CHECK(saved_vocabularies(snapshot).source == run.vocabulary);
  CHECK(saved_arithmetic(snapshot) == arithmetic());
  CHECK(snapshot.get_text("program_version") == program_version);
  const Config stored = saved_config(snapshot);
  CHECK(stored.train.threads == 0);
  CHECK(stored.train.run_dir.empty());
  CHECK(dump_config(stored) == dump_config(Run(3).config));
}

TEST_CASE("arrays that do not fit the run are rejected with their path and the expected array") {
  Run run(1), copy(2);
  const ArrayStore snapshot = run.snapshot();
  for (const char* path :
       {"parameters/output.bias", "optimizer/first_moment/output.bias", "optimizer/steps",
        "train/step", "train/running_loss_sum", "train/best_loss", "train/metrics"}) {
    CHECK(contains(rejection(with(snapshot, path, std::nullopt)),
                   std::string("file.h5: ") + path + ": found nothing, expected an array"));
  }
  ArrayStore doubles;
  doubles.put<double>("x", std::vector<double>(7, 0.5), {7});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  struct Case {
    std::string path;
    StoredArray array;
    std::string words;
  };
  for (const auto& [path, array, words] : std::vector<Case>{
           {"parameters/output.bias", floats({5}, 5, 0), "found float32 (5), expected float32 (7)"},
           {"optimizer/second_moment/output.bias", doubles.at("x"), "found float64 (7), expected"},
           {"parameters/output.gain", floats({1}, 1, 0), "found an array that does not belong"},
           {"optimizer/momentum/output.bias", floats({1}, 1, 0),
            "found an array that does not belong"},
           {"parameters/output.bias", floats({7}, 7, nan), "found nan, expected finite numbers"},
           {"optimizer/first_moment/output.bias", floats({7}, 7, -inf), "found -inf, expected"},
           {"optimizer/second_moment/output.bias", floats({7}, 7, -1), "found -1, expected"}}) {
    const auto& shown = path;  // clang 14 cannot capture structured bindings
    CAPTURE(shown);
    CHECK(contains(rejection(with(snapshot, path, array)), "file.h5: " + path + ": " + words));
  }
  CHECK_NOTHROW(restore(with(snapshot, "optimizer/first_moment/output.bias", floats({7}, 7, -1)),
                        copy.parts()));
}

TEST_CASE("invalid texts of a checkpoint are rejected with their path") {
  Run run(1);
  const auto rejection_with = [&](const std::string& path, const std::string& text, auto read) {
    ArrayStore store;
    store.put_text("x", text);
    const ArrayStore snapshot = with(run.snapshot(), path, store.at("x"));
    return error_text<CheckpointError>([&] { read(snapshot); });
  };
  const std::string config = rejection_with("config", "model:\n  d_modl: 8\n", load_model);
  CHECK(contains(config, "file.h5: its config cannot be used: config of the checkpoint:2:3: "));
  CHECK_FALSE(contains(config, "did you mean"));
  CHECK(rejection_with("config", "model:\n  kind: aligned\n  own_key: 8\n", load_model)
            .starts_with("file.h5: model.kind `aligned` is unknown to this program"));
  CHECK(rejection_with("data/source_vocabulary", "<pad>\n<unk>\n<bos>\n<eos>\na\na\n", load_model)
            .starts_with("file.h5: data/source_vocabulary: "));
  for (const std::string line : {"data.train_source", "data.train_source 12", "key 12 xyz",
                                 "key 12 0123456789abcdef more"}) {
    CHECK(contains(rejection_with("data/files", line + "\n", data_identity),
                   "file.h5: data/files: found `" + line + "`, expected key, size and digest"));
  }
}

TEST_CASE("a model loaded from a snapshot decodes like the saved model, without other files") {
  Run run(4);
  const TrainedModel loaded = load_model(run.snapshot());
  CHECK(loaded.step == 400);
  CHECK(loaded.codec.source_vocabulary() == run.vocabulary);
  CHECK(loaded.codec.encode_source("c a") == Sentence{6, 4});
  const std::vector<Sentence> sources{{4, 5, 6}, {6}, {5, 5}};
  const auto outputs = decode(*run.model.network, 8, sources);
  CHECK(decode(*loaded.model->network, 8, sources) == outputs);
}

TEST_CASE("running moments of batch norms are saved and restored when a run is resumed") {
  Config config = test::tiny_config();
  config.model.normalization = Normalization::batch_norm;
  test::TinyRun whole, resumed;
  whole.train(config);
  const std::string variance = "buffers/encoder.norm.running_var";
  const ArrayStore saved = whole.snapshot(test::tiny_steps);
  const auto values = saved.get<float>(variance);
  CHECK(std::ranges::find(values, 1.0F) == values.end());  // all differ from the initial value 1
  config.train.steps = 7;
  resumed.train(config);
  config.train.steps = test::tiny_steps;
  resumed.train(config);
  CHECK(resumed.checkpoint_bytes(test::tiny_steps) == whole.checkpoint_bytes(test::tiny_steps));
}

TEST_CASE("has_other_batches() is true if the batch size in use or the generated data differ") {
  Config before;
  const auto others = [&](auto change) {
    Config now = before;
    change(now);
    return has_other_batches(before, now);
  };
  CHECK_FALSE(others([](Config&) {}));
  CHECK_FALSE(others([](Config& now) { now.train.accumulate = 7; }));
  CHECK(others([](Config& now) { now.train.batch_size = 7; }));
  CHECK(others([](Config& now) { now.train.batch_tokens = 7; }));
  CHECK(others([](Config& now) { now.data.generated.train_size = 7; }));
  before.train.batch_tokens = 7;
  CHECK(others([](Config& now) { now.train.batch_tokens = 0; }));
  CHECK(others([](Config& now) { now.train.batch_tokens = 8; }));
  CHECK_FALSE(others([](Config& now) { now.train.batch_size = 8; }));
}

TEST_CASE("the state of sgd and adamw is restored") {
  for (const OptimizerKind kind : {OptimizerKind::sgd, OptimizerKind::adamw}) {
    Config config = small_config();
    config.optimizer.kind = kind;
    if (kind == OptimizerKind::sgd) config.optimizer.momentum = 0.9;
    Run original(1, config), copy(2, config);
    restore(original.snapshot(), copy.parts());
    CHECK(copy.snapshot() == original.snapshot());
  }
}

}  // namespace
}  // namespace tapestry
