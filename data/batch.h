#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "data/corpus.h"

namespace tapestry {

/// The label of a position without a prediction.
inline constexpr std::int32_t no_label = -1;

struct BatchRules;

/// The first elements of a row of a batch; what nobody writes is padding.
struct BatchRow {
  std::int32_t *source, *input, *labels;
};

/// How an example becomes a row of a batch.
struct RowLayout {
  std::size_t (*source_length)(const Example&);  ///< tokens of the source, <eos> included
  std::size_t (*target_length)(const Example&);  ///< inputs and labels, no_label included
  void (*write)(const Example&, std::size_t index, const BatchRules&, const BatchRow&);
  bool labels_are_classes = false;  ///< the target of an example has classes, not tokens
};

/// Each row of these layouts, with padding in a batch of longer examples:
///
///   pair_rows      of the pair (a b -> x y z)
///     source         a     b     <eos>  <pad>
///     decoder_input  <bos> x     y      z      <pad>
///     labels         x     y     z      <eos>  no_label
///   window_rows    of the window x y z: each token but the first, given those before
///     decoder_input  x     y     <pad>
///     labels         y     z     no_label
///   masked_rows    of x y z, where y is masked [1], see mask_tokens()
///     decoder_input  x  <unk>  z  <pad>
///     labels         no_label  y  no_label  no_label
///   unmasked_rows  of x y z: nothing is masked, and nothing predicted
///     decoder_input  x  y  z  <pad>
///     labels         no_label
///   class_rows     of the sentence a b, or of pixels, in the second class
///     source         a     b     <eos>  <pad>   (nothing for pixels)
///     labels         1
///
/// [1] Devlin et al. 2019, "BERT".
extern const RowLayout pair_rows, window_rows, masked_rows, unmasked_rows, class_rows;

/// How examples become batches.
struct BatchRules {
  RowLayout layout = pair_rows;
  std::size_t vocabulary = 0;  ///< of the target; masked_rows draws from it
  std::uint64_t seed = 0;      ///< of masking
  std::uint64_t epoch = 0;     ///< of masking
};

/// Examples, padded to the longest with <pad>, labels with no_label. Arrays are row-major with one
/// row for each example.
struct Batch {
  std::size_t rows = 0;
  std::size_t source_length = 0;  ///< of every row of source, padding included
  std::size_t target_length = 0;  ///< of every row of decoder_input and labels, padding included

  std::vector<std::int32_t> source;         ///< (rows, source_length)
  std::vector<std::int32_t> decoder_input;  ///< (rows, target_length)
  std::vector<std::int32_t> labels;         ///< (rows, target_length); ids, or classes from 0

  std::vector<std::size_t> source_lengths;  ///< (rows): without padding, <eos> included
  std::vector<std::size_t> target_lengths;  ///< (rows): without padding, <bos> or <eos> included
  std::size_t target_tokens = 0;            ///< labels other than no_label

  std::vector<float> pixels;  ///< (rows, values of an image); empty without images

  std::vector<std::size_t> examples;  ///< (rows): indices of the examples
};

/// The batch of the examples with these indices, in this order. Sentences of pairs may be empty.
///
/// throws  std::invalid_argument if there are no indices, std::out_of_range if an index is too
///         large.
Batch make_batch(const std::vector<Example>& examples, std::span<const std::size_t> indices,
                 const BatchRules& rules = {});

/// Replaces the content of `batch`; allocates only if it is larger than all contents before.
void fill_batch(const std::vector<Example>& examples, std::span<const std::size_t> indices,
                Batch& batch, const BatchRules& rules = {});

/// The number of positions that a model needs for the longer of source and target of an example.
std::size_t longest_side(const Example& example, const RowLayout& layout);

/// The share of <unk> among the tokens of the examples, in [0, 1]. Other special symbols and class
/// labels do not count as tokens.
double share_of_unknown_tokens(const std::vector<Example>& examples, const RowLayout& layout);

/// Masks tokens as BERT does [1]: each word of `tokens` is chosen with probability 15 %, and at
/// least one word in all; a chosen word becomes <unk> (the mask) with probability 80 %, a random
/// word with 10 %, and is unchanged with 10 %. Special symbols are never chosen, except <unk> if
/// there is no other word.
///
/// tokens   without padding
/// rules    vocabulary, seed and epoch; the choice depends on these and `example` alone
/// input    output: the masked tokens, tokens.size() ids
/// labels   output: the original ids of the chosen tokens, no_label for all others
///
/// [1] Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers", section 3.1.
void mask_tokens(std::span<const std::int32_t> tokens, const BatchRules& rules, std::size_t example,
                 std::int32_t* input, std::int32_t* labels);

}  // namespace tapestry
