#include "tests/train/wiring/data_reference.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <utility>

namespace tapestry::test {
namespace {

/// The file of a list of one.
std::string only(const FileList& files) { return files.empty() ? "" : files.names().front(); }

using Words = std::vector<std::string>;

Words read_lines(const std::string& file) {
  std::istringstream text(read_text(file));
  Words lines;
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  REQUIRE_MESSAGE(!lines.empty(), file);
  return lines;
}

std::string lowered(std::string text, bool lowercase) {
  for (char& c : text) c = lowercase ? static_cast<char>(std::tolower(c)) : c;
  return text;
}

Words split_words(const std::string& line, bool lowercase) {
  std::istringstream stream(lowered(line, lowercase));
  Words words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

Words split_characters(const std::string& line, bool lowercase) {
  Words characters;
  for (const char c : lowered(line, lowercase)) {
    characters.push_back(c == ' ' ? "<space>" : std::string(1, c));
  }
  return characters;
}

/// The frequent words, most frequent first and then by their bytes.
Vocabulary make_vocabulary(const std::vector<Words>& sentences, const DataOptions& options) {
  std::map<std::string, std::size_t> counts;
  for (const Words& sentence : sentences) {
    for (const std::string& word : sentence) ++counts[word];
  }
  std::vector<std::pair<std::size_t, std::string>> ranks;
  for (const auto& [word, count] : counts) {
    if (count >= options.words.min_frequency) ranks.emplace_back(~count, word);
  }
  std::ranges::sort(ranks);
  Words words;
  for (const auto& [rank, word] : ranks) {
    if (options.words.max_vocabulary == 0 || words.size() < options.words.max_vocabulary)
      words.push_back(word);
  }
  return Vocabulary(words);
}

std::vector<std::int32_t> ids_of(const Words& words, const Vocabulary& vocabulary) {
  std::vector<std::int32_t> ids;
  for (const std::string& word : words) ids.push_back(vocabulary.id(word));
  return ids;
}

struct Sides {
  std::vector<Words> source, target;
};

Sides read_pairs(const std::string& source, const std::string& target, bool lowercase,
                 std::size_t max_tokens) {
  const Words sources = read_lines(source), targets = read_lines(target);
  REQUIRE(sources.size() == targets.size());
  Sides pairs;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const Words a = split_words(sources[i], lowercase), b = split_words(targets[i], lowercase);
    if (max_tokens != 0 && std::max(a.size(), b.size()) > max_tokens) continue;
    pairs.source.push_back(a);
    pairs.target.push_back(b);
  }
  return pairs;
}

Corpus pairs_plainly(const DataOptions& o) {
  const Sides train = read_pairs(only(o.pairs.train_source), only(o.pairs.train_target),
                                 o.words.lowercase, o.pairs.max_tokens);
  Corpus corpus;
  std::vector<Words> both = train.source;
  both.insert(both.end(), train.target.begin(), train.target.end());
  corpus.source_vocabulary = make_vocabulary(o.pairs.shared_vocabulary ? both : train.source, o);
  corpus.target_vocabulary = make_vocabulary(o.pairs.shared_vocabulary ? both : train.target, o);
  const auto encode = [&](const Sides& pairs) {
    std::vector<Example> examples;
    for (std::size_t i = 0; i < pairs.source.size(); ++i) {
      examples.push_back({.source = ids_of(pairs.source[i], corpus.source_vocabulary),
                          .target = ids_of(pairs.target[i], corpus.target_vocabulary)});
    }
    return examples;
  };
  corpus.train = encode(train);
  corpus.validation = encode(
      read_pairs(o.pairs.validation_source, o.pairs.validation_target, o.words.lowercase, 0));
  if (!o.pairs.test_source.empty()) {
    corpus.test =
        encode(read_pairs(o.pairs.test_source, o.pairs.test_target, o.words.lowercase, 0));
  }
  return corpus;
}

Corpus text_plainly(const DataOptions& o) {
  Words train = read_lines(only(o.text.train_text)), validation;
  if (!o.text.validation_text.empty()) {
    validation = read_lines(o.text.validation_text);
  } else {
    // The lines behind the first `1 - validation_share` of the bytes.
    double bytes = 0.0, before = 0.0;
    for (const std::string& line : train) bytes += static_cast<double>(line.size() + 1);
    std::size_t kept = 0;
    while (kept < train.size() && before < std::round((1.0 - o.windows.validation_share) * bytes)) {
      before += static_cast<double>(train[kept++].size() + 1);
    }
    validation.assign(train.begin() + static_cast<std::ptrdiff_t>(kept), train.end());
    train.resize(kept);
  }
  const auto tokens_of = [&](const Words& lines) {
    Words tokens;
    for (const std::string& line : lines) {
      const Words of_line = o.windows.unit == TextUnit::word
                                ? split_words(line, o.words.lowercase)
                                : split_characters(line, o.words.lowercase);
      tokens.insert(tokens.end(), of_line.begin(), of_line.end());
      tokens.emplace_back("<newline>");
    }
    return tokens;
  };
  Corpus corpus;
  corpus.source_vocabulary = corpus.target_vocabulary = make_vocabulary({tokens_of(train)}, o);
  const auto cut = [&](const Words& lines) {
    const auto ids = ids_of(tokens_of(lines), corpus.target_vocabulary);
    std::vector<Example> examples;
    for (std::size_t label = 1; label < ids.size(); ++label) {
      if ((label - 1) % o.windows.context == 0) examples.push_back({.target = {ids[label - 1]}});
      examples.back().target.push_back(ids[label]);
    }
    return examples;
  };
  corpus.train = cut(train);
  corpus.validation = cut(validation);
  if (!o.text.test_text.empty()) corpus.test = cut(read_lines(o.text.test_text));
  return corpus;
}

Corpus labels_plainly(const DataOptions& o) {
  struct Labelled {
    Words labels;
    std::vector<Words> sentences;
  };
  const auto read = [&](const std::string& file) {
    Labelled labelled;
    for (const std::string& line : read_lines(file)) {
      const std::size_t tab = line.find('\t');
      labelled.labels.push_back(line.substr(0, tab));
      labelled.sentences.push_back(split_words(line.substr(tab + 1), o.words.lowercase));
    }
    return labelled;
  };
  const Labelled train = read(only(o.text.train_text));
  Corpus corpus;
  corpus.source_vocabulary = make_vocabulary(train.sentences, o);
  const std::set<std::string> classes(train.labels.begin(), train.labels.end());
  corpus.target_vocabulary = Vocabulary(Words(classes.begin(), classes.end()));
  const auto encode = [&](const Labelled& labelled) {
    std::vector<Example> examples;
    for (std::size_t i = 0; i < labelled.labels.size(); ++i) {
      Example example{.source = {bos_id},
                      .target = {corpus.target_vocabulary.id(labelled.labels[i])}};
      for (const std::int32_t id : ids_of(labelled.sentences[i], corpus.source_vocabulary)) {
        example.source.push_back(id);
      }
      examples.push_back(example);
    }
    return examples;
  };
  corpus.train = encode(train);
  if (!o.text.validation_text.empty()) corpus.validation = encode(read(o.text.validation_text));
  if (!o.text.test_text.empty()) corpus.test = encode(read(o.text.test_text));
  return corpus;
}

Corpus tags_plainly(const DataOptions& o) {
  using Sentences = std::vector<std::vector<std::pair<std::string, std::string>>>;
  const auto read = [](const std::string& file) {
    Sentences sentences(1);
    for (const std::string& line : read_lines(file)) {
      if (line.empty()) {
        sentences.emplace_back();
      } else {
        const std::size_t tab = line.find('\t');
        sentences.back().emplace_back(line.substr(0, tab), line.substr(tab + 1));
      }
    }
    std::erase_if(sentences, [](const auto& sentence) { return sentence.empty(); });
    return sentences;
  };
  const Sentences train = read(only(o.text.train_text));
  Corpus corpus;
  std::vector<Words> words;
  std::set<std::string> labels;
  for (const auto& sentence : train) {
    Words tokens;
    for (const auto& tagged : sentence) {
      tokens.push_back(tagged.first);
      labels.insert(tagged.second);
    }
    words.push_back(tokens);
  }
  corpus.source_vocabulary = make_vocabulary(words, o);
  corpus.target_vocabulary = Vocabulary(Words(labels.begin(), labels.end()));
  const auto encode = [&](const Sentences& sentences) {
    std::vector<Example> examples;
    for (const auto& sentence : sentences) {
      Example example;
      for (const auto& tagged : sentence) {
        example.source.push_back(corpus.source_vocabulary.id(tagged.first));
        example.target.push_back(corpus.target_vocabulary.id(tagged.second));
      }
      examples.push_back(example);
    }
    return examples;
  };
  corpus.train = encode(train);
  if (!o.text.validation_text.empty()) corpus.validation = encode(read(o.text.validation_text));
  if (!o.text.test_text.empty()) corpus.test = encode(read(o.text.test_text));
  return corpus;
}

}  // namespace

Corpus read_plainly(const DataOptions& options) {
  if (options.task == "parallel_text") return pairs_plainly(options);
  if (options.task == "text") return text_plainly(options);
  if (options.task == "tagged_text") return tags_plainly(options);
  REQUIRE(options.task == "labelled_text");
  return labels_plainly(options);
}

void check_same(const Corpus& found, const Corpus& expected) {
  CHECK(found.source_vocabulary.to_text() == expected.source_vocabulary.to_text());
  CHECK(found.target_vocabulary.to_text() == expected.target_vocabulary.to_text());
  CHECK(found.train == expected.train);
  CHECK(found.validation == expected.validation);
  CHECK(found.test == expected.test);
}

}  // namespace tapestry::test
