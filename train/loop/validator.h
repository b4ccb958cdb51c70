// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <functional>

#include "data/text/tokenizer.h"
#include "train/checkpoint/checkpoint.h"
#include "train/inference/evaluator.h"
#include "train/loop/progress.h"
#include "train/parallel/parameter_shards.h"
#include "train/parallel/process_group.h"
#include "train/recording/time_use.h"

namespace tapestry {

/// The number of training examples that every validation also scores, for comparison: 1 % of
/// train.batch_size times train.validate_every, so that scoring takes less than 1 % of the training
/// time, but between 16 and 256, and at most the size of the validation set.
std::size_t training_sample_size(const Config& config, const Corpus& corpus);

/// A sample of training_sample_size() examples. Its batches have at most as many positions as the
/// largest batch of the validation set; a longer example is scored separately.
SampleOptions training_sample(const Config& config, const Corpus& corpus);

/// Scores the validation set of a run that is being trained, with the averages of the weights if
/// they exist (train.ema_decay), and reports the scores. The processes of a group divide the set.
class Validator {
 public:
  /// All arguments, and what `run` refers to, must outlive the object.
  Validator(const RunParts& run, const TextCodec& codec, ParameterShards& shards,
            ProcessGroup& group, TimeUse& time_use)
      : run_(run), codec_(codec), shards_(shards), group_(group), time_use_(time_use) {}

  /// The scores, with the accuracy on a fixed sample of the training set; decodes
  /// train.exact_match_sequences sequences. All processes call this.
  ///
  /// cancel  cancels the validation when it becomes true; may be null
  /// throws  kernels::Cancelled in all processes.
  Scores score(const std::atomic<bool>* cancel);

  /// Prints the scores of the last step, and examples of the outputs.
  ///
  /// best  whether the scores are the best so far
  void report(const Scores& scores, bool best, Progress& progress) const;

  /// Prints the best value of train.best_metric, which must exist.
  void report_best(Progress& progress) const;

 private:
  WorkShare work_share(const std::atomic<bool>* cancel);
  void with_averaged_weights(const std::function<void()>& work);
  Scores score_with_present_weights(const std::atomic<bool>* cancel);

  RunParts run_;
  const TextCodec& codec_;
  ParameterShards& shards_;
  ProcessGroup& group_;
  TimeUse& time_use_;
};

}  // namespace tapestry
