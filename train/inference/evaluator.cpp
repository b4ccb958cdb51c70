// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/evaluator.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>

#include "autograd/ops/activations.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/reductions.h"
#include "data/batch.h"
#include "data/batch_schedule.h"
#include "data/examples.h"
#include "train/inference/batch_tensors.h"
#include "train/system/message.h"

namespace tapestry {
namespace {

/// The number of labels that equal the prediction; no_label never equals it.
std::size_t count_hits(const Ids& best, const std::vector<std::int32_t>& labels) {
  std::size_t hits = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) hits += best[i] == labels[i] ? 1 : 0;
  return hits;
}

double ratio(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// Writes the contribution of a batch to the scores: the sum of -log p(label), the number of labels
/// that equal the prediction, the number of labels and, with `with_predictions`, the predictions.
void score_batch(const Model& model, const Batch& batch, bool with_predictions,
                 MessageWriter& result) {
  const Tensor logits =
      (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference());
  const Ids best = argmax(logits);
  result.put(cross_entropy(logits, label_ids(batch), {.ignored_id = no_label}).nll_sum);
  result.put(count_hits(best, batch.labels));
  result.put(batch.target_tokens);
  if (with_predictions) result.put(std::span<const std::int32_t>(best.data(), best.size()));
}

/// The `count` most likely classes of one example.
std::vector<LikelyClass> rank(std::span<const double> probabilities, std::size_t count) {
  std::vector<LikelyClass> classes;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    classes.push_back(
        {.id = static_cast<std::int32_t>(i) + first_word_id, .probability = probabilities[i]});
    if (std::isnan(probabilities[i])) return {classes.back()};  // NaN cannot be ordered
  }
  std::ranges::stable_sort(classes, std::ranges::greater(), &LikelyClass::probability);
  classes.resize(std::min(count, classes.size()));
  return classes;
}

/// Scores batches of `examples`, see score_labels().
Scores score_batches(const Model& model, const Examples& examples,
                     const std::vector<BatchIndices>& batches, const BatchRules& rules,
                     const TakePredictions& take, const WorkShare& share) {
  Batch batch;
  const std::vector<std::string> messages = share.all_gather([&] {
    MessageWriter own;
    for (std::size_t i = share.index; i < batches.size(); i += share.count) {
      fill_batch(examples, batches[i], batch, rules);
      score_batch(model, batch, static_cast<bool>(take), own);
    }
    return own.take();
  });
  std::vector<MessageReader> results(messages.begin(), messages.end());
  Scores scores;
  double nll_sum = 0.0;
  std::size_t hits = 0;
  for (std::size_t i = 0; i < batches.size(); ++i) {  // the order affects the rounding of sums
    MessageReader& result = results[i % share.count];
    scores.sentences += batches[i].size();
    nll_sum += result.get<double>();
    hits += result.get<std::size_t>();
    scores.tokens += result.get<std::size_t>();
    if (!take) continue;
    fill_batch(examples, batches[i], batch, rules);
    take(batch, result.get_numbers<std::int32_t>());
  }
  scores.loss = nll_sum / static_cast<double>(std::max<std::size_t>(scores.tokens, 1));
  scores.perplexity = std::exp(scores.loss);
  scores.token_accuracy = ratio(hits, scores.tokens);
  return scores;
}

}  // namespace

Scores score_labels(const Model& model, const std::vector<Example>& examples,
                    std::size_t batch_size, const BatchRules& rules, const TakePredictions& take,
                    const WorkShare& share) {
  return score_batches(model, examples, evaluation_batches(examples, batch_size), rules, take,
                       share);
}

SampleAccuracy sample_accuracy(const Model& model, const Examples& examples,
                               const SampleOptions& sample, const BatchRules& rules,
                               const WorkShare& share) {
  BatchIndices chosen = evenly_spaced(examples.size(), sample.examples);
  if (chosen.empty()) return {};
  const Scores scores =
      score_batches(model, examples,
                    evaluation_batches(examples, std::move(chosen), sample.batches, rules.layout),
                    rules, {}, share);
  return {.examples = scores.sentences, .accuracy = scores.token_accuracy};
}

std::vector<std::vector<LikelyClass>> ranked_classes(const Model& model,
                                                     const std::vector<Example>& examples,
                                                     std::size_t batch_size, std::size_t count) {
  std::vector<std::vector<LikelyClass>> classes(examples.size());
  Batch batch;
  for (const BatchIndices& indices : evaluation_batches(examples, batch_size)) {
    fill_batch(examples, indices, batch, {.layout = class_rows});
    const Tensor logits =
        (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference());
    const Tensor probabilities = softmax(logits.to(DType::float64));
    const auto values = probabilities.values<double>();
    const std::size_t width = values.size() / indices.size();
    for (std::size_t row = 0; row < indices.size(); ++row) {
      classes[indices[row]] = rank(values.subspan(row * width, width), count);
    }
  }
  return classes;
}

namespace {

/// The loss of a row of a batch.
///
/// log_probabilities  (rows, target_length, classes), row-major
/// best               (rows, target_length): the most likely classes
ExampleLoss loss_of_row(const Batch& batch, std::size_t row,
                        std::span<const double> log_probabilities, const Ids& best) {
  const std::size_t classes = log_probabilities.size() / batch.labels.size();
  ExampleLoss loss{.example = batch.examples[row]};
  for (std::size_t i = row * batch.target_length; i < (row + 1) * batch.target_length; ++i) {
    const std::int32_t label = batch.labels[i];
    if (label == no_label) continue;
    ++loss.labels;
    if (best[i] == label) ++loss.hits;
    loss.sum -= log_probabilities[i * classes + static_cast<std::size_t>(label)];
  }
  return loss;
}

}  // namespace

std::vector<ExampleLoss> example_losses(const Model& model, const std::vector<Example>& examples,
                                        std::size_t batch_size, const BatchRules& rules,
                                        const TakePredictions& take) {
  std::vector<ExampleLoss> losses(examples.size());
  Batch batch;
  for (const BatchIndices& indices : evaluation_batches(examples, batch_size)) {
    fill_batch(examples, indices, batch, rules);
    const Tensor logits =
        (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference());
    const Tensor log_probabilities = log_softmax(logits.to(DType::float64));
    const Ids best = argmax(logits);
    for (std::size_t row = 0; row < batch.rows; ++row) {
      losses[batch.examples[row]] =
          loss_of_row(batch, row, log_probabilities.values<double>(), best);
    }
    if (take) take(batch, std::span(best.data(), best.size()));
  }
  return losses;
}

std::vector<ExampleLoss> greatest_losses(std::vector<ExampleLoss> losses, std::size_t count,
                                         double (*value)(const ExampleLoss&)) {
  const auto order = [&](const ExampleLoss& loss) {
    const double chosen = value(loss);
    return std::isnan(chosen) ? std::numeric_limits<double>::infinity() : chosen;
  };
  std::ranges::stable_sort(losses, std::ranges::greater(), order);
  losses.resize(std::min(count, losses.size()));
  return losses;
}

}  // namespace tapestry
