// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

#include "data/corpus.h"
#include "data/readers/generated_corpus.h"
#include "data/text/vocabulary.h"

/// Generated tasks on sequences of symbols: copy, reverse and sort.
namespace tapestry {

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

}  // namespace tapestry
