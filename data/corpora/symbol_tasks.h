#pragma once

#include <cstddef>

#include "data/corpora/held_out.h"
#include "data/corpus.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// The sequences of copy, reverse and sort.
struct SymbolOptions {
  std::size_t num_symbols = 20;  ///< different symbols, >= 2
  std::size_t min_length = 1;    ///< shortest sequence, >= 1
  std::size_t max_length = 16;   ///< longest sequence, >= min_length
};

/// The symbols of copy, reverse and sort, smallest first: a, b, ... up to 26 of them, otherwise
/// s0, s1, ... Symbol k has the id first_word_id + k.
Vocabulary symbol_vocabulary(std::size_t num_symbols);

// Pairs of sequences. Sources have a length that is uniform in [min_length, max_length] and uniform
// symbols; held-out pairs are as draw_splits() defines them. The fingerprint is not set.
//
// throws  DataError if an option is out of its range or there are too few different sequences.

/// The target is the source, unchanged.
Corpus make_copy_task(const SymbolOptions& symbols, const GeneratedOptions& sizes);
/// The target is the source from back to front.
Corpus make_reverse_task(const SymbolOptions& symbols, const GeneratedOptions& sizes);
/// The target is the source in ascending order.
Corpus make_sort_task(const SymbolOptions& symbols, const GeneratedOptions& sizes);

}  // namespace tapestry
