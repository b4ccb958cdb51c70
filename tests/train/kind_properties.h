#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

#include "train/tasks/task.h"

/// What a kind of model is, by its task.
namespace tapestry::test {

/// Whether the kind lists a key that not all kinds use.
inline bool lists_key(std::string_view model_kind, std::string_view key) {
  const std::vector<std::string_view>& keys = find_task(model_kind).kind().keys;
  return std::ranges::find(keys, key) != keys.end();
}

/// Whether the kind has an encoder.
inline bool encodes(std::string_view model_kind) {
  return lists_key(model_kind, "model.num_encoder_layers");
}

/// Whether the kind has a decoder.
inline bool decodes(std::string_view model_kind) {
  return lists_key(model_kind, "model.num_decoder_layers");
}

/// Whether the kind predicts classes instead of tokens.
inline bool predicts_classes(std::string_view model_kind) {
  return find_task(model_kind).layout().labels_are_classes;
}

}  // namespace tapestry::test
