// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/language_modelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "autograd/ops/reductions.h"
#include "data/batch.h"
#include "data/io/utf8.h"
#include "data/text/tokenizer.h"
#include "layers/encoder_models.h"
#include "train/base/error.h"
#include "train/inference/batch_tensors.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// The model reads all tokens of a window.
std::size_t window_length(const Config& config) { return config.data.windows.context + 1; }

/// Encodes a text with subwords. Each word "_" becomes <unk>, even if a piece for "_" exists.
std::vector<std::int32_t> encode_between_blanks(std::string_view text, const TextCodec& codec) {
  const auto is_border = [&](std::size_t i) {
    return i >= text.size() || text[i] == ' ' || text[i] == '\t';
  };
  std::vector<std::int32_t> ids;
  const auto add = [&](std::string_view part) {
    const std::vector<std::int32_t> part_ids = codec.encode_target(part);
    ids.insert(ids.end(), part_ids.begin(), part_ids.end());
  };
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_' || !is_border(i + 1) || (i > 0 && !is_border(i - 1))) continue;
    add(text.substr(begin, i - begin));
    ids.push_back(unk_id);
    begin = i + 1;
  }
  add(text.substr(begin));
  return ids;
}

class FillAnswers : public TaskAnswers {
 public:
  /// The text with the model's predictions at masked tokens; <unk> for a predicted special symbol.
  std::vector<ShownExample> show(const TrainedModel& trained,
                                 const std::vector<Example>& examples) const override {
    const TextCodec& codec = trained.codec;
    const auto text = [&](const std::vector<std::int32_t>& ids) {
      return escaped(codec.decode_target(ids));
    };
    const BatchRules rules = batch_rules(trained.config, codec.target_vocabulary().size());
    std::vector<ShownExample> shown;
    for (std::size_t i = 0; i < examples.size(); ++i) {
      const Batch batch = make_batch(examples, std::array{i}, rules);
      const NetworkInput input = network_input(batch, trained.model->parameters.dtype());
      const Ids guesses = argmax((*trained.model->network)(input, Mode::inference()));
      std::vector<std::int32_t> filled = examples[i].target;
      for (std::size_t k = 0; k < filled.size(); ++k) {
        const bool masked = batch.labels[k] != no_label;
        if (masked) filled[k] = guesses[k] < first_word_id ? unk_id : guesses[k];
      }
      shown.push_back({.input = text(batch.input),
                       .output = text(filled),
                       .expected = text(examples[i].target)});
    }
    return shown;
  }

  Example read_text(std::string_view text, const TextCodec& codec) const override {
    const bool subwords = codec.target_vocabulary().subwords() != nullptr;
    std::vector<std::int32_t> ids =
        subwords ? encode_between_blanks(text, codec) : codec.encode_target(text);
    if (ids.empty()) return {};
    if (!codec.multiple_lines()) {
      ids.insert(ids.begin(), bos_id);
      ids.push_back(eos_id);
    }
    return {.target = std::move(ids)};
  }

  TokenLimit token_limit(const Config& config) const override {
    return window_limit(config, window_length(config));
  }

  const LineCommand* command() const override {
    static constexpr LineCommand fill{
        .name = "fill",
        .purpose = "Predict the missing words of each sentence on standard input",
        .footer =
            "Prints a line for each input line, completed by a masked language model. Every token "
            "that is not in its vocabulary is\npredicted: write _ for a blank.\n"
            "Example:\n  echo \"le chat _ dort\" | tapestry fill runs/toy_masked"};
    return &fill;
  }

  std::vector<std::string> answer(const TrainedModel& trained,
                                  const std::vector<Example>& examples) const override {
    const TextCodec& codec = trained.codec;
    std::vector<std::string> lines;
    for (const Example& example : examples) {
      lines.push_back(
          codec.decode_target(fill_in(*trained.model, codec.target_vocabulary(), example.target)));
    }
    return lines;
  }
};

class MaskedLanguageModelling : public PlainTextTask {
 public:
  const ConfigKind& kind() const override {
    static const ConfigKind kind{.name = "masked_language_model",
                                 .keys = {"model.num_encoder_layers", "model.tie_embeddings"},
                                 .check = [](const Config& config, const ConfigCheck& check) {
                                   check_windows(config, check, window_length(config));
                                 }};
    return kind;
  }

  const TaskQuestions* questions() const override {
    static const TaskQuestions questions{
        .description = "fill in missing words of a text: a masked language model",
        .files = plain_text_files(),
        .values = {{"data.task", "text"},
                   {"data.unit", "word"},
                   {"data.min_frequency", "2"},
                   {"data.context", "128"}}};
    return &questions;
  }

  const RowLayout& layout() const override { return masked_rows; }

  const RowLayout& inference_layout() const override { return unmasked_rows; }

  std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) const override {
    return std::make_unique<MaskedLanguageModel>(scope, config.model, sizes.target, pad_id);
  }

  const TaskAnswers& answers() const override {
    static const FillAnswers answers;
    return answers;
  }
};

/// newline  id of a word that is never returned; unk_id if the vocabulary does not have it
template <class T>
std::int32_t most_likely_word(std::span<const T> scores, std::int32_t newline) {
  std::int32_t best = unk_id;
  for (auto id = first_word_id; id < static_cast<std::int32_t>(scores.size()); ++id) {
    const T score = scores[static_cast<std::size_t>(id)];
    if (!std::isfinite(score)) {
      throw NumericError("fill: the scores of a blank are not finite numbers",
                         "train the model with a smaller schedule.learning_rate");
    }
    if (id == newline) continue;
    if (best == unk_id || score > scores[static_cast<std::size_t>(best)]) best = id;
  }
  return best;
}

}  // namespace

/// model.kind: masked_language_model. Predicts masked tokens of a text from the tokens on both
/// sides (Devlin et al. 2019, "BERT"), with an encoder; `tapestry fill` predicts the blanks of a
/// line.
const Task& masked_language_modelling() {
  static const MaskedLanguageModelling task;
  return task;
}

std::vector<std::int32_t> fill_in(const Model& model, const Vocabulary& words,
                                  std::vector<std::int32_t> tokens) {
  if (std::ranges::find(tokens, unk_id) == tokens.end()) return tokens;
  const Batch batch =
      make_batch({{.target = tokens}}, std::array<std::size_t, 1>{0}, {.layout = unmasked_rows});
  const Tensor logits =
      (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference());
  const std::int32_t newline = words.id(newline_token);
  dispatch(logits.dtype(), [&]<class T>() {
    const std::span<const T> scores = logits.values<T>();
    const std::size_t width = logits.shape().back();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (tokens[i] == unk_id) {
        tokens[i] = most_likely_word(scores.subspan(i * width, width), newline);
      }
    }
  });
  return tokens;
}

}  // namespace tapestry
