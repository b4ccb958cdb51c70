#include "data/unknown_tokens.h"

#include <cstddef>

namespace tapestry {

double share_of_unknown_tokens(const std::vector<Example>& examples, Objective objective) {
  std::size_t tokens = 0, unknown = 0;
  const auto count = [&](const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) {
      unknown += id == unk_id ? 1 : 0;
      tokens += id == unk_id || id >= first_word_id ? 1 : 0;
    }
  };
  for (const Example& example : examples) {
    count(example.source);
    if (objective != Objective::label) count(example.target);
  }
  return tokens == 0 ? 0.0 : static_cast<double>(unknown) / static_cast<double>(tokens);
}

}  // namespace tapestry
