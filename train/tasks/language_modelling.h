#pragma once

#include "train/tasks/task.h"

namespace tapestry {

/// The sources of tasks that learn from text without labels: text, toy_sentences.
std::vector<const DataSource*> plain_text_sources();

/// Reports windows of a text of which a model reads `tokens` tokens and has fewer positions.
void check_windows(const Config& config, const ConfigCheck& check, std::size_t tokens);

/// The positions of the model, or for windows of a text `tokens` if that is less.
TokenLimit window_limit(const Config& config, std::size_t tokens);

/// "windows" of a text, or "sentences".
std::string plain_text_noun(const Config& config);

}  // namespace tapestry
