// SPDX-License-Identifier: BSD-3-Clause
#include "train/checks/check.h"

#include <exception>
#include <new>
#include <utility>

namespace tapestry {

void CheckedModel::zero_grad() {
  for (NamedTensor& parameter : parameters) parameter.tensor.zero_grad();
}

CheckedModel checked_model(std::shared_ptr<const Model> model) {
  const auto embed = [model](const NetworkInput& input, const Mode& mode) {
    return model->network->embed(input, mode);
  };
  const auto features = [model](const TokenVectors& vectors, const NetworkInput& input,
                                const Mode& mode) {
    return model->network->features(vectors, input, mode);
  };
  const auto logits = [model](const Tensor& x) { return model->network->logits(x); };
  const auto loss = [model](const Tensor& x, const Ids& labels,
                            const CrossEntropyOptions& options) {
    return model->network->loss(x, labels, options).mean;
  };
  return {.parameters = model->parameters.list(),
          .embed = embed,
          .features = features,
          .logits = logits,
          .loss = loss};
}

CheckResult passed(std::string details) { return {CheckStatus::passed, std::move(details)}; }

CheckResult failed(std::string details) { return {CheckStatus::failed, std::move(details)}; }

CheckResult skipped(std::string reason) { return {CheckStatus::skipped, std::move(reason)}; }

CheckResult run_check(const Check& check, const CheckContext& context) {
  try {
    return check.run(context);
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    return failed(error.what());
  }
}

std::span<const Check> all_checks() {
  static constexpr Check all[] = {
      {"causality", "outputs do not depend on later inputs or on padding", causality},
      {"padding", "more padding does not change the outputs", padding},
      {"permutation", "outputs do not depend on the order of the examples", permutation},
      {"threads", "results are bit-identical for any number of threads", threads},
      {"accumulation", "the gradients of two half batches add up to the gradients of the whole",
       gradient_accumulation},
      {"repetition", "a repeated step is bit-identical, and gradients accumulate", repeated_step},
      {"precision", "float32 agrees with float64", precision},
      {"initial loss", "before training, the cross entropy is near ln(vocabulary)", initial_loss},
      {"overfitting", "the model overfits a few examples", overfit_batch},
      {"gradients", "every parameter has a gradient", parameters_have_gradients},
  };
  return all;
}

}  // namespace tapestry
