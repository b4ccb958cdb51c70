// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "layers/model.h"
#include "train/checkpoint/open_run.h"
#include "train/config/config.h"

namespace tapestry {

/// A model with its data, for commands that examine models.
struct ModelWithData {
  Config config;
  Corpus corpus;
  ModelOrigin origin;
  bool trained;                  ///< false for the initial values of a config
  std::unique_ptr<Model> model;  ///< with float64 parameters

  /// The first examples of the training set, at most `rows`. If the training files of a trained
  /// model are missing, returns examples of a held-out set.
  Batch first_batch(std::size_t rows) const;
  /// A copy of the model with a different element type.
  std::unique_ptr<Model> with_dtype(DType dtype) const;
};

/// Opens the model that `path` names, in float64. A config file with `overrides` gives the model
/// with its initial values. A run directory or a checkpoint gives the trained model, see
/// open_trained(). Applies the process settings of the config.
///
/// throws  ConfigError, CheckpointError, DataError.
ModelWithData open_model(const std::string& path, const std::vector<std::string>& overrides);

}  // namespace tapestry
