#pragma once

#include <cstdint>

#include "data/batch.h"
#include "data/batch_schedule.h"
#include "train/config/config.h"

namespace tapestry {

/// What a kind of model learns to predict.
Objective objective_of(ModelKind kind);

/// How the examples of a run become batches in an epoch.
///
/// vocabulary  entries of the target vocabulary
BatchRules batch_rules(const Config& config, std::size_t vocabulary, std::uint64_t epoch = 0);

/// The batch of one example, of which nothing is hidden: of masked tokens the model is shown all.
Batch shown_whole(Example example, Objective objective);

/// The moments of a batch norm are those of the whole training set only if every batch is a fair
/// sample of it: sorted by length, the batches of configs/reverse.yaml taught 30 % and not
/// 100 %.
BatchLengths batch_lengths(const Config& config);

/// What the user calls the examples of a run: "pairs", "sentences", "images" or "windows".
const char* words_for_examples(const Config& config);

/// What the user calls that of which each has a label: "tokens", or examples that have one alone.
const char* words_for_targets(const Config& config);

}  // namespace tapestry
