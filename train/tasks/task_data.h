// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>

#include "data/batch.h"
#include "data/batch_schedule.h"
#include "data/corpus.h"
#include "train/config/config.h"
#include "train/tasks/task.h"

/// Loads the examples of a run and makes batches from them, for any task.
namespace tapestry {

/// The rules for making batches of the run's examples in an epoch.
///
/// vocabulary  size of the target vocabulary
BatchRules batch_rules(const Config& config, std::size_t vocabulary, std::uint64_t epoch = 0);

/// The rules for training examples, including subword regularization.
///
/// throws  DataError like subword_regularization().
BatchRules training_rules(const Config& config, const Corpus& corpus, std::uint64_t epoch = 0);

/// A batch of one example for inference, without masking.
Batch inference_batch(const Task& task, const Example& example);

/// The validation set of a corpus, and the data needed to score it. Valid as long as the corpus and
/// the codec exist.
///
/// share  share of this process in the evaluation
EvaluationSet validation_set(const Corpus& corpus, const TextCodec& codec, WorkShare share = {});
/// The test set, see validation_set().
EvaluationSet test_set(const Corpus& corpus, const TextCodec& codec);

/// Whether batches have sentences of similar length or of mixed length. Batch norm needs mixed
/// lengths: its moments estimate the moments of the training set only if every batch is a random
/// sample. With batches sorted by length, configs/reverse.yaml reached an exact match of 30 %
/// instead of 100 %.
BatchLengths batch_lengths(const Config& config);

/// The order of the training examples of a run, in batches of train.batch_size or
/// train.batch_tokens.
///
/// corpus  must outlive the schedule
/// throws  DataError like subword_regularization(); with train.batch_tokens also like
///         require_fitting_examples().
BatchSchedule make_batch_schedule(const Corpus& corpus, const Config& config);

/// Checks that no example of a corpus has more tokens than the model of a config has positions, and
/// that no training example has more tokens than train.batch_tokens.
///
/// throws  DataError like BadLines, which names files and lines if they are known.
void require_fitting_examples(const Corpus& corpus, const Config& config);

/// Calls load_corpus() with config.data. With `data.on_bad_line: skip`, removes the examples that
/// require_fitting_examples() would reject; the notes state their number.
///
/// throws  DataError like load_corpus(). An error about bad lines of parallel, labelled or tagged
///         text includes the examples that require_fitting_examples() would reject, so that all can
///         be corrected together, unless the vocabularies do not exist yet
///         (TrainingSetOptions::find_too_long). DataError if no training example remains.
Corpus load_fitting_corpus(const Config& config, const FixedVocabularies* fixed = nullptr);

/// Subword regularization of training examples: random segmentations of the same text, by
/// data.subword_alpha or data.subword_dropout; empty if neither is set. A pure function of the
/// example, its index, the epoch and train.seed.
///
/// An example that would not fit the model keeps its original segmentation. A window of a text is
/// cut to its number of tokens at a random position.
///
/// throws  DataError if the kind of the subword model does not support the key.
ExampleTransform subword_regularization(const Config& config, const Corpus& corpus);

/// The lengths of training examples in an epoch, which determine the batches; empty without subword
/// regularization, and for windows, which keep their lengths.
///
/// corpus  must outlive the function
/// throws  DataError like subword_regularization().
LengthsInEpoch lengths_in_epoch(const Config& config, const Corpus& corpus);

}  // namespace tapestry
