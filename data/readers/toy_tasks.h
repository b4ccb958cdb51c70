// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "data/corpus.h"
#include "data/readers/generated_corpus.h"

/// Generated tasks on sentences of a small French-English language.
namespace tapestry {

// Corpora of sentences drawn by toy::draw_sentence(); draw_splits() defines which sentences are
// held out. The vocabulary contains all words of the language. The fingerprint is not set.
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
