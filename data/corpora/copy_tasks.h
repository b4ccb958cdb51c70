#pragma once

#include "data/corpus.h"
#include "data/options.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// The symbols of copy, reverse and sort, smallest first: a, b, ... up to 26 of them, otherwise
/// s0, s1, ... Symbol k has the id first_word_id + k.
Vocabulary copy_task_symbols(std::size_t num_symbols);

/// The corpus of copy, reverse or sort: sources of a length that is uniform in [min_length,
/// max_length] with uniform symbols; the target is the source unchanged, reversed or in ascending
/// order. Held-out pairs are as draw_splits() defines them. The fingerprint is not set.
///
/// throws  DataError if an option is out of its range or there are too few different sequences.
Corpus make_copy_task(const DataOptions& options);

}  // namespace tapestry
