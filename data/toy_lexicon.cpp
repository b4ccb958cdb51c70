#include "data/toy_lexicon.h"

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

}  // namespace

std::span<const Noun> nouns() { return all_nouns; }
std::span<const Adjective> adjectives() { return all_adjectives; }
std::span<const Verb> verbs() { return all_verbs; }
std::span<const WordPair> prepositions() { return all_prepositions; }
std::span<const WordPair> adverbs() { return all_adverbs; }

}  // namespace tapestry::toy
