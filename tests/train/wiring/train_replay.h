#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "data/corpus.h"
#include "tests/train/wiring/train_formulas.h"
#include "tests/train/wiring/train_scores.h"
#include "train/config/config.h"

/// What a run must come to, computed beside the trainer: gradients come from the tape, all other
/// numbers from formulas that are written out here in double.
namespace tapestry::test {

struct Replay {
  std::vector<MetricsRow> rows;
  std::map<std::uint64_t, Values> weights;  ///< after each step, from 0
  std::optional<std::uint64_t> best_step;
  std::vector<std::uint64_t> files;  ///< steps of the checkpoints that are left at the end
  std::vector<double> losses;        ///< mean objective of each step
  std::uint64_t steps = 0;
  std::uint64_t validations_since_best = 0;
};

/// `from`, if given, are the weights to begin with.
Replay replay(const Config& config, const Corpus& corpus, const Values* from = nullptr);

}  // namespace tapestry::test
