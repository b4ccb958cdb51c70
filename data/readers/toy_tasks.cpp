// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/toy_tasks.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "data/io/random.h"
#include "data/readers/toy_language.h"
#include "data/text/vocabulary.h"

namespace tapestry {

using namespace toy;

namespace {

using Sequence = std::vector<std::int32_t>;

Vocabulary make_vocabulary(const Tokens& words) {
  WordCounter counter;
  counter.add(words);
  return counter.vocabulary();
}

/// The ids of <bos> and the words.
Sequence encode_with_bos(const Vocabulary& vocabulary, const Tokens& words) {
  Sequence ids = {bos_id};
  const auto encoded = vocabulary.encode(words);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  return ids;
}

Sentence draw_singular_sentence(RandomDraws& random) {
  Sentence sentence = draw_sentence(random);
  while (sentence.subject.number != Number::singular) sentence = draw_sentence(random);
  return sentence;
}

/// The noun with the opposite gender.
Noun with_other_gender(const Noun& noun) {
  Noun wrong = noun;
  wrong.gender = noun.gender == Gender::masculine ? Gender::feminine : Gender::masculine;
  return wrong;
}

}  // namespace

Corpus make_toy_translation(const GeneratedOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = make_vocabulary(french_words());
  corpus.target_vocabulary = make_vocabulary(english_words());
  const auto draw = [&corpus](RandomDraws& random) {
    const Sentence sentence = draw_sentence(random);
    return Example{corpus.source_vocabulary.encode(french(sentence)),
                   corpus.target_vocabulary.encode(english(sentence))};
  };
  draw_splits(options, {.draw = draw}, corpus);
  return corpus;
}

Corpus make_toy_sentences(const GeneratedOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = corpus.target_vocabulary = make_vocabulary(french_words());
  const auto draw = [&corpus](RandomDraws& random) {
    Sequence ids = encode_with_bos(corpus.target_vocabulary, french(draw_sentence(random)));
    ids.push_back(eos_id);
    return Example{.target = std::move(ids)};
  };
  draw_splits(options, {.draw = draw}, corpus);
  return corpus;
}

Corpus make_toy_agreement(const GeneratedOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = make_vocabulary(french_words());
  corpus.target_vocabulary = Vocabulary({"right", "wrong"});
  const auto draw = [&corpus](RandomDraws& random) {
    Sentence sentence = draw_singular_sentence(random);
    const Noun wrong = with_other_gender(*sentence.subject.noun);
    const bool right = random.one_in(2);
    if (!right) sentence.subject.noun = &wrong;
    return Example{encode_with_bos(corpus.source_vocabulary, french(sentence)),
                   {corpus.target_vocabulary.id(right ? "right" : "wrong")}};
  };
  draw_splits(options, {.draw = draw}, corpus);
  return corpus;
}

}  // namespace tapestry
