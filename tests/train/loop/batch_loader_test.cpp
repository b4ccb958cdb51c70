// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/batch_loader.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "tests/train/tiny_run.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using test::tiny_config;

/// Prepares every step in advance.
constexpr std::chrono::nanoseconds always{0};

/// The content of the batches of a step, and the position after them.
std::string to_text(const StepBatches& step) {
  std::string text;
  for (const Batch& batch : step.batches) {
    for (const std::size_t example : batch.examples) text += std::to_string(example) + " ";
    for (const std::int32_t id : batch.input) text += std::to_string(id) + ",";
    for (const std::int32_t id : batch.source) text += std::to_string(id) + ",";
    text += "|";
  }
  return text + std::to_string(step.next.epoch) + ":" + std::to_string(step.next.batch);
}

/// Masked sentences, whose content depends on the epoch.
Config masked_config() {
  Config config = tiny_config();
  config.model_kind = "masked_language_model";
  config.data.task = "toy_sentences";
  config.model.max_length = 30;
  return config;
}

TEST_CASE("prefetched steps are bit-identical to steps prepared on demand") {
  for (const Config& config : {tiny_config(), masked_config()}) {
    const Corpus corpus = load_corpus(config.data);
    BatchLoader ahead(corpus, config, always), now(corpus, config);
    BatchPosition position;
    for (int step = 0; step < 40; ++step) {
      CAPTURE(step);
      const StepBatches expected = now.take(position, false);
      CHECK(expected.batches.size() == config.train.accumulate);
      CHECK(to_text(ahead.take(position, true)) == to_text(expected));
      position = expected.next;
    }
    CHECK(position.epoch > 9);
  }
}

TEST_CASE("batches at any position can be requested, regardless of the prepared step") {
  const Config config = masked_config();
  const Corpus corpus = load_corpus(config.data);
  BatchLoader ahead(corpus, config, always), now(corpus, config);
  for (const BatchPosition position :
       {BatchPosition{0, 1}, BatchPosition{0, 1}, BatchPosition{3, 0}, BatchPosition{3, 4},
        BatchPosition{0, 0}, BatchPosition{3, 2}}) {
    CAPTURE(position.epoch);
    CHECK(to_text(ahead.take(position, true)) == to_text(now.take(position, false)));
  }
}

TEST_CASE("an epoch can be measured while batches of another epoch are prepared") {
  const Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  BatchLoader loader(corpus, config, always);
  for (std::uint64_t epoch = 0; epoch < 20; ++epoch) {
    loader.take({epoch, 0}, true);
    const BatchStatistics sizes = loader.measure(epoch + 1);
    CHECK(sizes.batches == loader.batches_per_epoch());
    CHECK(sizes.examples == corpus.train.size());
  }
}

TEST_CASE(
    "cancellation immediately stops a loader on either thread, and the loader remains usable") {
  Config config = masked_config();
  config.train.accumulate = 300;
  const Corpus corpus = load_corpus(config.data);
  BatchLoader loader(corpus, config, always);
  const std::string expected = to_text(BatchLoader(corpus, config).take({2, 1}, false));
  for (int attempt = 0; attempt < 20; ++attempt) {
    loader.take({0, 0}, true);
    const std::atomic<bool> ended = true;
    const kernels::CancellationScope scope(&ended);
    CHECK_THROWS_AS(loader.take({2, 1}, true), kernels::Cancelled);
  }
  CHECK(to_text(loader.take({2, 1}, true)) == expected);
}

TEST_CASE("destroying a loader abandons the step that it prepares") {
  Config config = masked_config();
  const Corpus corpus = load_corpus(config.data);
  for (int attempt = 0; attempt < 20; ++attempt) {
    config.train.accumulate = 2;
    BatchLoader(corpus, config, always).take({0, 0}, true);
  }
}

TEST_CASE("a loader uses a background thread if a step takes long to prepare") {
  Config config = masked_config();
  config.train.accumulate = 2;
  const Corpus corpus = load_corpus(config.data);
  using namespace std::chrono_literals;
  BatchLoader quick(corpus, config, 1h);
  quick.take({0, 0}, true);
  std::this_thread::sleep_for(20ms);
  CHECK_FALSE(quick.is_ready());
  config.train.accumulate = 2000;
  BatchLoader slow(corpus, config);
  slow.take({0, 0}, true);
  while (!slow.is_ready()) std::this_thread::yield();  // times out if the thread is not used
}

TEST_CASE("a step is prepared in the background, and its error is thrown to the caller") {
  const Config config = tiny_config();
  Corpus corpus = load_corpus(config.data);
  BatchLoader loader(corpus, config, always), now(corpus, config);
  const BatchPosition second = now.take({0, 0}, false).next;
  const StepBatches expected = now.take(second, false);
  const std::string third = to_text(now.take(expected.next, false));
  for (int attempt = 0; attempt < 20; ++attempt) {
    loader.take({0, 0}, true);
    while (!loader.is_ready()) std::this_thread::yield();
    std::vector<Example> none;
    none.swap(corpus.train);  // the second step is already prepared, the third cannot be
    CHECK(to_text(loader.take(second, true)) == to_text(expected));
    CHECK_THROWS_AS(loader.take(expected.next, true), std::out_of_range);
    none.swap(corpus.train);
    CHECK(to_text(loader.take(expected.next, true)) == third);
  }
}

}  // namespace
}  // namespace tapestry
