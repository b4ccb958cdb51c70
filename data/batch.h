#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/corpus.h"

namespace tapestry {

/// The label of a position at which nothing is to be predicted.
inline constexpr std::int32_t no_label = -1;

/// Sentence pairs side by side, padded with <pad>, labels with no_label, to the longest. Arrays are
/// row-major, one row for each pair. For the pair (a b -> x y z) in a batch with a row of four
/// target tokens:
///
///   source         a     b     <eos>  <pad>
///   decoder_input  <bos> x     y      z      <pad>
///   labels         x     y     z      <eos>  no_label
struct Batch {
  std::size_t rows = 0;
  std::size_t source_length = 0;  ///< of every row of source, padding included
  std::size_t target_length = 0;  ///< of every row of decoder_input and labels, padding included

  std::vector<std::int32_t> source;         ///< (rows, source_length): sentence, <eos>, padding
  std::vector<std::int32_t> decoder_input;  ///< (rows, target_length): <bos>, sentence, padding
  std::vector<std::int32_t> labels;         ///< (rows, target_length): sentence, <eos>, padding

  std::vector<std::size_t> source_lengths;  ///< (rows): without padding, <eos> included
  std::vector<std::size_t> target_lengths;  ///< (rows): without padding, <bos> or <eos> included
  std::size_t target_tokens = 0;            ///< labels other than no_label

  std::vector<std::size_t> examples;  ///< (rows): which pairs these are
};

/// The batch of the pairs with these indices, in this order. Sentences may be empty, as targets are
/// when only the source of a batch is wanted.
///
/// throws  std::invalid_argument if there are no indices, std::out_of_range if an index is too
///         large.
Batch make_batch(const std::vector<SentencePair>& pairs, std::span<const std::size_t> indices);

/// The same into a batch that is used again: takes memory only for a batch larger than all before.
void fill_batch(const std::vector<SentencePair>& pairs, std::span<const std::size_t> indices,
                Batch& batch);

}  // namespace tapestry
