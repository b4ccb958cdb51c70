// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <variant>

#include "autograd/ids.h"
#include "layers/encoder_models.h"
#include "layers/model.h"
#include "layers/parameters.h"
#include "layers/transformer.h"
#include "optim/optimizer.h"
#include "tests/bench/problems.h"

namespace tapestry::bench {

/// Random token ids, none of which is the padding id.
struct Batch {
  explicit Batch(const Problem& problem);

  TokenBatch source;  ///< empty for a language model
  TokenBatch target;  ///< input of the decoder
  Ids labels;         ///< (rows, length), expected output
};

/// A problem's float32 model (encoder-decoder or decoder-only), its batch and its optimizer.
/// Trains repeatedly on the same batch.
class TrainingStep {
 public:
  explicit TrainingStep(const Problem& problem);

  /// Runs one whole training step: forward with dropout 0.1, cross entropy with label smoothing
  /// 0.1, backward, clipping to a norm of 1, Adam.
  void run();

  /// The loss of the batch with the current parameters, without dropout.
  double evaluate() const;

  const Batch& batch() const { return batch_; }
  const Parameters& parameters() const { return parameters_; }

 private:
  Tensor loss(const Mode& mode) const;

  Parameters parameters_;
  std::variant<Transformer, LanguageModel> model_;
  Batch batch_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace tapestry::bench
