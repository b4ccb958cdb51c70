#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "train/config.h"
#include "train/model.h"

namespace tapestry {

/// A configured model with what it is to learn, for commands that examine models.
struct ConfiguredModel {
  Config config;
  ParallelCorpus corpus;
  std::string origin;            ///< where its values are from, for the reader
  bool trained;                  ///< false for the initial values of a config
  std::unique_ptr<Model> model;  ///< float64

  /// The first pairs of the training set, at most `rows` of them; for copies of the model in
  /// another element type, see `with_dtype`.
  Batch first_batch(std::size_t rows) const;
  std::unique_ptr<Model> with_dtype(DType dtype) const;
};

/// The model that `path` stands for, in float64. A config file, with `overrides`: as training would
/// begin with it. A run directory or a checkpoint: with the trained weights, without overrides.
///
/// throws  ConfigError, CheckpointError, DataError.
ConfiguredModel open_model(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace tapestry
