// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "layers/transformer.h"

/// The kinds of models of the program, for tests that distinguish them.
namespace tapestry::test {

enum class ModelKind {
  seq2seq,
  language_model,
  masked_language_model,
  classifier,
  vision_transformer,
  tagger
};

/// The values of model.kind, in the order of ModelKind.
inline constexpr auto model_kind_names =
    std::to_array<std::string_view>({"seq2seq", "language_model", "masked_language_model",
                                     "classifier", "vision_transformer", "tagger"});

/// All kinds.
inline constexpr auto every_model_kind = [] {
  std::array<ModelKind, model_kind_names.size()> kinds{};
  for (std::size_t i = 0; i < kinds.size(); ++i) kinds[i] = static_cast<ModelKind>(i);
  return kinds;
}();

/// The value of model.kind.
inline std::string model_kind_name(ModelKind kind) {
  return std::string(model_kind_names.at(static_cast<std::size_t>(kind)));
}

inline ModelKind model_kind_named(std::string_view name) {
  for (std::size_t i = 0; i < model_kind_names.size(); ++i) {
    if (model_kind_names[i] == name) return static_cast<ModelKind>(i);
  }
  throw std::invalid_argument("the tests do not know the model kind " + std::string(name) +
                              ": add it to ModelKind and model_kind_names in "
                              "tests/support/model_kind.h");
}

/// The options of a model and its kind.
struct KindOptions : TransformerOptions {
  ModelKind kind;
};

}  // namespace tapestry::test
