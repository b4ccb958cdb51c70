#pragma once

#include "data/corpus.h"
#include "data/io/random.h"
#include "data/readers/held_out.h"
#include "data/readers/toy_language.h"

namespace tapestry {

/// A random sentence of the toy language: 3 to 17 French words; subjects are animals, places are
/// nouns of places. The object of a negated verb has no indefinite determiner, because French has
/// "pas de" for singular and plural alike.
toy::Sentence draw_sentence(RandomDraws& random);

// Corpora of sentences drawn by draw_sentence(), with held-out examples as defined by
// draw_splits(). The vocabulary has all words. The fingerprint is not set.
//
// throws  DataError if train_size is 0, or as draw_splits().

/// The corpus of toy_translation: French sources, English targets.
Corpus make_toy_translation(const GeneratedOptions& options);

/// The corpus of toy_sentences: French sentences between <bos> and <eos>.
Corpus make_toy_sentences(const GeneratedOptions& options);

/// The corpus of toy_agreement: <bos> and a French sentence with a singular subject. Its class is
/// `right`, or in half of the sentences `wrong`: there the determiner and the adjectives of the
/// subject do not agree with its noun in gender. The vocabulary is that of toy_sentences.
Corpus make_toy_agreement(const GeneratedOptions& options);

}  // namespace tapestry
