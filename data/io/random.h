// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tapestry {

/// The purpose of a random number stream. Streams of different purposes never overlap.
enum class DrawPurpose : std::uint32_t {
  training_example = 1,      ///< a generated training example; index: its number
  held_out_example = 2,      ///< a generated example for validation or testing; index: the draw
  batch_order = 3,           ///< the order of batches; index: the epoch
  masking = 4,               ///< the masked tokens of an example; index: the example
  bootstrap_sample = 5,      ///< the sentences of a bootstrap sample; index: the sample
  subword_segmentation = 7,  ///< the segmentation of a text; index: 2 * example, + 1 for its target
  sweep_sample = 8,          ///< the combinations that a sweep tries; index: 0
  subword_text = 9,          ///< whether subwords are learned from a sentence; index: its number
};

/// Random numbers that are a pure function of (seed, purpose, index). A stream repeats itself after
/// 2^33 numbers.
///
/// Philox4x32-10 [1] with the seed as its key and (block, purpose, index) as its counter.
///
/// [1] Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
class RandomDraws {
 public:
  /// Starts the stream of an index at its beginning.
  RandomDraws(std::uint64_t seed, DrawPurpose purpose, std::uint64_t index);

  /// Uniform in [0, 2^64).
  std::uint64_t next();

  /// Uniform in [0, n) without bias, n >= 1.
  std::uint64_t below(std::uint64_t n);

  /// True with probability 1 / n, n >= 1.
  bool one_in(std::uint64_t n) { return below(n) == 0; }

 private:
  void refill();

  std::array<std::uint32_t, 2> key_;
  std::array<std::uint32_t, 4> counter_;
  std::array<std::uint64_t, 2> block_{};
  std::size_t used_ = 2;
};

/// Shuffles the items uniformly (Fisher-Yates).
template <typename T>
void shuffle(std::vector<T>& items, RandomDraws& random) {
  for (std::size_t remaining = items.size(); remaining > 1; --remaining) {
    std::swap(items[remaining - 1], items[random.below(remaining)]);
  }
}

}  // namespace tapestry
