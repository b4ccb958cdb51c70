// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "data/corpus.h"
#include "data/io/random.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// The sizes of a generated corpus.
struct GeneratedOptions {
  std::size_t train_size = 20000;      ///< number of training sequences
  std::size_t validation_size = 1000;  ///< number of validation sequences, all different
  std::size_t test_size = 1000;        ///< number of test sequences, all different
  std::uint64_t seed = 1;              ///< seed of the generated sequences
};

/// The part of a generated corpus that a sentence belongs to.
enum class Split {
  train,       ///< 18 in 20 sentences
  validation,  ///< 1 in 20
  test         ///< 1 in 20
};

/// The part of a source sentence, by a hash of its ids keyed by the seed: one sentence in 20 is for
/// validation and one in 20 for testing. The part depends only on the content, so a held-out
/// sentence never occurs in the training set, and the training set has sentences of every length.
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

/// The options of the copy, reverse and sort tasks.
struct SymbolOptions {
  std::size_t num_symbols = 20;  ///< number of different symbols, >= 2
  std::size_t min_length = 1;    ///< minimum sequence length, >= 1
  std::size_t max_length = 16;   ///< maximum sequence length, >= min_length
};

/// The vocabulary of copy, reverse and sort, in ascending order: a, b, ... for up to 26 symbols,
/// otherwise s0, s1, ... Symbol k has the id first_word_id + k.
Vocabulary symbol_vocabulary(std::size_t num_symbols);

// Corpora of sequence pairs. The length of a source is uniform in [min_length, max_length] and its
// symbols are uniform; draw_splits() defines which pairs are held out. The fingerprint is not set.
//
// throws  DataError if an option is out of range or there are too few different sequences.

/// The target is the source, unchanged.
Corpus make_copy_task(const SymbolOptions& symbols, const GeneratedOptions& sizes);
/// The target is the source in reverse order.
Corpus make_reverse_task(const SymbolOptions& symbols, const GeneratedOptions& sizes);
/// The target is the source in ascending order.
Corpus make_sort_task(const SymbolOptions& symbols, const GeneratedOptions& sizes);

// Corpora of sentences drawn by draw_sentence(); draw_splits() defines which sentences are held
// out. The vocabulary has all words. The fingerprint is not set.
//
// throws  DataError like draw_splits().

/// The corpus of toy_translation: French sources, English targets.
Corpus make_toy_translation(const GeneratedOptions& options);

/// The corpus of toy_sentences: French sentences between `<bos>` and `<eos>`.
Corpus make_toy_sentences(const GeneratedOptions& options);

/// The corpus of toy_agreement: `<bos>` and a French sentence with a singular subject. Half of the
/// sentences have the class `right`. The others are `wrong`: the determiner and the adjectives of
/// the subject do not agree with its noun in gender. The vocabulary is the same as for
/// toy_sentences.
Corpus make_toy_agreement(const GeneratedOptions& options);

}  // namespace tapestry
