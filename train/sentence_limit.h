#pragma once

#include <cstddef>

#include "data/corpus.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// Makes sure that a model can read and write every sentence of a corpus: with <bos> or <eos> it
/// becomes a sequence of one token more, for which `max_length` positions must do.
///
/// throws  DataError that names the first pair that is too long.
void require_fitting_sentences(const ParallelCorpus& corpus, const TransformerOptions& model);

}  // namespace tapestry
