#pragma once

#include <functional>
#include <memory>

#include "data/load_corpus.h"
#include "tests/support/contains.h"
#include "tests/train/tiny_run.h"
#include "train/properties/batch_rows.h"
#include "train/properties/property.h"

/// Small models to examine, whole and broken.
namespace tapestry::test {

using Change = std::function<void(ExaminedModel&)>;

/// Six sentences of up to five tokens and the model of `config`, each copy of which is changed.
inline Subject tiny_subject(const Change& change = {}, const Config& config = tiny_config()) {
  const Corpus corpus = load_corpus(config.data, ".");
  const NetworkSizes sizes{.source = corpus.source_vocabulary.size(),
                           .target = corpus.target_vocabulary.size()};
  const auto copy = [=](DType dtype) {
    ExaminedModel model =
        examined(std::make_shared<Model>(config.model, sizes, dtype, config.train.seed));
    if (change) change(model);
    return model;
  };
  const std::vector<std::size_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const Batch batch = make_batch(corpus.train, all);
  return {.copy = copy,
          .dtype = config.train.dtype,
          .trained = false,
          .has_averages = false,
          .vocabulary = sizes.target,
          .handicap = {},
          .causal = true,
          .max_source_length = config.model.max_length,
          .max_target_length = config.model.max_length,
          .label_smoothing = config.train.label_smoothing,
          .seed = config.train.seed,
          .tied_width = 0,
          .batch = rows_of(batch, 0, 6),
          .large_batch = batch};
}

using ChangeLogits = std::function<Tensor(const Tensor& logits, const TokenVectors& read)>;

/// A change of what a model answers.
inline Change logits_changed(const ChangeLogits& f) {
  return [f](ExaminedModel& model) {
    model.logits = [f, whole = model.logits](const TokenVectors& read, const NetworkInput& input,
                                             const RandomStream& random) {
      return f(whole(read, input, random), read);
    };
  };
}

}  // namespace tapestry::test
