// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/batch_schedule.h"
#include "data/corpus.h"
#include "layers/model.h"

namespace tapestry {

/// The share of one process in work that several processes divide, such as the scores of a
/// validation set. By default one process does everything.
struct WorkShare {
  std::size_t index = 0;  ///< index of this process, in [0, count)
  std::size_t count = 1;  ///< number of processes

  /// Calls `work` and returns the results of all processes, in the order of their indices. All
  /// processes must call all_gather.
  std::function<std::vector<std::string>(const std::function<std::string()>& work)> all_gather =
      [](const std::function<std::string()>& work) { return std::vector<std::string>{work()}; };
};

/// An example with the model's output, as text.
struct ShownExample {
  std::string input;     ///< input of the model
  std::string output;    ///< output of the model
  std::string expected;  ///< reference output
};

/// Accuracy on a sample of a set, defined like Scores::token_accuracy.
struct SampleAccuracy {
  std::size_t examples = 0;  ///< number of examples
  double accuracy = 0.0;     ///< share of labels that equal the most likely prediction

  friend bool operator==(const SampleAccuracy&, const SampleAccuracy&) = default;
};

/// The scores of a model on a set of examples.
struct Scores {
  std::size_t sentences = 0;    ///< number of examples
  std::size_t tokens = 0;       ///< labels: target tokens with `<eos>`, without `<pad>`; or classes
  double loss = 0.0;            ///< mean -log p(label), without label smoothing, in nats
  double perplexity = 0.0;      ///< exp(loss)
  double token_accuracy = 0.0;  ///< share of labels that equal the most likely prediction

  /// Scores of particular tasks, see ConfigKind::scores: "exact_match" of translation and "span_f1"
  /// of sequence tagging in [0, 1]; "bleu" and "chrf" of translation in per cent.
  std::map<std::string, double> others{};

  /// The first examples that were decoded, see train.samples.
  std::vector<ShownExample> samples{};

  /// Scores of a sample of the training set; only for a validation during training.
  std::optional<SampleAccuracy> training{};
};

/// Called for each scored batch with the most likely label at each position: (rows, target_length),
/// row-major.
using TakePredictions =
    std::function<void(const Batch& batch, std::span<const std::int32_t> predictions)>;

/// Scores a model on `examples` with dropout disabled. The masked positions of a masked language
/// model are the same in every call. The result does not depend on the batch size, up to rounding.
///
/// take   called in all processes, for all batches
/// share  this process's share of the batches; the scores have the same bits for any number of
///        processes
Scores score_labels(const Model& model, const std::vector<Example>& examples,
                    std::size_t batch_size, const BatchRules& rules,
                    const TakePredictions& take = {}, const WorkShare& share = {});

/// A sample of a set, and the batches that score it.
struct SampleOptions {
  std::size_t examples = 0;  ///< number of examples, see evenly_spaced()
  BatchLimit batches{};      ///< limits of a batch; larger examples are scored separately
};

/// Same as score_labels() for a sample of a set. Reads it batch by batch, so that the set may be in
/// a file.
SampleAccuracy sample_accuracy(const Model& model, const Examples& examples,
                               const SampleOptions& sample, const BatchRules& rules,
                               const WorkShare& share = {});

/// A predicted class and its probability.
struct LikelyClass {
  std::int32_t id = first_word_id;  ///< id in the target vocabulary
  double probability = 0.0;         ///< softmax of the logits, in (0, 1]; NaN if a logit is NaN
};

/// The `count` most likely classes of each example, or all if there are fewer, with dropout
/// disabled. The most likely class is first; equally likely classes are ordered by id. If a logit
/// of an example is NaN, its result is a single class with probability NaN.
std::vector<std::vector<LikelyClass>> ranked_classes(const Model& model,
                                                     const std::vector<Example>& examples,
                                                     std::size_t batch_size, std::size_t count);

/// The loss of a model on an example.
struct ExampleLoss {
  std::size_t example = 0;  ///< index of the example
  double sum = 0.0;         ///< sum of -log p(label), in nats, without label smoothing
  std::size_t labels = 0;   ///< number of labels; 0 if no token of the example is masked
  std::size_t hits = 0;     ///< number of labels that equal the most likely prediction

  /// The mean over the labels; 0 without labels.
  double mean() const { return labels == 0 ? 0.0 : sum / static_cast<double>(labels); }
};

/// The loss of each example, in order, with dropout disabled. Their total equals the loss of
/// score_labels(), up to rounding.
///
/// take  called with each batch and its predictions
std::vector<ExampleLoss> example_losses(const Model& model, const std::vector<Example>& examples,
                                        std::size_t batch_size, const BatchRules& rules,
                                        const TakePredictions& take = {});

/// The `count` greatest losses, or all if there are fewer, in descending order; ties keep their
/// order. NaN is greater than any number.
///
/// value  the value to compare, such as ExampleLoss::mean
std::vector<ExampleLoss> greatest_losses(std::vector<ExampleLoss> losses, std::size_t count,
                                         double (*value)(const ExampleLoss&));

}  // namespace tapestry
