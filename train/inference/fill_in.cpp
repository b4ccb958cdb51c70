#include "train/inference/fill_in.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "data/batch.h"
#include "data/text/tokenizer.h"
#include "train/error.h"
#include "train/inference/batch_tensors.h"

namespace tapestry {
namespace {

/// newline  a word that is none; unk_id if there is no such word
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

std::vector<std::int32_t> fill_in(const Model& model, const Vocabulary& words,
                                  std::vector<std::int32_t> tokens) {
  if (std::ranges::find(tokens, unk_id) == tokens.end()) return tokens;
  const Batch batch =
      make_batch({{.target = tokens}}, std::array<std::size_t, 1>{0}, {.layout = unmasked_rows});
  const Tensor logits = (*model.network)(network_input(batch, model.parameters.dtype()));
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
