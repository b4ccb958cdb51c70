#include <string>

#include "data/io/error.h"
#include "data/text/subwords.h"
#include "data/text/vocabulary.h"
#include "tests/fuzz/fuzz_target.h"

using namespace tapestry;

/// Input: a .model file of SentencePiece.
void tapestry::fuzz::feed(std::string_view bytes) try {
  const auto model = std::make_shared<const SubwordModel>(std::string(bytes), "input");
  fuzz::require(model->serialized() == bytes, "the model is stored as it is");
  const Vocabulary vocabulary(model);
  fuzz::require(vocabulary.size() == first_word_id + model->tokens().size(),
                "every token is a word of the vocabulary");
  for (const char* text : {"", "a b", "\xE2\x96\x81 x", "caf\xC3\xA9 \xF0\x9F\x98\x80"}) {
    const auto ids = vocabulary.encode(model->split(text));
    model->join(vocabulary.decode(ids));
  }
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
