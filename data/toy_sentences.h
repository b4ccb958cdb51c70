#pragma once

#include "data/corpus.h"
#include "data/options.h"

namespace tapestry {

/// The corpus of toy_sentences: French sentences of the toy grammar between <bos> and <eos>, with
/// nothing to translate them into. Held-out ones are as draw_splits() promises.
///
/// throws  DataError if train_size is 0.
Corpus make_toy_sentences(const DataOptions& options);

/// The corpus of toy_agreement: <bos> and a French sentence whose subject is singular; half of them
/// are right, in the others the determiner and the adjectives of the subject have the other gender
/// than its noun. The classes are `right` and `wrong`; the words are those of toy_sentences.
///
/// throws  DataError if train_size is 0.
Corpus make_toy_agreement(const DataOptions& options);

}  // namespace tapestry
