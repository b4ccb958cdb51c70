#include "train/inference/evaluator.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "autograd/ops/activations.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/reductions.h"
#include "data/batch.h"
#include "data/batch_schedule.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

/// The number of labels that equal the prediction. no_label never does.
std::size_t count_hits(const Ids& best, const std::vector<std::int32_t>& labels) {
  std::size_t hits = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) hits += best[i] == labels[i] ? 1 : 0;
  return hits;
}

double share(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

/// The `count` most likely classes of one example.
std::vector<LikelyClass> rank(std::span<const double> probabilities, std::size_t count) {
  std::vector<LikelyClass> classes;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    classes.push_back(
        {.id = static_cast<std::int32_t>(i) + first_word_id, .probability = probabilities[i]});
    if (std::isnan(probabilities[i])) return {classes.back()};  // NaN has no order
  }
  std::ranges::stable_sort(classes, std::ranges::greater(), &LikelyClass::probability);
  classes.resize(std::min(count, classes.size()));
  return classes;
}

}  // namespace

Scores score_labels(const Model& model, const std::vector<Example>& examples,
                    std::size_t batch_size, const BatchRules& rules, const TakePredictions& take) {
  Scores scores{.sentences = examples.size()};
  double nll_sum = 0.0;
  std::size_t hits = 0;
  Batch batch;
  for (const BatchIndices& indices : evaluation_batches(examples, batch_size)) {
    fill_batch(examples, indices, batch, rules);
    const Tensor logits =
        (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference());
    nll_sum += cross_entropy(logits, label_ids(batch), {.ignored_id = no_label}).nll_sum;
    const Ids best = argmax(logits);
    hits += count_hits(best, batch.labels);
    scores.tokens += batch.target_tokens;
    if (take) take(batch, best);
  }
  scores.loss = nll_sum / static_cast<double>(std::max<std::size_t>(scores.tokens, 1));
  scores.perplexity = std::exp(scores.loss);
  scores.token_accuracy = share(hits, scores.tokens);
  return scores;
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
    const Tensor probabilities = softmax(logits.copied(DType::float64));
    const auto values = probabilities.values<double>();
    const std::size_t width = values.size() / indices.size();
    for (std::size_t row = 0; row < indices.size(); ++row) {
      classes[indices[row]] = rank(values.subspan(row * width, width), count);
    }
  }
  return classes;
}

std::vector<LikelyClass> most_likely_classes(const Model& model,
                                             const std::vector<Example>& examples,
                                             std::size_t batch_size) {
  std::vector<LikelyClass> classes(examples.size());
  Batch batch;
  for (const BatchIndices& indices : evaluation_batches(examples, batch_size)) {
    fill_batch(examples, indices, batch, {.layout = class_rows});
    const Tensor logits =
        (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference());
    const Ids best = argmax(logits);
    const Tensor probabilities = softmax(logits.copied(DType::float64));
    const auto values = probabilities.values<double>();
    const std::size_t width = values.size() / indices.size();
    for (std::size_t row = 0; row < indices.size(); ++row) {
      const auto column = static_cast<std::size_t>(best[row]);
      classes[indices[row]] = {.id = best[row] + first_word_id,
                               .probability = values[row * width + column]};
    }
  }
  return classes;
}

}  // namespace tapestry
