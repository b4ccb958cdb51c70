// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text/vocabulary.h"
#include "layers/model.h"
#include "train/tasks/task.h"

/// Code shared by language models and masked language models.
namespace tapestry {

/// A task that trains on unlabelled text.
class PlainTextTask : public Task {
 public:
  /// Supports the data tasks text and toy_sentences.
  std::vector<const DataSource*> sources() const override;
  /// Calls examples "windows" of a text, or "sentences".
  TaskWords words(const Config& config) const override;
  std::string describe_vocabularies(const Corpus& corpus) const override;
};

/// The files in the TaskQuestions of these tasks.
std::vector<TaskQuestions::File> plain_text_files();

/// Reports an error if the model reads `tokens` tokens of a window but has fewer positions.
void check_windows(const Config& config, const ConfigCheck& check, std::size_t tokens);

/// The number of the model's positions; for windows of a text, the minimum of this number and
/// `tokens`.
TokenLimit window_limit(const Config& config, std::size_t tokens);

/// Replaces each <unk> token of a text with the most likely word according to a masked language
/// model. <unk> marks a masked token. Never predicts a special symbol or a newline.
///
/// tokens  non-empty; includes <bos> and <eos> if the model was trained on sentences
/// throws  NumericError if the scores of a masked token are not finite.
std::vector<std::int32_t> fill_in(const Model& model, const Vocabulary& words,
                                  std::vector<std::int32_t> tokens);

}  // namespace tapestry
