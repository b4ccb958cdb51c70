#pragma once

#include "train/tasks/task.h"

namespace tapestry {

/// The sources of tasks that train on unlabelled text: text, toy_sentences.
std::vector<const DataSource*> plain_text_sources();

/// Reports windows of a text from which the model would read `tokens` tokens, if that is more than
/// its positions.
void check_windows(const Config& config, const ConfigCheck& check, std::size_t tokens);

/// The model's positions; for windows of a text the minimum of that and `tokens`.
TokenLimit window_limit(const Config& config, std::size_t tokens);

/// The noun for the examples: "windows" of a text, or "sentences".
std::string plain_text_noun(const Config& config);

}  // namespace tapestry
