// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "tests/train/inference/random_model.h"
#include "tests/train/parallel/local_network.h"
#include "train/inference/evaluator.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

/// Pairs of different lengths with the words 4 to 9.
std::vector<Example> pairs_of_words() {
  std::vector<Example> pairs;
  for (std::int32_t i = 0; i < 13; ++i) {
    Example pair;
    for (std::int32_t k = 0; k <= i % 4; ++k) {
      pair.source.push_back(4 + (i + k) % 6);
      pair.target.push_back(4 + (2 * i + k) % 6);
    }
    pairs.push_back(pair);
  }
  return pairs;
}

/// The number of bytes that each process passes to all_gather().
using Sizes = std::vector<std::size_t>;

/// Evaluates in several processes. Returns the number of result bytes of each process.
Sizes evaluate_in_processes(std::size_t processes,
                            const std::function<void(const WorkShare& share)>& evaluate) {
  Sizes sizes(processes);
  test::run_processes(processes, [&](ProcessGroup& group) {
    evaluate({.index = group.rank(),
              .count = group.size(),
              .all_gather = [&](const std::function<std::string()>& work) {
                return group.all_gather([&] {
                  std::string result = work();
                  sizes[group.rank()] += result.size();
                  return result;
                });
              }});
  });
  return sizes;
}

/// Scores and predictions of a model on the pairs.
struct Evaluation {
  Scores scores;
  std::vector<std::int32_t> predictions;
};

bool operator==(const Evaluation& a, const Evaluation& b) {
  return a.scores.loss == b.scores.loss && a.scores.tokens == b.scores.tokens &&
         a.scores.token_accuracy == b.scores.token_accuracy && a.predictions == b.predictions;
}

Evaluation evaluate_labels(const Model& model, const WorkShare& share) {
  Evaluation result;
  const auto take = [&](const Batch&, std::span<const std::int32_t> predictions) {
    result.predictions.insert(result.predictions.end(), predictions.begin(), predictions.end());
  };
  result.scores = score_labels(model, pairs_of_words(), 2, {}, take, share);
  return result;
}

TEST_CASE("scores and predictions are bit-identical for any number of processes") {
  const Model model = test::random_model(1);
  const Evaluation one = evaluate_labels(model, {});
  CHECK(one.predictions.size() > 13);
  for (const std::size_t processes : {1, 2, 3, 5, 9}) {  // there are seven batches
    std::mutex mutex;
    std::size_t right = 0;
    evaluate_in_processes(processes, [&](const WorkShare& share) {
      const Evaluation own = evaluate_labels(model, share);
      const std::lock_guard lock(mutex);
      right += own == one ? 1 : 0;
    });
    CHECK_MESSAGE(right == processes, processes);
  }
}

TEST_CASE("each process scores only its share of the batches") {
  const Model model = test::random_model(1);
  const Sizes sizes = evaluate_in_processes(
      3, [&](const WorkShare& share) { score_labels(model, pairs_of_words(), 2, {}, {}, share); });
  const std::size_t of_a_batch = sizes[2] / 2;
  CHECK(sizes == Sizes{3 * of_a_batch, 2 * of_a_batch, 2 * of_a_batch});
}

TEST_CASE("translation divided among processes has the same scores as translation in one process") {
  const Model model = test::random_model(1);
  const Vocabulary words({"a", "b", "c", "d", "e", "f"});
  const TextCodec codec({}, words, words);
  const std::vector<Example> pairs = pairs_of_words();
  Config config;
  config.model.max_length = 12;
  config.train.max_decode_length = 8;
  config.train.batch_size = 2;
  config.train.samples = 5;
  const auto evaluate = [&](const WorkShare& share) {
    return find_task("seq2seq").evaluate(
        model, config, {}, {.examples = pairs, .target_texts = {}, .codec = codec, .share = share},
        11);
  };
  const Scores one = evaluate({});
  REQUIRE(one.samples.size() == 5);
  for (const std::size_t processes : {2, 3, 12}) {
    std::mutex mutex;
    std::size_t right = 0;
    const Sizes sizes = evaluate_in_processes(processes, [&](const WorkShare& share) {
      const Scores own = evaluate(share);
      bool equal = own.loss == one.loss && own.others == one.others;
      for (std::size_t i = 0; i < one.samples.size(); ++i) {
        equal = equal && own.samples.at(i).output == one.samples[i].output;
      }
      const std::lock_guard lock(mutex);
      right += equal ? 1 : 0;
    });
    CHECK_MESSAGE(right == processes, processes);
    if (processes != 2) continue;
    CHECK(sizes[0] < 2 * sizes[1]);
    CHECK(sizes[1] < 2 * sizes[0]);
  }
}

}  // namespace
}  // namespace tapestry
