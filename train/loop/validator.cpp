// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/validator.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "autograd/kernels/parallel.h"
#include "data/batch.h"
#include "data/io/utf8.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {

std::size_t training_sample_size(const Config& config, const Corpus& corpus) {
  constexpr std::size_t min_size = 16, max_size = 256;
  const std::size_t trained = config.train.batch_size * config.train.validate_every;
  return std::min({std::clamp(trained / 100, min_size, max_size), corpus.validation.size(),
                   corpus.training().size()});
}

SampleOptions training_sample(const Config& config, const Corpus& corpus) {
  // Limits the rows of a batch, since train.batch_size may exceed the memory if train.batch_tokens
  // is set.
  constexpr std::size_t max_rows = 32;
  BatchLimit limit =
      full_batch_limit(corpus.validation, config.train.batch_size, find_task(config).layout());
  limit.rows = std::min(max_rows, config.train.batch_size);
  return {.examples = training_sample_size(config, corpus), .batches = limit};
}

Scores Validator::score(const std::atomic<bool>* cancel) {
  Scores scores;
  with_averaged_weights([&] { scores = score_with_present_weights(cancel); });
  return scores;
}

/// Calls `work` with the averaged weights as parameters of all processes, if there are averages.
void Validator::with_averaged_weights(const std::function<void()>& work) {
  if (run_.average == nullptr) return work();
  const auto swap = [this] {
    const PartTimer timer(time_use_, TimePart::validation, "averaged weights");
    run_.average->swap();
    shards_.all_gather_parameters();
  };
  swap();
  try {
    work();
  } catch (const kernels::Cancelled&) {  // all processes throw Cancelled
    swap();
    throw;
  } catch (...) {  // ends all processes; the other processes cannot swap any more
    if (group_.size() == 1) swap();
    throw;
  }
  swap();
}

/// The share of this process in validation and decoding.
WorkShare Validator::work_share(const std::atomic<bool>* cancel) {
  WorkShare share{.index = group_.rank(), .count = group_.size()};
  if (group_.size() == 1) return share;
  share.all_gather = [this, cancel](const std::function<std::string()>& work) {
    return group_.all_gather([&] {
      const kernels::CancellationScope cancellable(cancel);
      kernels::throw_if_cancelled();
      return work();
    });
  };
  return share;
}

Scores Validator::score_with_present_weights(const std::atomic<bool>* cancel) {
  const PartTimer timer(time_use_, TimePart::validation, "validation and decoding");
  const WorkShare share = work_share(cancel);
  // The evaluation is cancelled only in all_gather(), so that all processes of a group end the
  // evaluation together.
  const kernels::CancellationScope cancellable(group_.size() == 1 ? cancel : nullptr);
  share.all_gather([] {
    kernels::throw_if_cancelled();
    return std::string();
  });
  const Corpus& corpus = run_.corpus;
  constexpr std::uint64_t epoch = 0;  // masks the same tokens in each validation
  const BatchRules rules = batch_rules(run_.config, corpus.target_vocabulary.size(), epoch);
  Scores scores =
      find_task(run_.config)
          .evaluate(run_.model, run_.config, rules, validation_set(corpus, codec_, share),
                    run_.config.train.exact_match_sequences);
  scores.training = sample_accuracy(run_.model, corpus.training(),
                                    training_sample(run_.config, corpus), rules, share);
  return scores;
}

void Validator::report(const Scores& scores, bool best, Progress& progress) const {
  ValidationReport report{.step = run_.state.step,
                          .text = find_task(run_.config).format_scores(scores, run_.config),
                          .scores = scores.others,
                          .best = best};
  report.scores["loss"] = scores.loss;
  report.scores["perplexity"] = scores.perplexity;
  report.scores["token_accuracy"] = scores.token_accuracy;
  if (run_.state.best_step) report_best(progress);
  progress.validation(report);
  for (const ShownExample& sample : scores.samples) {
    progress.message(fmt::format("  source     {}\n  reference  {}\n  output     {}",
                                 escaped(sample.input), escaped(sample.expected),
                                 escaped(sample.output)));
  }
}

void Validator::report_best(Progress& progress) const {
  progress.best({.metric = run_.config.train.best_metric, .value = run_.state.best_value});
}

}  // namespace tapestry
