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
#include "layers/mode.h"
#include "layers/network.h"
#include "layers/model.h"

/// What `tapestry check` verifies: errors of a model that raise no exception and leave the loss
/// plausible. Where bits are compared, no tolerance is given; every other tolerance stands beside
/// its check and in its result.
namespace tapestry {

/// A model split into the stages that checks look between. Each stage is a function of its own, so
/// that a test can replace any of them by a faulty one.
struct CheckedModel {
  std::vector<NamedTensor> parameters;

  std::function<TokenVectors(const NetworkInput& input, const Mode& mode)> embed;
  /// (rows, labels a row, vocabulary or classes). Of the tokens in `input` only the lengths are
  /// read.
  std::function<Tensor(const TokenVectors& vectors, const NetworkInput& input, const Mode& mode)>
      logits;
  /// A scalar, as cross_entropy().
  std::function<Tensor(const Tensor& logits, const Ids& labels, const CrossEntropyOptions& options)>
      loss;

  DType dtype() const { return parameters.front().tensor.dtype(); }
  void clear_gradients();
};

/// The stages of `model`, which they keep alive.
CheckedModel checked_model(std::shared_ptr<const Model> model);

/// The model to check and the examples to check it on.
struct CheckContext {
  std::function<CheckedModel(DType)> copy;  ///< a new copy of the model, without gradients
  DType dtype;                              ///< in which the model is trained
  bool trained;                             ///< false: the parameters have their initial values
  bool has_running_averages;                ///< batch norm, which uses them in inference
  std::size_t vocabulary;                   ///< target tokens or classes
  std::string learning_limit;     ///< why the model may be unable to overfit a batch; or empty
  bool causal;                    ///< no logits depend on later target tokens
  std::size_t max_source_length;  ///< in tokens
  std::size_t max_target_length;  ///< in tokens
  double label_smoothing;
  std::uint64_t seed;      ///< of dropout
  std::size_t tied_width;  ///< d_model if the output projection is tied to an embedding; or 0
  Batch batch;             ///< a few sentences
  Batch large_batch;       ///< enough sentences to occupy several threads
};

enum class CheckStatus { passed, failed, skipped };

struct CheckResult {
  CheckStatus status;
  std::string details;  ///< what was compared, with figures; or what is wrong, where, with values
};

CheckResult passed(std::string details);
CheckResult failed(std::string details);
/// For a model that the check does not apply to.
CheckResult skipped(std::string reason);

struct Check {
  const char* name;
  const char* meaning;  ///< what is true of a correct model, in one sentence
  CheckResult (*run)(const CheckContext& context);
};

/// The result of `check`. An exception is a failure with its message as details, except for
/// std::bad_alloc, which is passed on.
CheckResult run_check(const Check& check, const CheckContext& context);

/// All checks below, in this order.
std::span<const Check> all_checks();

// ---- Independence: independence.cpp.

/// dlogits[t] / d(target input after t) is exactly 0, and not all of it is 0 up to t; the same for
/// the padding and the tokens of a source sentence.
CheckResult causality(const CheckContext& context);

/// Neither other values in the padding nor more padding change a bit of any token's logits, nor of
/// the loss (up to allowed_rounding()).
CheckResult padding(const CheckContext& context);

/// Permuting the sentences of a batch permutes their logits and changes no bit of them (up to
/// allowed_rounding()).
CheckResult permutation(const CheckContext& context);

// ---- Reproducibility: reproducibility.cpp.

/// Logits, loss and gradients, with dropout, have the same bits on 1, 2, 3 and all threads.
CheckResult threads(const CheckContext& context);

/// The gradients of two half batches, each divided by the tokens of both, add up to those of the
/// whole batch.
CheckResult gradient_accumulation(const CheckContext& context);

/// Repeating a step gives the same bits, with dropout; gradients that are not cleared double, up to
/// rounding.
CheckResult repeated_step(const CheckContext& context);

/// Loss and gradients in float32 agree with those in float64.
CheckResult precision(const CheckContext& context);

// ---- Learning: learning.cpp.

/// Before training, the loss is near ln(vocabulary), the loss of guessing; tied embeddings are
/// allowed more, since they favour the token that was just read.
CheckResult initial_loss(const CheckContext& context);

/// A few sentences are learnt up to minimum_loss(), in float32, without dropout and label
/// smoothing.
CheckResult overfit_batch(const CheckContext& context);

/// The loss depends on every parameter.
CheckResult parameters_have_gradients(const CheckContext& context);

/// The lowest mean loss that any model can reach on a batch. Where equal inputs have different
/// labels, as the first tokens of a text have, the best prediction is the frequency of each label.
///
/// causal  a label is predicted from the inputs up to its own position instead of the whole row
double minimum_loss(const Batch& batch, bool causal);

}  // namespace tapestry
