// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "data/corpus.h"
#include "data/examples.h"

namespace tapestry {

/// The label of a position where no token is predicted.
inline constexpr std::int32_t no_label = -1;

struct BatchRules;

/// Pointers to one row of a Batch. Elements that RowLayout::write() does not set are padding.
struct BatchRow {
  std::int32_t* source;  ///< RowLayout::source_length(example) elements
  std::int32_t* input;   ///< RowLayout::target_length(example) elements
  std::int32_t* labels;  ///< RowLayout::target_length(example) elements
};

/// Defines how an example becomes a row of a batch.
struct RowLayout {
  std::size_t (*source_length)(const ExampleLengths&);  ///< source tokens, including `<eos>`
  std::size_t (*target_length)(const ExampleLengths&);  ///< labels, including no_label
  /// Writes the example with this index to its row.
  void (*write)(const Example&, std::size_t index, const BatchRules&, const BatchRow&);
  bool labels_are_classes = false;  ///< whether targets are classes instead of tokens
};

/// Rows of pairs, such as a sentence and its translation. The row of the pair (a b -> x y z),
/// padded to the length of longer examples:
///
///     source  a     b     <eos>  <pad>
///     input   <bos> x     y      z      <pad>
///     labels  x     y     z      <eos>  no_label
///
/// The layout of taggers is in train/tasks/sequence_tagging.cpp.
extern const RowLayout pair_rows;

/// Rows of windows of a text: each token after the first is predicted from the tokens before it.
/// The row of the window x y z:
///
///     input   x     y     <pad>
///     labels  y     z     no_label
extern const RowLayout window_rows;

/// Rows for predicting masked tokens, see mask_tokens(). The row of x y z with y masked:
///
///     input   x         <unk>  z         <pad>
///     labels  no_label  y      no_label  no_label
extern const RowLayout masked_rows;

/// Rows of masked_rows for inference: no token is masked or predicted. The row of x y z:
///
///     input   x         y         z         <pad>
///     labels  no_label  no_label  no_label  no_label
extern const RowLayout unmasked_rows;

/// Rows of examples with one class. The row of the sentence a b, or of an image, with class 1:
///
///     source  a     b     <eos>  <pad>   (empty for pixels)
///     input   <pad>                      (not read)
///     labels  1
extern const RowLayout class_rows;

/// Replaces an example before it becomes a row of a batch, for example with a different
/// segmentation of its text. Must be a pure function of its arguments.
using ExampleTransform =
    std::function<Example(const Example&, std::size_t index, std::uint64_t epoch)>;

/// The rules that turn examples into batches.
struct BatchRules {
  RowLayout layout = pair_rows;  ///< how an example becomes a row
  std::size_t vocabulary = 0;    ///< size of the target vocabulary; masked_rows samples from it
  std::uint64_t seed = 0;        ///< seed of masking
  std::uint64_t epoch = 0;       ///< epoch of masking and of the transform
  std::shared_ptr<const ExampleTransform> transform{};  ///< null leaves examples unchanged
};

/// Examples padded to the length of the longest example: tokens with `<pad>`, labels with no_label.
/// Arrays are row-major with one row per example. RowLayout defines their content.
struct Batch {
  std::size_t rows = 0;           ///< number of examples
  std::size_t source_length = 0;  ///< length of every row of source, with padding
  std::size_t target_length = 0;  ///< length of every row of input and labels, with padding

  /// (rows, source_length): source tokens of pairs and of sentences to classify
  std::vector<std::int32_t> source;
  /// (rows, target_length): decoder input of pairs; the only input of windows, masked and tagged
  /// sentences
  std::vector<std::int32_t> input;
  std::vector<std::int32_t> labels;  ///< (rows, target_length): token ids, or classes from 0

  std::vector<std::size_t> source_lengths;  ///< (rows): unpadded lengths, including `<eos>`
  std::vector<std::size_t> target_lengths;  ///< (rows): length of input and labels without padding
  std::size_t target_tokens = 0;            ///< number of labels other than no_label

  std::vector<float> pixels;  ///< (rows, pixel values per image); empty without images

  std::vector<std::size_t> examples;  ///< (rows): index of the example in each row
  std::uint64_t epoch = 0;            ///< copy of BatchRules::epoch

  friend bool operator==(const Batch&, const Batch&) = default;
};

/// Number of token positions in a target row of this length: 0 for a classifier, whose rows have
/// length 1. Padding is reported as a share of these positions.
inline std::size_t target_positions(std::size_t target_length) {
  return target_length == 1 ? 0 : target_length;
}

/// Makes a batch of the examples with these indices, in this order. Either side of a pair may be
/// empty.
///
/// throws  std::invalid_argument if there are no indices, std::out_of_range if an index is too
///         large.
Batch make_batch(const Examples& examples, std::span<const std::size_t> indices,
                 const BatchRules& rules = {});

/// Replaces the content of `batch`; allocates only if the batch is larger than all earlier ones.
void fill_batch(const Examples& examples, std::span<const std::size_t> indices, Batch& batch,
                const BatchRules& rules = {});

/// Number of positions that a model needs for an example: the length of its longer row.
std::size_t longest_side(const ExampleLengths& example, const RowLayout& layout);

/// Number of tokens in the source and target rows of the examples, including `<eos>`; see
/// target_positions().
std::uint64_t count_tokens(const Examples& examples, const RowLayout& layout);

/// The share of `<unk>` among the tokens of the examples, in [0, 1]. Other special symbols and
/// class labels are not counted.
double share_of_unknown_tokens(const Examples& examples, const RowLayout& layout);

/// Masks tokens as BERT does [1]: each word of `tokens` is selected with probability 15 %, and at
/// least one word is selected; a selected word becomes `<unk>` (the mask token) with probability
/// 80 %, a random word with probability 10 %, and stays unchanged otherwise. Special symbols are
/// never selected, except `<unk>` in a sentence without other words.
///
/// tokens   without padding
/// rules    vocabulary, seed and epoch; the selection depends only on these and on `example`
/// input    output: the masked tokens, tokens.size() ids
/// labels   output: the original ids of the selected tokens, no_label for all others
///
/// [1] Devlin et al. 2019, "BERT: Pre-training of Deep Bidirectional Transformers", section 3.1.
void mask_tokens(std::span<const std::int32_t> tokens, const BatchRules& rules, std::size_t example,
                 std::int32_t* input, std::int32_t* labels);

}  // namespace tapestry
