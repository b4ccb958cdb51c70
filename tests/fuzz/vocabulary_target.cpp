// SPDX-License-Identifier: BSD-3-Clause
#include <memory>
#include <string>

#include "data/text/subwords.h"
#include "data/text/vocabulary.h"
#include "tests/fuzz/fuzz.h"

namespace tapestry::fuzz {

/// Input: the text of a vocabulary in a checkpoint.
void feed_vocabulary(std::string_view text) {
  const Vocabulary vocabulary = Vocabulary::from_text(text);
  require(vocabulary.to_text() == text, "only output of to_text() is accepted");
  for (std::int32_t id = first_word_id; id < static_cast<std::int32_t>(vocabulary.size()); ++id) {
    require(vocabulary.id(vocabulary.token(id)) == id, "words have different ids");
  }
}

/// Input: a .model file of SentencePiece.
void feed_subwords(std::string_view bytes) {
  const auto model = std::make_shared<const SubwordModel>(std::string(bytes), "input");
  require(model->serialized() == bytes, "the model is stored unchanged");
  const Vocabulary vocabulary(model);
  require(vocabulary.size() == first_word_id + model->tokens().size(),
          "every token is a word of the vocabulary");
  for (const char* text : {"", "a b", "\xE2\x96\x81 x", "caf\xC3\xA9 \xF0\x9F\x98\x80"}) {
    model->join(vocabulary.decode(vocabulary.encode(model->split(text))));
  }
}

}  // namespace tapestry::fuzz
