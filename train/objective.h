#pragma once

#include <cstdint>

#include "data/batch.h"
#include "train/config.h"

namespace tapestry {

/// What a kind of model learns to predict.
Objective objective_of(ModelKind kind);

/// How the examples of a run become batches in an epoch.
///
/// vocabulary  entries of the target vocabulary
BatchRules batch_rules(const Config& config, std::size_t vocabulary, std::uint64_t epoch = 0);

/// What the user calls the examples of a run: "pairs", "sentences", "images" or "stretches".
const char* words_for_examples(const Config& config);

}  // namespace tapestry
