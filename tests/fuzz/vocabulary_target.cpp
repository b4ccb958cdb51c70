#include "data/io/error.h"
#include "data/text/vocabulary.h"
#include "tests/fuzz/fuzz_target.h"

using namespace tapestry;

/// Input: the text of a vocabulary, as a checkpoint holds it.
void tapestry::fuzz::feed(std::string_view text) try {
  const Vocabulary vocabulary = Vocabulary::from_text(text);
  fuzz::require(vocabulary.to_text() == text, "only what to_text() writes is read");
  for (std::int32_t id = first_word_id; id < static_cast<std::int32_t>(vocabulary.size()); ++id) {
    fuzz::require(vocabulary.id(vocabulary.token(id)) == id, "each word has its id");
  }
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
