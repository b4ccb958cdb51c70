#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace tapestry {

/// A uniform random sample of the sentences of a text that may be larger than memory, from which
/// subwords are learned: all of them, if they fit. Deterministic.
///
/// Each sentence gets a random number; those with the smallest ones are kept, as many as fit
/// ("bottom-k" sampling). A sentence that does not fit alone is left out.
class TextSample {
 public:
  /// The memory of a sample; SentencePiece takes more for its training.
  static constexpr std::size_t default_limit = std::size_t{1} << 28;
  /// The memory of a sentence besides its text.
  static constexpr std::size_t bytes_per_sentence = 64;

  TextSample() = default;
  /// limit  in bytes, of the sentences and of `bytes_per_sentence` for each
  explicit TextSample(std::size_t limit) : limit_(limit) {}

  /// Adds the next sentence of the text.
  void add(std::string sentence);

  /// Whether sentences have been left out.
  bool is_partial() const { return kept_.size() < added_; }
  std::uint64_t added() const { return added_; }
  std::size_t kept() const { return kept_.size(); }

  /// The sentences, in the order of the text.
  std::vector<std::string> take() &&;

 private:
  struct Sentence {
    std::uint64_t random;
    std::uint64_t number;  ///< in the text
    std::string text;

    std::size_t bytes() const { return text.size() + bytes_per_sentence; }
    bool operator<(const Sentence& other) const {
      return random != other.random ? random < other.random : number < other.number;
    }
  };

  std::size_t limit_ = default_limit;
  std::size_t bytes_ = 0;
  std::uint64_t added_ = 0;
  bool has_evicted_ = false;  ///< a sentence that would fit alone has been left out
  std::vector<Sentence> kept_;  ///< a heap, the largest random number first
};

}  // namespace tapestry
