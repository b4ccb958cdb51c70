// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/corpus.h"
#include "data/io/random.h"

namespace tapestry {

/// The sizes and the seed of a generated corpus.
struct GeneratedOptions {
  std::size_t train_size = 20000;      ///< number of training sequences
  std::size_t validation_size = 1000;  ///< number of validation sequences, all distinct
  std::size_t test_size = 1000;        ///< number of test sequences, all distinct
  std::uint64_t seed = 1;              ///< seed of the generated sequences
};

/// The part of a generated corpus that a sentence belongs to.
enum class Split {
  train,       ///< 18 of 20 sentences
  validation,  ///< 1 of 20 sentences
  test         ///< 1 of 20 sentences
};

/// Returns the part that a source sentence belongs to, from a hash of its ids keyed by the seed:
/// one sentence in 20 is for validation and one in 20 for testing. The part depends only on the
/// content, so a held-out sentence never occurs in the training set, and the training set has
/// sentences of every length.
Split assign_split(std::span<const std::int32_t> source, std::uint64_t seed);

/// A task whose examples are drawn at random.
struct GeneratedTask {
  std::function<Example(RandomDraws&)> draw;  ///< draws one sentence pair
  /// Hint if there are too few different sentences, such as "raise data.num_symbols"; empty if no
  /// config key helps.
  std::string more_sentences{};
};

/// Draws the training, validation and test pairs of a generated task into `corpus`, with the sizes
/// in `options`. Training pair i depends only on the seed and i, and training pairs may repeat. The
/// sources of held-out pairs are all different.
///
/// throws  DataError if train_size is 0, or if the task has too few different sentences; the number
///         of draws is bounded.
void draw_splits(const GeneratedOptions& options, const GeneratedTask& task, Corpus& corpus);

}  // namespace tapestry
