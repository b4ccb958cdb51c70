#pragma once

#include <cstdint>
#include <string>

#include "layers/model.h"
#include "train/tasks/task.h"

namespace tapestry::test {

/// A model of the kind that `kind`, a value of model.kind, names.
inline Model make_model(const std::string& kind, const TransformerOptions& options,
                        const NetworkSizes& sizes, DType dtype, std::uint64_t seed) {
  Config config;
  config.model_kind = kind;
  config.model = options;
  return Model(network_maker(config, sizes), dtype, seed);
}

}  // namespace tapestry::test
