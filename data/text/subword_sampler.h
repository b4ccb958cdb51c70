// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "data/io/random.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// Draws segmentations of sentences whose tokens are known. Special symbols, bytes, line ends and
/// user-defined pieces stay as they are; the pieces between them are joined, and their text is
/// divided again.
///
/// unigram  forward filtering and backward sampling over the lattice of all segmentations [1]
/// bpe      merges as in training, without the dropped ones [2]
///
/// [1] Kudo 2018, "Subword Regularization: Improving Neural Network Translation Models with
///     Multiple Subword Candidates".
/// [2] Provilkov et al. 2020, "BPE-Dropout: Simple and Effective Subword Regularization".
class SubwordSampler {
 public:
  /// vocabulary  of subwords
  /// throws      DataError if the sampling does not fit the kind of its model (unigram or bpe).
  SubwordSampler(const Vocabulary& vocabulary, const SubwordSampling& sampling);
  ~SubwordSampler();
  SubwordSampler(SubwordSampler&&) noexcept;
  SubwordSampler& operator=(SubwordSampler&&) noexcept;

  /// The ids of a segmentation of the same text, which depends only on `ids` and `random`. Can be
  /// called from several threads at once.
  std::vector<std::int32_t> operator()(std::span<const std::int32_t> ids,
                                       RandomDraws& random) const;

 private:
  class Segmenter;
  std::unique_ptr<const Segmenter> segmenter_;
};

}  // namespace tapestry
