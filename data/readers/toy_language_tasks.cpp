#include "data/readers/toy_language_tasks.h"

#include <array>
#include <span>
#include <utility>

#include "data/text/vocabulary.h"

namespace tapestry {

using namespace toy;

namespace {

template <typename Word>
const Word* draw_word(std::span<const Word> words, RandomDraws& random) {
  return &words[random.below(words.size())];
}

template <typename Word, typename Condition>
const Word* draw_word_if(std::span<const Word> words, Condition condition, RandomDraws& random) {
  const Word* word = draw_word(words, random);
  while (!condition(*word)) word = draw_word(words, random);
  return word;
}

Number draw_number(RandomDraws& random) {
  return random.one_in(2) ? Number::singular : Number::plural;
}

Determiner draw_determiner(RandomDraws& random) {
  constexpr std::array all = {Determiner::definite, Determiner::indefinite,
                              Determiner::demonstrative, Determiner::possessive};
  return all[random.below(all.size())];
}

const Adjective* draw_adjective(bool before_noun, RandomDraws& random) {
  return draw_word_if(
      adjectives(), [=](const Adjective& a) { return a.before_noun == before_noun; }, random);
}

/// Adds up to two different adjectives.
void draw_adjectives(NounPhrase& phrase, RandomDraws& random) {
  if (random.one_in(3)) phrase.adjective_before = draw_adjective(true, random);
  if (random.one_in(2)) phrase.adjectives_after.push_back(draw_adjective(false, random));
  const bool room_for_another =
      phrase.adjective_before == nullptr && phrase.adjectives_after.size() == 1;
  if (!room_for_another || !random.one_in(3)) return;
  const Adjective* another = draw_adjective(false, random);
  if (another != phrase.adjectives_after.front()) phrase.adjectives_after.push_back(another);
}

template <typename Condition>
NounPhrase draw_noun_phrase(Condition condition, RandomDraws& random) {
  NounPhrase phrase;
  phrase.determiner = draw_determiner(random);
  phrase.number = draw_number(random);
  phrase.noun = draw_word_if(nouns(), condition, random);
  draw_adjectives(phrase, random);
  return phrase;
}

bool is_animal(const Noun& noun) { return noun.kind == NounKind::animal; }
bool is_place(const Noun& noun) { return noun.kind == NounKind::place; }
bool is_animal_or_thing(const Noun& noun) { return !is_place(noun); }

void draw_object(Sentence& sentence, RandomDraws& random) {
  if (random.one_in(5)) {
    const Gender gender = random.one_in(2) ? Gender::masculine : Gender::feminine;
    sentence.object = Pronoun{gender, draw_number(random)};
    return;
  }
  NounPhrase object = draw_noun_phrase(is_animal_or_thing, random);
  if (sentence.negated && object.determiner == Determiner::indefinite) {
    object.determiner = Determiner::definite;
  }
  sentence.object = object;
}

Vocabulary make_vocabulary(const Tokens& words) {
  WordCounter counter;
  counter.add(words);
  return counter.vocabulary();
}

/// The ids of <bos> and the words.
std::vector<std::int32_t> encode_with_bos(const Vocabulary& vocabulary, const Tokens& words) {
  std::vector<std::int32_t> ids = {bos_id};
  const auto encoded = vocabulary.encode(words);
  ids.insert(ids.end(), encoded.begin(), encoded.end());
  return ids;
}

Sentence draw_singular_sentence(RandomDraws& random) {
  Sentence sentence = draw_sentence(random);
  while (sentence.subject.number != Number::singular) sentence = draw_sentence(random);
  return sentence;
}

/// The noun with its gender changed.
Noun with_other_gender(const Noun& noun) {
  Noun wrong = noun;
  wrong.gender = noun.gender == Gender::masculine ? Gender::feminine : Gender::masculine;
  return wrong;
}

}  // namespace

Sentence draw_sentence(RandomDraws& random) {
  Sentence sentence;
  sentence.subject = draw_noun_phrase(is_animal, random);
  sentence.verb = draw_word(verbs(), random);
  sentence.negated = random.one_in(4);
  if (random.one_in(4)) sentence.adverb = draw_word(adverbs(), random);
  if (sentence.verb->transitive) draw_object(sentence, random);
  if (random.one_in(2)) {
    sentence.place = Place{draw_word(prepositions(), random), draw_noun_phrase(is_place, random)};
  }
  return sentence;
}

Corpus make_toy_translation(const GeneratedOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = make_vocabulary(french_words());
  corpus.target_vocabulary = make_vocabulary(english_words());
  draw_splits(options, {[&corpus](RandomDraws& random) {
                const Sentence sentence = draw_sentence(random);
                Example pair;
                pair.source = corpus.source_vocabulary.encode(french(sentence));
                pair.target = corpus.target_vocabulary.encode(english(sentence));
                return pair;
              }},
              corpus);
  return corpus;
}

Corpus make_toy_sentences(const GeneratedOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = corpus.target_vocabulary = make_vocabulary(french_words());
  draw_splits(options, {[&corpus](RandomDraws& random) {
                auto ids = encode_with_bos(corpus.target_vocabulary, french(draw_sentence(random)));
                ids.push_back(eos_id);
                return Example{.target = std::move(ids)};
              }},
              corpus);
  return corpus;
}

Corpus make_toy_agreement(const GeneratedOptions& options) {
  Corpus corpus;
  corpus.source_vocabulary = make_vocabulary(french_words());
  corpus.target_vocabulary = Vocabulary({"right", "wrong"});
  draw_splits(options, {[&corpus](RandomDraws& random) {
                Sentence sentence = draw_singular_sentence(random);
                const Noun wrong = with_other_gender(*sentence.subject.noun);
                const bool right = random.one_in(2);
                if (!right) sentence.subject.noun = &wrong;
                Example example;
                example.source = encode_with_bos(corpus.source_vocabulary, french(sentence));
                example.target = {corpus.target_vocabulary.id(right ? "right" : "wrong")};
                return example;
              }},
              corpus);
  return corpus;
}

}  // namespace tapestry
