// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>

#include "tests/support/contains.h"
#include "tests/train/tiny_run.h"
#include "train/checks/check.h"
#include "train/checks/one_step.h"
#include "train/tasks/task.h"

/// Small models to check, correct and faulty.
namespace tapestry::test {

using Change = std::function<void(CheckedModel&)>;

/// Six sentences of up to five tokens and the model of `config`. Applies `change` to each copy of
/// the model.
inline CheckContext tiny_context(const Change& change = {}, const Config& config = tiny_config()) {
  const Corpus corpus = load_corpus(config.data);
  const NetworkSizes sizes{.source = corpus.source_vocabulary.size(),
                           .target = corpus.target_vocabulary.size()};
  const auto copy = [=](DType dtype) {
    CheckedModel model = checked_model(
        std::make_shared<Model>(network_maker(config, sizes), dtype, config.train.seed));
    if (change) change(model);
    return model;
  };
  const std::vector<std::size_t> all = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const Batch batch = make_batch(corpus.train, all);
  return {.copy = copy,
          .dtype = config.train.dtype,
          .trained = false,
          .has_running_averages = false,
          .vocabulary = sizes.target,
          .learning_limit = {},
          .causal = true,
          .max_source_length = config.model.max_length,
          .max_target_length = config.model.max_length,
          .label_smoothing = config.train.label_smoothing,
          .seed = config.train.seed,
          .tied_width = 0,
          .batch = select_rows(batch, 0, 6),
          .large_batch = batch};
}

using ChangeLogits = std::function<Tensor(const Tensor& logits, const TokenVectors& read)>;

/// Replaces the logits of a model, and its loss by their cross entropy.
inline Change logits_changed(const ChangeLogits& f) {
  return [f](CheckedModel& model) {
    const auto last = std::make_shared<TokenVectors>();  // the last input of `features`
    model.features = [last, whole = model.features](const TokenVectors& read,
                                                    const NetworkInput& input, const Mode& mode) {
      *last = read;
      return whole(read, input, mode);
    };
    model.logits = [f, last, whole = model.logits](const Tensor& features) {
      return f(whole(features), *last);
    };
    model.loss = [logits = model.logits](const Tensor& features, const Ids& labels,
                                         const CrossEntropyOptions& options) {
      return cross_entropy(logits(features), labels, options).mean;
    };
  };
}

}  // namespace tapestry::test
