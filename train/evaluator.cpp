#include "train/evaluator.h"

#include <algorithm>
#include <cmath>

#include "autograd/ops/losses.h"
#include "autograd/ops/softmax.h"
#include "data/batch.h"
#include "data/batch_schedule.h"
#include "layers/transformer.h"
#include "train/batch_tensors.h"
#include "train/greedy_decoder.h"

namespace tapestry {
namespace {

/// Labels that are the highest score of their row of logits; where there is none, nothing is.
std::size_t count_hits(const Tensor& logits, const std::vector<std::int32_t>& labels) {
  const std::vector<std::int32_t> best = largest_of_rows(logits);
  std::size_t hits = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) hits += best[i] == labels[i] ? 1 : 0;
  return hits;
}

/// `count` examples spread evenly over the set, or all of them.
std::vector<Example> spread(const std::vector<Example>& examples, std::size_t count) {
  if (count >= examples.size()) return examples;
  std::vector<Example> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(examples[i * examples.size() / count]);
  return some;
}

std::size_t count_exact_matches(const Model& model, const std::vector<Example>& examples,
                                const EvaluationOptions& options) {
  std::size_t matches = 0;
  for (const BatchIndices& indices : evaluation_batches(examples, options.batch_size)) {
    std::vector<Sentence> sources;
    for (const std::size_t i : indices) sources.push_back(examples[i].source);
    const auto outputs = greedy_decode(model.as<Transformer>(), sources, options.max_decode_length);
    for (std::size_t row = 0; row < indices.size(); ++row) {
      matches += outputs[row] == examples[indices[row]].target ? 1 : 0;
    }
  }
  return matches;
}

double share(std::size_t part, std::size_t whole) {
  return whole == 0 ? 0.0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

Scores evaluate(const Model& model, const std::vector<Example>& examples,
                const EvaluationOptions& options) {
  Scores scores{
      .objective = options.rules.objective, .unit = options.unit, .sentences = examples.size()};
  double nll_sum = 0.0;
  std::size_t hits = 0;
  Batch batch;
  for (const BatchIndices& indices : evaluation_batches(examples, options.batch_size)) {
    fill_batch(examples, indices, batch, options.rules);
    const Tensor logits = (*model.network)(network_input(batch, model.parameters.dtype()));
    nll_sum += cross_entropy(logits, label_ids(batch), {.ignored_id = no_label}).nll_sum;
    hits += count_hits(logits, batch.labels);
    scores.tokens += batch.target_tokens;
  }
  scores.loss = nll_sum / static_cast<double>(std::max<std::size_t>(scores.tokens, 1));
  scores.perplexity = std::exp(scores.loss);
  scores.token_accuracy = share(hits, scores.tokens);

  if (options.rules.objective != Objective::translation) return scores;
  const std::vector<Example> to_decode = spread(examples, options.decoded_sentences);
  scores.decoded = to_decode.size();
  scores.exact_match = share(count_exact_matches(model, to_decode, options), scores.decoded);
  return scores;
}

std::vector<LikelyClass> most_likely_classes(const Model& model,
                                             const std::vector<Example>& examples,
                                             std::size_t batch_size) {
  std::vector<LikelyClass> classes(examples.size());
  Batch batch;
  for (const BatchIndices& indices : evaluation_batches(examples, batch_size)) {
    fill_batch(examples, indices, batch, {.objective = Objective::label});
    const Tensor logits = (*model.network)(network_input(batch, model.parameters.dtype()));
    const std::vector<std::int32_t> best = largest_of_rows(logits);
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
