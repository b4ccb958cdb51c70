#pragma once

#include "data/corpus.h"
#include "data/options.h"
#include "data/random.h"
#include "data/toy_grammar.h"

namespace tapestry {

/// A random sentence of the toy grammar: three to seventeen French words, animals as subjects,
/// places as places. The object of a negated verb has no indefinite determiner, for French would
/// then say "pas de" for singular and plural alike.
toy::Sentence draw_sentence(RandomDraws& random);

/// The corpus of toy_translation: French sources, English targets, every word known. Held-out pairs
/// are as draw_splits() promises. The fingerprint is not set.
///
/// throws  DataError if train_size is 0.
Corpus make_toy_translation(const DataOptions& options);

}  // namespace tapestry
