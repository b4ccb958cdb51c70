// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "data/corpus.h"
#include "layers/model.h"
#include "train/config/config.h"

namespace tapestry {

/// The id of a new run: 16 hexadecimal digits. It is a digest of the data, the pretrained
/// parameters and all config keys that may not change freely on resume, except paths. It is
/// deterministic, so that two runs with the same config and data write the same bytes. A resumed
/// run keeps its id, even if its config has changed.
///
/// pretrained  model whose parameters the run starts from (train.initialize_from); may be null
std::string make_run_id(const Config& config, const Corpus& corpus,
                        const Model* pretrained = nullptr);

}  // namespace tapestry
