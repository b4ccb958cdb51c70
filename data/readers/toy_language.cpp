// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/toy_language.h"

#include <array>
#include <cstddef>

namespace tapestry::toy {

namespace {

constexpr auto animal = NounKind::animal;
constexpr auto thing = NounKind::thing;
constexpr auto place = NounKind::place;
constexpr auto m = Gender::masculine;
constexpr auto f = Gender::feminine;

constexpr Noun all_nouns[] = {
    {animal, m, {"chat", "chats"}, {"cat", "cats"}},
    {animal, m, {"chien", "chiens"}, {"dog", "dogs"}},
    {animal, m, {"cheval", "chevaux"}, {"horse", "horses"}},
    {animal, m, {"lapin", "lapins"}, {"rabbit", "rabbits"}},
    {animal, m, {"loup", "loups"}, {"wolf", "wolves"}},
    {animal, m, {"renard", "renards"}, {"fox", "foxes"}},
    {animal, m, {"canard", "canards"}, {"duck", "ducks"}},
    {animal, m, {"cochon", "cochons"}, {"pig", "pigs"}},
    {animal, m, {"singe", "singes"}, {"monkey", "monkeys"}},
    {animal, f, {"chèvre", "chèvres"}, {"goat", "goats"}},
    {animal, f, {"grenouille", "grenouilles"}, {"frog", "frogs"}},
    {animal, f, {"souris", "souris"}, {"mouse", "mice"}},
    {animal, f, {"vache", "vaches"}, {"cow", "cows"}},
    {animal, f, {"tortue", "tortues"}, {"turtle", "turtles"}},
    {animal, f, {"poule", "poules"}, {"hen", "hens"}},
    {thing, m, {"livre", "livres"}, {"book", "books"}},
    {thing, m, {"gâteau", "gâteaux"}, {"cake", "cakes"}},
    {thing, m, {"bateau", "bateaux"}, {"boat", "boats"}},
    {thing, m, {"chapeau", "chapeaux"}, {"hat", "hats"}},
    {thing, m, {"couteau", "couteaux"}, {"knife", "knives"}},
    {thing, m, {"jouet", "jouets"}, {"toy", "toys"}},
    {thing, f, {"voiture", "voitures"}, {"car", "cars"}},
    {thing, f, {"fleur", "fleurs"}, {"flower", "flowers"}},
    {thing, f, {"poire", "poires"}, {"pear", "pears"}},
    {thing, f, {"lettre", "lettres"}, {"letter", "letters"}},
    {thing, f, {"boîte", "boîtes"}, {"box", "boxes"}},
    {thing, f, {"chaise", "chaises"}, {"chair", "chairs"}},
    {place, m, {"jardin", "jardins"}, {"garden", "gardens"}},
    {place, m, {"château", "châteaux"}, {"castle", "castles"}},
    {place, m, {"pont", "ponts"}, {"bridge", "bridges"}},
    {place, m, {"marché", "marchés"}, {"market", "markets"}},
    {place, f, {"maison", "maisons"}, {"house", "houses"}},
    {place, f, {"forêt", "forêts"}, {"forest", "forests"}},
    {place, f, {"ville", "villes"}, {"city", "cities"}},
    {place, f, {"montagne", "montagnes"}, {"mountain", "mountains"}},
};

constexpr Adjective all_adjectives[] = {
    {true, {{{"petit", "petits"}, {"petite", "petites"}}}, "small"},
    {true, {{{"grand", "grands"}, {"grande", "grandes"}}}, "big"},
    {true, {{{"joli", "jolis"}, {"jolie", "jolies"}}}, "pretty"},
    {true, {{{"jeune", "jeunes"}, {"jeune", "jeunes"}}}, "young"},
    {true, {{{"mauvais", "mauvais"}, {"mauvaise", "mauvaises"}}}, "bad"},
    {true, {{{"beau", "beaux"}, {"belle", "belles"}}}, "beautiful"},
    {true, {{{"nouveau", "nouveaux"}, {"nouvelle", "nouvelles"}}}, "new"},
    {false, {{{"bleu", "bleus"}, {"bleue", "bleues"}}}, "blue"},
    {false, {{{"vert", "verts"}, {"verte", "vertes"}}}, "green"},
    {false, {{{"rouge", "rouges"}, {"rouge", "rouges"}}}, "red"},
    {false, {{{"noir", "noirs"}, {"noire", "noires"}}}, "black"},
    {false, {{{"blanc", "blancs"}, {"blanche", "blanches"}}}, "white"},
    {false, {{{"gris", "gris"}, {"grise", "grises"}}}, "grey"},
    {false, {{{"rapide", "rapides"}, {"rapide", "rapides"}}}, "fast"},
    {false, {{{"lourd", "lourds"}, {"lourde", "lourdes"}}}, "heavy"},
    {false, {{{"propre", "propres"}, {"propre", "propres"}}}, "clean"},
    {false, {{{"triste", "tristes"}, {"triste", "tristes"}}}, "sad"},
};

constexpr Verb all_verbs[] = {
    {true, {"mange", "mangent"}, {"eats", "eat"}},
    {true, {"voit", "voient"}, {"sees", "see"}},
    {true, {"regarde", "regardent"}, {"watches", "watch"}},
    {true, {"veut", "veulent"}, {"wants", "want"}},
    {true, {"porte", "portent"}, {"carries", "carry"}},
    {true, {"lave", "lavent"}, {"washes", "wash"}},
    {true, {"trouve", "trouvent"}, {"finds", "find"}},
    {true, {"prend", "prennent"}, {"takes", "take"}},
    {true, {"pousse", "poussent"}, {"pushes", "push"}},
    {true, {"suit", "suivent"}, {"follows", "follow"}},
    {true, {"cache", "cachent"}, {"hides", "hide"}},
    {false, {"dort", "dorment"}, {"sleeps", "sleep"}},
    {false, {"court", "courent"}, {"runs", "run"}},
    {false, {"chante", "chantent"}, {"sings", "sing"}},
    {false, {"danse", "dansent"}, {"dances", "dance"}},
    {false, {"travaille", "travaillent"}, {"works", "work"}},
    {false, {"rit", "rient"}, {"laughs", "laugh"}},
};

constexpr WordPair all_prepositions[] = {
    {"dans", "in"}, {"sur", "on"}, {"sous", "under"}, {"vers", "towards"}, {"derrière", "behind"},
};

constexpr WordPair all_adverbs[] = {
    {"souvent", "often"},
    {"toujours", "always"},
    {"vraiment", "really"},
};

struct DeterminerForms {
  std::array<NumberForms, 2> french;  ///< indexed by gender
  NumberForms english;
};

/// Indexed by Determiner. Possessive and demonstrative determiners have the forms used before a
/// consonant.
constexpr std::array<DeterminerForms, 4> determiners = {{
    {{{{"le", "les"}, {"la", "les"}}}, {"the", "the"}},
    {{{{"un", "des"}, {"une", "des"}}}, {"a", "some"}},
    {{{{"ce", "ces"}, {"cette", "ces"}}}, {"this", "these"}},
    {{{{"mon", "mes"}, {"ma", "mes"}}}, {"my", "my"}},
}};

constexpr std::array<NumberForms, 2> french_pronouns = {{{"le", "les"}, {"la", "les"}}};
constexpr NumberForms english_pronouns = {"it", "them"};
constexpr NumberForms english_auxiliaries = {"does", "do"};
constexpr std::string_view indefinite_plural_before_adjective = "de";

std::string_view form(const NumberForms& forms, Number number) {
  return forms[static_cast<std::size_t>(number)];
}

std::string_view form(const std::array<NumberForms, 2>& forms, Gender gender, Number number) {
  return form(forms[static_cast<std::size_t>(gender)], number);
}

const DeterminerForms& determiner_forms(Determiner determiner) {
  return determiners[static_cast<std::size_t>(determiner)];
}

std::string_view french_determiner(const NounPhrase& phrase) {
  const bool some = phrase.determiner == Determiner::indefinite && phrase.number == Number::plural;
  if (some && phrase.adjective_before != nullptr) return indefinite_plural_before_adjective;
  return form(determiner_forms(phrase.determiner).french, phrase.noun->gender, phrase.number);
}

void append_french(Tokens& tokens, const NounPhrase& phrase) {
  const Noun& noun = *phrase.noun;
  tokens.emplace_back(french_determiner(phrase));
  if (const Adjective* adjective = phrase.adjective_before) {
    tokens.emplace_back(form(adjective->french, noun.gender, phrase.number));
  }
  tokens.emplace_back(form(noun.french, phrase.number));
  for (const Adjective* adjective : phrase.adjectives_after) {
    tokens.emplace_back(form(adjective->french, noun.gender, phrase.number));
  }
}

void append_english(Tokens& tokens, const NounPhrase& phrase) {
  tokens.emplace_back(form(determiner_forms(phrase.determiner).english, phrase.number));
  if (phrase.adjective_before != nullptr) tokens.emplace_back(phrase.adjective_before->english);
  const auto& after = phrase.adjectives_after;
  for (auto adjective = after.rbegin(); adjective != after.rend(); ++adjective) {
    tokens.emplace_back((*adjective)->english);
  }
  tokens.emplace_back(form(phrase.noun->english, phrase.number));
}

void append_forms(Tokens& words, const NumberForms& forms) {
  words.insert(words.end(), forms.begin(), forms.end());
}

void append_forms(Tokens& words, const std::array<NumberForms, 2>& forms) {
  for (const NumberForms& by_number : forms) append_forms(words, by_number);
}

}  // namespace

std::span<const Noun> nouns() { return all_nouns; }
std::span<const Adjective> adjectives() { return all_adjectives; }
std::span<const Verb> verbs() { return all_verbs; }
std::span<const WordPair> prepositions() { return all_prepositions; }
std::span<const WordPair> adverbs() { return all_adverbs; }

Tokens french(const Sentence& sentence) {
  Tokens tokens;
  append_french(tokens, sentence.subject);
  if (sentence.negated) tokens.emplace_back("ne");
  if (const Pronoun* pronoun = std::get_if<Pronoun>(&sentence.object)) {
    tokens.emplace_back(form(french_pronouns, pronoun->gender, pronoun->number));
  }
  tokens.emplace_back(form(sentence.verb->french, sentence.subject.number));
  if (sentence.negated) tokens.emplace_back("pas");
  if (sentence.adverb != nullptr) tokens.emplace_back(sentence.adverb->french);
  if (const NounPhrase* object = std::get_if<NounPhrase>(&sentence.object)) {
    append_french(tokens, *object);
  }
  if (sentence.place) {
    tokens.emplace_back(sentence.place->preposition->french);
    append_french(tokens, sentence.place->phrase);
  }
  return tokens;
}

Tokens english(const Sentence& sentence) {
  const Number number = sentence.subject.number;
  Tokens tokens;
  append_english(tokens, sentence.subject);
  if (sentence.negated) {
    tokens.emplace_back(form(english_auxiliaries, number));
    tokens.emplace_back("not");
  }
  if (sentence.adverb != nullptr) tokens.emplace_back(sentence.adverb->english);
  const Number verb_number = sentence.negated ? Number::plural : number;
  tokens.emplace_back(form(sentence.verb->english, verb_number));
  if (const NounPhrase* object = std::get_if<NounPhrase>(&sentence.object)) {
    append_english(tokens, *object);
  } else if (const Pronoun* pronoun = std::get_if<Pronoun>(&sentence.object)) {
    tokens.emplace_back(form(english_pronouns, pronoun->number));
  }
  if (sentence.place) {
    tokens.emplace_back(sentence.place->preposition->english);
    append_english(tokens, sentence.place->phrase);
  }
  return tokens;
}

Tokens french_words() {
  Tokens words = {std::string(indefinite_plural_before_adjective), "ne", "pas"};
  append_forms(words, french_pronouns);
  for (const DeterminerForms& determiner : determiners) append_forms(words, determiner.french);
  for (const Noun& noun : nouns()) append_forms(words, noun.french);
  for (const Adjective& adjective : adjectives()) append_forms(words, adjective.french);
  for (const Verb& verb : verbs()) append_forms(words, verb.french);
  for (const WordPair& preposition : prepositions()) words.emplace_back(preposition.french);
  for (const WordPair& adverb : adverbs()) words.emplace_back(adverb.french);
  return words;
}

Tokens english_words() {
  Tokens words = {"not"};
  append_forms(words, english_pronouns);
  append_forms(words, english_auxiliaries);
  for (const DeterminerForms& determiner : determiners) append_forms(words, determiner.english);
  for (const Noun& noun : nouns()) append_forms(words, noun.english);
  for (const Adjective& adjective : adjectives()) words.emplace_back(adjective.english);
  for (const Verb& verb : verbs()) append_forms(words, verb.english);
  for (const WordPair& preposition : prepositions()) words.emplace_back(preposition.english);
  for (const WordPair& adverb : adverbs()) words.emplace_back(adverb.english);
  return words;
}

// ---- Random sentences

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

}  // namespace tapestry::toy
