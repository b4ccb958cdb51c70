// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/data_rules.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>

namespace tapestry {
namespace {

/// Rejects keys that have no effect with a subword model.
void reject_word_keys(const DataOptions& data, const ConfigCheck& check) {
  const auto reject_if = [&](bool changed, const std::string& name) {
    if (!changed) return;
    check.reject({"data." + name, "data.subwords"},
                 fmt::format("`{}` is only used with `subwords: none`", name),
                 fmt::format("remove `{}`, or set `data.subwords` to none", name));
  };
  const DataOptions defaults;
  reject_if(data.words.min_frequency != defaults.words.min_frequency, "min_frequency");
  reject_if(data.words.max_vocabulary != defaults.words.max_vocabulary, "max_vocabulary");
  reject_if(data.windows.unit != defaults.windows.unit, "unit");
}

/// Requires one .model file for each vocabulary.
void check_subword_files(const SubwordOptions& subwords, bool two_vocabularies,
                         const ConfigCheck& check) {
  if (subwords.file.empty()) {
    check.reject_missing_file({"data.subwords", "data.subword_file"},
                              "`subwords: file` needs `subword_file`",
                              "name a .model file of SentencePiece here or on the command line: "
                              "data.subword_file=FILE");
  }
  const bool has_target = !subwords.target_file.empty();
  if (two_vocabularies && !has_target) {
    check.reject_missing_file(
        {"data.subwords", "data.target_subword_file", "data.shared_vocabulary"},
        "`subwords: file` needs `target_subword_file`, since `shared_vocabulary` is false",
        "name a .model file for the targets, or set `data.shared_vocabulary` to true");
  }
  if (!two_vocabularies && has_target) {
    check.reject({"data.target_subword_file", "data.shared_vocabulary"},
                 "`target_subword_file` is only used with two vocabularies, found one",
                 "remove `target_subword_file`");
  }
}

}  // namespace

void check_corpus_weights(const Config& config, const ConfigCheck& check, const char* key,
                          const FileList& files) {
  const std::size_t weights = config.data.training.corpus_weights.size();
  const std::size_t corpora = files.names().size();
  if (weights == 0 || weights == corpora) return;
  check.reject({"data.corpus_weights", key, "data.task"},
               fmt::format("`corpus_weights` has {} {}, but `{}` names {} {}", weights,
                           weights == 1 ? "weight" : "weights", key, corpora,
                           corpora == 1 ? "file" : "files"),
               "write one weight for each file");
}

void check_subwords(const Config& config, const ConfigCheck& check, bool two_vocabularies) {
  const SubwordOptions& subwords = config.data.words.subwords;
  if (subwords.kind == SubwordKind::none) return;
  reject_word_keys(config.data, check);
  if (subwords.kind == SubwordKind::file) check_subword_files(subwords, two_vocabularies, check);
}

void require_file(const Config& config, const ConfigCheck& check, const char* key,
                  const FileList& file) {
  if (!file.empty()) return;
  check.reject_missing_file({"data.task", key},
                            fmt::format("task {} needs {}", config.data.task, key),
                            fmt::format("name the file here or on the command line: {}=FILE", key));
}

}  // namespace tapestry
