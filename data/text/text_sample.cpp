#include "data/text/text_sample.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "data/io/random.h"

namespace tapestry {

void TextSample::add(std::string sentence) {
  const std::uint64_t number = added_++;
  Sentence added{.random = RandomDraws(0, DrawPurpose::subword_text, number).next(),
                 .number = number,
                 .text = std::move(sentence)};
  if (added.bytes() > limit_) return;
  if (has_evicted_ && kept_.front() < added) return;
  bytes_ += added.bytes();
  kept_.push_back(std::move(added));
  std::ranges::push_heap(kept_, std::less<>());
  while (bytes_ > limit_) {
    std::ranges::pop_heap(kept_, std::less<>());
    bytes_ -= kept_.back().bytes();
    kept_.pop_back();
    has_evicted_ = true;
  }
}

std::vector<std::string> TextSample::take() && {
  std::ranges::sort(kept_, {}, &Sentence::number);
  std::vector<std::string> sentences;
  sentences.reserve(kept_.size());
  for (Sentence& sentence : kept_) sentences.push_back(std::move(sentence.text));
  kept_ = {};
  return sentences;
}

}  // namespace tapestry
