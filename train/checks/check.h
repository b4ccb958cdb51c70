// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "autograd/ids.h"
#include "autograd/named_tensor.h"
#include "autograd/ops/losses.h"
#include "autograd/tensor.h"
#include "data/batch.h"
#include "layers/basic_layers.h"
#include "layers/model.h"

/// The properties that `tapestry check` verifies. The checks find errors in a model that neither
/// throw an exception nor make the loss implausible. Checks that compare bits have no tolerance;
/// the other checks define their tolerances and print them in their results.
namespace tapestry {

/// A model split into stages whose intermediate values the checks read. Each stage is a separate
/// function, so that a test can replace it with a faulty function.
struct CheckedModel {
  std::vector<NamedTensor> parameters;

  std::function<TokenVectors(const NetworkInput& input, const Mode& mode)> embed;
  /// Returns (rows, labels per row, width). Reads only the lengths of the tokens in `input`.
  std::function<Tensor(const TokenVectors& vectors, const NetworkInput& input, const Mode& mode)>
      features;
  /// Returns (rows, labels per row, vocabulary or classes).
  std::function<Tensor(const Tensor& features)> logits;
  /// The training loss, a scalar.
  std::function<Tensor(const Tensor& features, const Ids& labels,
                       const CrossEntropyOptions& options)>
      loss;

  DType dtype() const { return parameters.front().tensor.dtype(); }
  void zero_grad();
};

/// The stages of `model`, which share ownership of the model.
CheckedModel checked_model(std::shared_ptr<const Model> model);

/// The model to check, and the batches for the checks.
struct CheckContext {
  std::function<CheckedModel(DType)> copy;  ///< makes a new copy of the model, without gradients
  DType dtype;                              ///< element type of training
  bool trained;                             ///< false if the parameters have their initial values
  bool has_running_averages;      ///< true for batch norm, which uses running averages in inference
  std::size_t vocabulary;         ///< target tokens or classes
  std::string learning_limit;     ///< why the model might not overfit a batch; may be empty
  bool causal;                    ///< true if no logits depend on later target tokens
  std::size_t max_source_length;  ///< maximum number of tokens
  std::size_t max_target_length;  ///< maximum number of tokens
  double label_smoothing;
  std::uint64_t seed;      ///< seed of dropout
  std::size_t tied_width;  ///< d_model if output and embedding weights are tied, otherwise 0
  Batch batch;             ///< a few sentences
  Batch large_batch;       ///< enough sentences to occupy several threads
};

enum class CheckStatus { passed, failed, skipped };

struct CheckResult {
  CheckStatus status;
  std::string
      details;  ///< the compared values, and the position of the first difference after a failure
};

CheckResult passed(std::string details);
CheckResult failed(std::string details);
/// The result if the check does not apply to the model.
CheckResult skipped(std::string reason);

struct Check {
  const char* name;
  const char* meaning;  ///< the property of a correct model, in one sentence
  CheckResult (*run)(const CheckContext& context);
};

/// The result of `check`. An exception is a failure whose details are the exception's message;
/// std::bad_alloc is rethrown.
CheckResult run_check(const Check& check, const CheckContext& context);

/// All checks below, in this order.
std::span<const Check> all_checks();

// ---- Independence: independence.cpp.

/// dlogits[t] / d(target input after t) is exactly 0, and dlogits[t] / d(target input up to t) is
/// not all 0. Likewise, the gradient with respect to the source is exactly 0 at padding and not all
/// 0 at tokens.
CheckResult causality(const CheckContext& context);

/// Neither different values in the padding nor more padding changes the logits of tokens or the
/// loss (up to allowed_rounding()).
CheckResult padding(const CheckContext& context);

/// Permuting the sentences of a batch only permutes their logits (up to allowed_rounding()).
CheckResult permutation(const CheckContext& context);

// ---- Reproducibility: reproducibility.cpp.

/// Logits, loss and gradients, computed with dropout, are bit-identical for 1, 2, 3 and all
/// threads.
CheckResult threads(const CheckContext& context);

/// The gradients of two half batches, each normalized by the token count of the whole batch, sum to
/// the gradients of the whole batch.
CheckResult gradient_accumulation(const CheckContext& context);

/// Repeating a step with dropout gives bit-identical results; a second backward pass without
/// clearing the gradients doubles them, up to rounding.
CheckResult repeated_step(const CheckContext& context);

/// Loss and gradients in float32 agree with the float64 results.
CheckResult precision(const CheckContext& context);

// ---- Learning: learning.cpp.

/// Before training, the cross entropy of the logits is near ln(vocabulary), the cross entropy of a
/// uniform prediction. This does not depend on the loss function of the network. The tolerance is
/// larger for tied embeddings, since they favor the token that was just read.
CheckResult initial_loss(const CheckContext& context);

/// The model overfits a single batch: its loss reaches minimum_loss(). Trains until the loss
/// stagnates, for at most 6,000 steps. Uses float32, without
/// dropout and label smoothing. Skipped for a model that reads too few tokens to overfit, or has
/// fewer parameters than the batch has labels.
CheckResult overfit_batch(const CheckContext& context);

/// The loss depends on every parameter.
CheckResult parameters_have_gradients(const CheckContext& context);

/// The lowest mean loss that any model can reach on a batch. If equal inputs have different labels,
/// such as the first tokens of different texts, the best prediction is the relative frequency of
/// each label.
///
/// causal  whether each label is predicted from the inputs up to its own position, not from the
///         whole row
double minimum_loss(const Batch& batch, bool causal);

}  // namespace tapestry
