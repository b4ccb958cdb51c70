// SPDX-License-Identifier: BSD-3-Clause
#include "train/tasks/language_modelling.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "autograd/ops/reductions.h"
#include "data/batch.h"
#include "data/io/utf8.h"
#include "data/text/tokenizer.h"
#include "layers/encoder_models.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/finite_outputs.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

/// The number of tokens in a window. The model reads all of them; a language model reads all but
/// the last (data.context).
std::size_t window_length(const Config& config) { return config.data.windows.context + 1; }

/// Whether a "_" next to this character is part of a word such as app_mono, not a blank.
bool is_of_word(char32_t character) {
  const CharacterKind kind = character_kind(character);
  return character == U'_' || kind == CharacterKind::word || kind == CharacterKind::digit;
}

/// Encodes a text with blanks, which become <unk> even if the vocabulary has a token "_". A blank
/// is a "_" that does not touch a word, or any "_" if tokens are characters. "\_" is the character
/// "_".
std::vector<std::int32_t> encode_with_blanks(std::string_view text, const TextCodec& codec) {
  const bool characters =
      codec.target_vocabulary().subwords() == nullptr && codec.encode_target("ab").size() == 2;
  const std::u32string all = decode_utf8(text);
  const auto touches_word = [&](std::size_t i) {
    return (i > 0 && is_of_word(all[i - 1])) || (i + 1 < all.size() && is_of_word(all[i + 1]));
  };
  std::vector<std::int32_t> ids;
  std::string part;
  const auto encode_part = [&] {
    const std::vector<std::int32_t> part_ids = codec.encode_target(part);
    ids.insert(ids.end(), part_ids.begin(), part_ids.end());
    part.clear();
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all.compare(i, 2, U"\\_") == 0) {
      part += static_cast<char>(all[++i]);
    } else if (all[i] == U'_' && (characters || !touches_word(i))) {
      encode_part();
      ids.push_back(unk_id);
    } else {
      append_utf8(part, all[i]);
    }
  }
  encode_part();
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
    std::vector<std::int32_t> ids = encode_with_blanks(text, codec);
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
            "Prints a line for each input line, completed by a masked language model. Write _ for "
            "a blank, and \\_ for the character _.\nTokens that are not in the vocabulary are "
            "predicted as well.\n"
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
std::int32_t best_word(std::span<const T> scores, std::int32_t newline) {
  std::int32_t best = unk_id;
  for (auto id = first_word_id; id < static_cast<std::int32_t>(scores.size()); ++id) {
    const T score = scores[static_cast<std::size_t>(id)];
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
      if (tokens[i] != unk_id) continue;
      const std::span<const T> row = scores.subspan(i * width, width);
      const bool finite = std::ranges::all_of(row, [](T score) { return std::isfinite(score); });
      if (!finite) reject_non_finite(model, batch, "a blank");
      tokens[i] = best_word(row, newline);
    }
  });
  return tokens;
}

}  // namespace tapestry
