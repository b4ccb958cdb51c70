// SPDX-License-Identifier: BSD-3-Clause
#include "train/cli/labelled_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "autograd/ops/reductions.h"
#include "data/io/utf8.h"
#include "train/config/domain.h"
#include "train/config/error.h"
#include "train/inference/batch_tensors.h"
#include "train/tasks/task_data.h"

namespace tapestry::explain_cli {
namespace {

using Target = std::optional<std::string>;

constexpr const char* own_predictions = "the model's own predictions (change them with --target)";

/// The most likely prediction at each position.
Ids predictions(const Model& model, const Batch& batch) {
  return argmax(
      (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference()));
}

[[noreturn]] void reject_target(const std::string& message, const std::string& hint) {
  reject_option("--target", message, hint);
}

std::string counted(std::size_t count, const std::string& noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::int32_t target_class(const std::string& word, const Vocabulary& names) {
  const std::int32_t id = names.id(word);
  if (id != unk_id) return id;
  std::vector<std::string> known;
  for (std::size_t i = first_word_id; i < names.size() && known.size() < 20; ++i) {
    known.push_back(names.token(static_cast<std::int32_t>(i)));
  }
  reject_target(fmt::format("there is no class `{}`{}", escaped(word), name_odd_character(word)),
                fmt::format("use {}", list_in_words(known)));
}

/// The class of each word of --target.
std::vector<std::int32_t> target_classes(const std::string& target, const Vocabulary& names) {
  std::vector<std::int32_t> classes;
  for (std::size_t at = 0; at < target.size();) {
    const std::size_t end = std::min(target.find(' ', at), target.size());
    if (end > at) classes.push_back(target_class(target.substr(at, end - at), names));
    at = end + 1;
  }
  return classes;
}

/// A source whose target is the greedy output of the model.
LabelledInput with_greedy_target(const Subject& subject, const Task& task, Example example) {
  Config greedy = subject.trained.config;
  greedy.decoding.beam_size = 1;
  // An untrained model seldom predicts <eos>.
  if (!subject.is_trained)
    greedy.train.max_decode_length = std::max<std::size_t>(example.source.size(), 1);
  example = task.answers().with_own_target(std::move(example), *subject.trained.model, greedy);
  return {.batch = inference_batch(task, example),
          .labels = subject.is_trained
                        ? "the model's own greedy output (change it with --target)"
                        : "the untrained model's own greedy output, cut to the number of tokens "
                          "of the source (change it with --target)"};
}

/// A source whose target is --target, or the greedy output of the model.
LabelledInput labelled_pair(const Subject& subject, const Task& task, Example example,
                            const Target& target) {
  if (!target) return with_greedy_target(subject, task, std::move(example));
  example.target = subject.trained.codec.encode_target(*target);
  const TokenLimit limit = task.answers().token_limit(subject.trained.config);
  const std::size_t tokens = longest_side(example, task.layout());
  if (tokens > limit.tokens) {
    reject_target(fmt::format("found {} with <eos>, expected at most {} ({})",
                              counted(tokens, "token"), limit.tokens, limit.key),
                  "cut the target");
  }
  return {.batch = inference_batch(task, example), .labels = "the text of --target"};
}

/// A text whose tokens are predicted from the preceding tokens.
LabelledInput labelled_text(const Subject& subject, const Task& task, const Example& example,
                            const Target& target) {
  if (target) {
    reject_target("a language model predicts the next tokens of the text",
                  "leave --target out, and put the tokens to predict into TEXT");
  }
  Batch batch = inference_batch(task, example);
  if (!subject.trained.codec.multiple_lines()) {
    return {.batch = std::move(batch), .labels = "the next token of the text"};
  }
  // The token after the end of a window is unknown.
  batch.labels.back() = no_label;
  if (batch.labels.size() > 1) {
    return {.batch = std::move(batch),
            .labels = "the next token of the text; the last token has no label"};
  }
  batch.labels.back() = predictions(*subject.trained.model, batch)[0];
  return {.batch = std::move(batch), .labels = own_predictions};
}

/// A text or image with one class, or a class for each token.
LabelledInput labelled_classes(const Subject& subject, const Task& task, Example example,
                               const Target& target) {
  if (!target) {
    Batch batch = inference_batch(task, example);
    const Ids own = predictions(*subject.trained.model, batch);
    std::copy(own.begin(), own.end(), batch.labels.begin());
    return {.batch = std::move(batch), .labels = own_predictions};
  }
  const auto classes = target_classes(*target, subject.trained.codec.target_vocabulary());
  if (classes.size() != example.target.size()) {
    reject_target(
        fmt::format("found {}, expected {}", counted(classes.size(), "label"),
                    example.target.size()),
        task.traits().one_label_per_example ? "write one class" : "write one label for each token");
  }
  example.target = classes;
  return {.batch = inference_batch(task, example), .labels = "the classes of --target"};
}

/// A text whose blanks are predicted. If the text has no blanks, all of its tokens are predicted.
LabelledInput labelled_blanks(const Subject& subject, const Task& task, const Example& example,
                              const Target& target) {
  Batch batch = inference_batch(task, example);
  const bool has_blanks = std::ranges::find(batch.input, unk_id) != batch.input.end();
  std::vector<std::int32_t> tokens = example.target;
  if (target) {
    tokens = task.answers().read_text(*target, subject.trained.codec).target;
    if (tokens.size() != example.target.size()) {
      reject_target(fmt::format("found {}, expected {} as in TEXT", counted(tokens.size(), "token"),
                                example.target.size()),
                    "write the text with a token for each blank");
    }
  } else if (has_blanks) {
    const Ids own = predictions(*subject.trained.model, batch);
    tokens.assign(own.begin(), own.end());
  }
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool labelled = !has_blanks || batch.input[i] == unk_id;
    batch.labels[i] = labelled ? tokens[i] : no_label;
  }
  const char* labels = target       ? "the tokens of --target"
                       : has_blanks ? own_predictions
                                    : "the tokens of the text, which has no blank `_`";
  return {.batch = std::move(batch), .labels = labels};
}

}  // namespace

LabelledInput labelled_input(const Subject& subject, const Task& task, const Example& example,
                             const Target& target) {
  if (task.layout().labels_are_classes) return labelled_classes(subject, task, example, target);
  if (task.traits().reads_source) return labelled_pair(subject, task, example, target);
  if (task.traits().generates_text) return labelled_text(subject, task, example, target);
  return labelled_blanks(subject, task, example, target);
}

}  // namespace tapestry::explain_cli
