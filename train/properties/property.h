#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "data/batch.h"
#include "train/properties/examined_model.h"

namespace tapestry {

/// What the properties are asked of.
struct Subject {
  std::function<ExaminedModel(DType)> copy;  ///< a model with values of its own, no gradients yet
  DType dtype;                               ///< in which it is trained
  bool trained;                              ///< false for initial values
  bool has_averages;                         ///< running ones, which are taken for inference
  std::size_t vocabulary;                    ///< target entries
  std::string handicap;                      ///< why it may not be able to learn all; or empty
  bool causal;                               ///< no logits depend on target tokens behind theirs
  std::size_t max_source_length;             ///< tokens that the model has places for
  std::size_t max_target_length;
  double label_smoothing;
  std::uint64_t seed;      ///< of dropout
  std::size_t tied_width;  ///< d_model if the output projection is an embedding's matrix, else 0
  Batch batch;             ///< a few sentences
  Batch large_batch;       ///< so many that there is work for several threads
};

enum class PropertyVerdict { holds, fails, not_asked };

struct PropertyResult {
  PropertyVerdict verdict;
  std::string text;  ///< what was compared, with figures; or what is wrong, where, with values
};

PropertyResult holds(std::string text);
PropertyResult fails(std::string text);
/// For a subject of which the property says nothing.
PropertyResult not_asked(std::string text);

struct Property {
  const char* name;
  const char* meaning;  ///< what holds, in one sentence
  PropertyResult (*examine)(const Subject& subject);
};

/// The result of `property`; what it throws makes it fail with that text, but for std::bad_alloc.
PropertyResult examine(const Property& property, const Subject& subject);

}  // namespace tapestry
