#include "data/toy_sentences.h"

#include <utility>

#include "data/held_out.h"
#include "data/text/vocabulary.h"
#include "data/toy_grammar.h"
#include "data/toy_translation.h"

namespace tapestry {

using namespace toy;

namespace {

Vocabulary french_vocabulary() {
  WordCounter counter;
  counter.add(french_words());
  return counter.vocabulary();
}

/// <bos> and the words.
std::vector<std::int32_t> begun(const Vocabulary& vocabulary, const Tokens& words) {
  std::vector<std::int32_t> ids = {bos_id};
  const auto encoded = vocabulary.encode(words);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  return ids;
}

Sentence draw_sentence_about_one(RandomDraws& random) {
  Sentence sentence = draw_sentence(random);
  while (sentence.subject.number != Number::singular) sentence = draw_sentence(random);
  return sentence;
}

/// A noun that is written as `noun` and has the other gender, as nobody says it.
Noun misjudged(const Noun& noun) {
  Noun wrong = noun;
  wrong.gender = noun.gender == Gender::masculine ? Gender::feminine : Gender::masculine;
  return wrong;
}

}  // namespace

Corpus make_toy_sentences(const DataOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = corpus.target_vocabulary = french_vocabulary();
  draw_splits(
      options,
      [&corpus](RandomDraws& random) {
        auto ids = begun(corpus.target_vocabulary, french(draw_sentence(random)));
        ids.push_back(eos_id);
        return Example{.target = std::move(ids)};
      },
      corpus);
  return corpus;
}

Corpus make_toy_agreement(const DataOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = french_vocabulary();
  corpus.target_vocabulary = Vocabulary({"right", "wrong"});
  draw_splits(
      options,
      [&corpus](RandomDraws& random) {
        Sentence sentence = draw_sentence_about_one(random);
        const Noun wrong = misjudged(*sentence.subject.noun);
        const bool right = random.one_in(2);
        if (!right) sentence.subject.noun = &wrong;
        Example example;
        example.source = begun(corpus.source_vocabulary, french(sentence));
        example.target = {corpus.target_vocabulary.id(right ? "right" : "wrong")};
        return example;
      },
      corpus);
  return corpus;
}

}  // namespace tapestry
