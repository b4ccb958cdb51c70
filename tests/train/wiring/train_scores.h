#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "layers/model.h"
#include "tests/train/wiring/train_formulas.h"
#include "train/config/config.h"

/// Losses and scores of a model, from its logits by formula.
namespace tapestry::test {

/// A row of metrics.csv; what is empty there has no value here.
struct MetricsRow {
  std::uint64_t step = 0, epoch = 0;
  std::string split;
  double loss = 0.0, perplexity = 0.0;
  std::optional<double> accuracy{}, exact_match{}, learning_rate{}, gradient_norm{};
  std::uint64_t tokens = 0;
  std::optional<double> bleu{}, chrf{};
};

std::vector<MetricsRow> parse_metrics(const std::string& csv);

Model new_model(const Config& config, const Corpus& corpus);
void set_values(const Model& model, const Values& values);
Values values_of_parameters(const Model& model);

/// How examples become batches in an epoch, from 0.
BatchRules rules_of(const Config& config, const Corpus& corpus, std::uint64_t epoch);

/// Sums over the labels of a batch, given its logits.
struct Sums {
  double objective = 0.0;  ///< with label smoothing
  double nll = 0.0;
  std::size_t hits = 0;
  std::size_t labels = 0;

  void add(const Sums& other) {
    objective += other.objective;
    nll += other.nll;
    hits += other.hits;
    labels += other.labels;
  }
};

/// logits  (labels, words or classes); labels below 0 count for nothing
Sums sums_of(const std::vector<double>& logits, const std::vector<std::int32_t>& labels,
             double smoothing);

/// Scores without label smoothing; so many examples are decoded, if they can be. `examples` are the
/// validation or test set of the corpus.
MetricsRow scores_with(const Config& config, const Corpus& corpus, const Model& model,
                       const std::vector<Example>& examples, std::size_t wanted);

/// The same for a model with these weights.
MetricsRow scores_of(const Config& config, const Corpus& corpus, const Values& weights,
                     const std::vector<Example>& examples, std::size_t decoded);

/// As progress and `evaluate` print scores.
std::string printed_scores(const Config& config, const MetricsRow& scores);

}  // namespace tapestry::test
