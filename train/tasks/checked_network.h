// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "autograd/anomaly.h"
#include "autograd/kernels/parallel.h"
#include "layers/model.h"
#include "train/base/error.h"

namespace tapestry {

/// Calls a function of a custom model or task. Rethrows exceptions that are not errors of the
/// custom code: UserError, std::bad_alloc, AnomalyError, and kernels::Cancelled, which ends a step
/// after a signal or train.max_time.
///
/// kind      the value of model.kind
/// function  name of the function in messages, such as "make_network"
/// facts     facts for the hint that may help to correct the function; may be empty
/// throws    CustomModelError instead of any other exception.
template <class F>
auto call_custom_code(std::string_view kind, std::string_view function, F&& f,
                      std::string_view facts = "") try {
  return std::forward<F>(f)();
} catch (const UserError&) {
  throw;
} catch (const std::bad_alloc&) {
  throw;
} catch (const AnomalyError&) {
  throw;
} catch (const kernels::Cancelled&) {
  throw;
} catch (const std::exception& error) {
  throw CustomModelError(
      fmt::format("custom model {}: {}() threw: {}", kind, function, error.what()),
      fmt::format("correct {}() of the model, or a function that it calls{}{}", function,
                  facts.empty() ? "" : "; ", facts));
} catch (...) {
  throw CustomModelError(
      fmt::format("custom model {}: {}() threw an object that is not a std::exception", kind,
                  function),
      "throw an exception derived from std::exception");
}

/// Shapes that the results of a custom network must have.
struct NetworkContract {
  std::string kind;                ///< the value of model.kind
  std::size_t logits = 0;          ///< size of the output vocabulary, or number of classes
  bool reads_source = false;       ///< whether batches have source tokens
  bool reads_images = false;       ///< whether batches have images
  bool one_label_per_row = false;  ///< a row has one label instead of one label per target token
};

/// Wraps the network: checks each result against the contract, and converts exceptions of its code,
/// see call_custom_code(). unwrapped() returns `network`.
///
/// The call operators throw CustomModelError if a result does not have the expected shape or
/// element type; the message has the expected shape.
std::unique_ptr<Network> checked_network(std::unique_ptr<Network> network,
                                         NetworkContract contract);

}  // namespace tapestry
