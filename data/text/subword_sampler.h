// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/io/random.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// Draws random segmentations of tokenized sentences. Special symbols, bytes, line ends and
/// user-defined pieces stay unchanged; the pieces between them are joined to text, which is divided
/// again at random.
///
/// unigram  forward filtering and backward sampling over the lattice of all segmentations [1]
/// bpe      the merges of the model, each dropped with a probability [2]
///
/// [1] Kudo 2018, "Subword Regularization: Improving Neural Network Translation Models with
///     Multiple Subword Candidates".
/// [2] Provilkov et al. 2020, "BPE-Dropout: Simple and Effective Subword Regularization".
class SubwordSampler {
 public:
  /// vocabulary  a vocabulary of subwords
  /// throws      DataError if the sampling does not match the kind of model (unigram or bpe);
  ///             std::invalid_argument if the vocabulary has no subwords.
  SubwordSampler(const Vocabulary& vocabulary, const SubwordSampling& sampling);

  /// The ids of a random segmentation of the text of `ids`. Depends only on `ids` and `random`.
  /// Several threads may call this function at the same time.
  std::vector<std::int32_t> operator()(std::span<const std::int32_t> ids,
                                       RandomDraws& random) const;

 private:
  class Segmenter;
  std::shared_ptr<const Segmenter> segmenter_;  ///< immutable, so copies share it
};

}  // namespace tapestry
