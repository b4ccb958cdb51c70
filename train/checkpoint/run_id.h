// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "data/corpus.h"
#include "layers/model.h"
#include "train/config/config.h"

namespace tapestry {

/// The id of a new run: 16 hexadecimal digits, a digest of the data, of the pretrained parameters
/// and of the config keys that may not change freely on resume, except paths. Deterministic, so
/// that two runs of one config and data write the same bytes. A resumed run keeps its id, even if
/// its config has changed.
///
/// pretrained  model whose parameters are loaded first (train.initialize_from); may be null
std::string make_run_id(const Config& config, const Corpus& corpus,
                        const Model* pretrained = nullptr);

}  // namespace tapestry
