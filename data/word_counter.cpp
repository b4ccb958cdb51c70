#include "data/word_counter.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "data/io/error.h"

namespace tapestry {

void WordCounter::add(const Tokens& sentence) {
  for (const std::string& token : sentence) ++counts_[token];
}

Vocabulary WordCounter::vocabulary(std::size_t min_frequency, std::size_t max_words) const {
  std::vector<std::pair<std::string, std::size_t>> frequent;
  for (const auto& [word, count] : counts_) {
    if (count >= min_frequency && !is_special_symbol(word)) frequent.emplace_back(word, count);
  }
  std::sort(frequent.begin(), frequent.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (max_words > 0 && frequent.size() > max_words) frequent.resize(max_words);

  Tokens words;
  for (auto& [word, count] : frequent) words.push_back(std::move(word));
  return Vocabulary(words);
}

Vocabulary frequent_words(const WordCounter& counter, const DataOptions& options) {
  Vocabulary vocabulary = counter.vocabulary(options.min_frequency, options.max_vocabulary);
  if (vocabulary.size() > first_word_id) return vocabulary;
  throw DataError(fmt::format("vocabulary: no word occurs {} times in the training text",
                              options.min_frequency),
                  "lower data.min_frequency");
}

}  // namespace tapestry
