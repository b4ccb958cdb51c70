#pragma once

#include <cstddef>
#include <cstdint>

#include "layers/parameters.h"
#include "layers/transformer.h"
#include "layers/transformer_options.h"

namespace tapestry {

/// Numbers of entries, special symbols included.
struct VocabularySizes {
  std::size_t source, target;
};

/// An encoder-decoder Transformer together with its parameters, gathered for the optimiser. Initial
/// values are keyed by `seed`.
struct Seq2SeqModel {
  Seq2SeqModel(const TransformerOptions& options, VocabularySizes vocabularies, DType dtype,
               std::uint64_t seed);

  Parameters parameters;
  Transformer transformer;
};

}  // namespace tapestry
