#pragma once

#include <variant>

#include "autograd/ids.h"
#include "layers/encoder_models.h"
#include "layers/model.h"
#include "layers/parameters.h"
#include "layers/transformer.h"
#include "tests/bench/problems.h"

namespace tapestry::bench {

/// Random ids, none of them padding.
struct Batch {
  explicit Batch(const Problem& problem);

  TokenBatch source;  ///< empty for a language model
  TokenBatch target;  ///< what the decoder reads
  Ids labels;         ///< (rows, length), what it is to say
};

/// The model of a problem, encoder-decoder or decoder-only, with its parameters in float32.
class Model {
 public:
  explicit Model(const Problem& problem);

  /// Cross entropy with label smoothing 0.1. Training has dropout.
  Tensor loss(const Batch& batch, const Mode& mode) const;

  Parameters& parameters() { return parameters_; }
  const Parameters& parameters() const { return parameters_; }

 private:
  Parameters parameters_;
  std::variant<Transformer, LanguageModel> model_;
};

}  // namespace tapestry::bench
