#pragma once

#include <cstddef>

#include "data/corpus.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// Makes sure that a model can read and write every example of a corpus, for the tokens of which,
/// <bos> and <eos> included, `max_length` positions must do.
///
/// throws  DataError that names the first pair or sentence that is too long.
void require_fitting_sentences(const Corpus& corpus, const TransformerOptions& model);

}  // namespace tapestry
