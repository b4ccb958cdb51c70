#include "data/corpus.h"

#include <xxhash.h>

#include <memory>
#include <new>
#include <string_view>

namespace tapestry {

namespace {

/// XXH3 over a sequence of parts; each part goes in with its length in front, so that the borders
/// between parts count as well.
class Fingerprint {
 public:
  Fingerprint() : state_(XXH3_createState()) {
    if (!state_) throw std::bad_alloc();
    XXH3_64bits_reset(state_.get());
  }

  void add(std::string_view text) {
    add_length(text.size());
    add_bytes(text.data(), text.size());
  }

  void add(const std::vector<std::int32_t>& ids) {
    add_length(ids.size());
    add_bytes(ids.data(), ids.size() * sizeof(std::int32_t));
  }

  void add(const std::vector<SentencePair>& pairs) {
    add_length(pairs.size());
    for (const SentencePair& pair : pairs) {
      add(pair.source);
      add(pair.target);
    }
  }

  std::uint64_t value() const { return XXH3_64bits_digest(state_.get()); }

 private:
  struct Free {
    void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
  };

  void add_length(std::uint64_t length) { add_bytes(&length, sizeof(length)); }
  void add_bytes(const void* bytes, std::size_t count) {
    if (count > 0) XXH3_64bits_update(state_.get(), bytes, count);
  }

  std::unique_ptr<XXH3_state_t, Free> state_;
};

}  // namespace

std::uint64_t fingerprint_of(const ParallelCorpus& corpus) {
  Fingerprint fingerprint;
  fingerprint.add(corpus.train);
  fingerprint.add(corpus.validation);
  fingerprint.add(corpus.test);
  fingerprint.add(corpus.source_vocabulary.to_text());
  fingerprint.add(corpus.target_vocabulary.to_text());
  return fingerprint.value();
}

}  // namespace tapestry
