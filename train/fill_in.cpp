#include "train/fill_in.h"

#include "data/batch.h"
#include "train/batch_tensors.h"
#include "train/objective.h"

namespace tapestry {

std::vector<std::int32_t> fill_in(const Model& model, std::vector<std::int32_t> tokens) {
  const Batch batch = shown_whole({.target = tokens}, Objective::masked_tokens);
  const auto guesses = largest_of_rows(
      (*model.network)(network_input(batch, model.parameters.dtype())), first_word_id);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] == unk_id) tokens[i] = guesses[i];
  }
  return tokens;
}

}  // namespace tapestry
