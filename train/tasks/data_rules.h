// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "data/file_list.h"
#include "train/config/config.h"
#include "train/config/kind.h"

/// Rules about the keys of data, which the rules of several data sources call.
namespace tapestry {

/// Reports an error if data.corpus_weights does not have one weight per file in `files`,
/// the value of `key`.
void check_corpus_weights(const Config& config, const ConfigCheck& check, const char* key,
                          const FileList& files);

/// Reports contradictions between data.subwords and other keys.
///
/// two_vocabularies  whether sources and targets of this config have separate vocabularies
void check_subwords(const Config& config, const ConfigCheck& check, bool two_vocabularies = false);

/// Reports an error if `file`, the value of `key`, is empty.
void require_file(const Config& config, const ConfigCheck& check, const char* key,
                  const FileList& file);

}  // namespace tapestry
