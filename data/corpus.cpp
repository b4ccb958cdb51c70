#include "data/corpus.h"

#include <string_view>

#include "data/xxh3.h"

namespace tapestry {

namespace {

/// XXH3 over a sequence of parts; each part goes in with its length in front, so that the borders
/// between parts count as well.
class Fingerprint {
 public:
  void add(std::string_view text) {
    add_length(text.size());
    hash_.add(text.data(), text.size());
  }

  void add(const std::vector<std::int32_t>& ids) {
    add_length(ids.size());
    hash_.add(ids.data(), ids.size() * sizeof(std::int32_t));
  }

  void add(const std::vector<float>& values) {
    add_length(values.size());
    hash_.add(values.data(), values.size() * sizeof(float));
  }

  void add(const std::vector<Example>& examples) {
    add_length(examples.size());
    for (const Example& example : examples) {
      add(example.source);
      add(example.target);
      if (!example.pixels.empty()) add(example.pixels);
    }
  }

  std::uint64_t value() const { return hash_.value(); }

 private:
  void add_length(std::uint64_t length) { hash_.add(&length, sizeof(length)); }

  Xxh3 hash_;
};

}  // namespace

std::uint64_t fingerprint_of(const Corpus& corpus) {
  Fingerprint fingerprint;
  fingerprint.add(corpus.train);
  fingerprint.add(corpus.validation);
  fingerprint.add(corpus.test);
  fingerprint.add(corpus.source_vocabulary.to_text());
  fingerprint.add(corpus.target_vocabulary.to_text());
  return fingerprint.value();
}

}  // namespace tapestry
