// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/labelled_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/corpus.h"
#include "data/io/error.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/readers/corpus_text.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

namespace {

constexpr const char* format_hint = "write a label, a tab and a sentence on each line";
constexpr TextContent labelled_lines{.expected = "a label, a tab and a sentence per line",
                                     .hint = "name the file with the labels and sentences"};

struct LabelledLine {
  std::size_t number;  ///< line number in the file, from 1
  std::string label, sentence;
};

std::string not_one_word(const char* kind, const std::string& text) {
  return fmt::format("the {} \"{}\"{}, which is not one word", kind, excerpt(text),
                     name_odd_character(text));
}

LabelledLine parse(const std::string& name, std::size_t number, const std::string& line) {
  const std::size_t tab = line.find('\t');
  const auto reject = [&](const std::string& found) {
    throw DataError(
        fmt::format("{}:{}: found {}, expected a label, a tab and a sentence", name, number, found),
        format_hint);
  };
  if (tab == std::string::npos) reject("no tab");
  LabelledLine labelled{
      .number = number, .label = line.substr(0, tab), .sentence = line.substr(tab + 1)};
  if (is_blank(labelled.label)) reject("no label before the tab");
  if (!can_be_class(labelled.label)) {
    reject(not_one_word("label", labelled.label));
  }
  if (is_blank(labelled.sentence)) reject("no sentence after the tab");
  return labelled;
}

/// Calls f(line, bad) for the labelled lines of a file. f adds unusable lines to `bad`. Adds notes
/// on all unusable lines.
///
/// bad         an empty collection for this part
/// first_pass  receives the bad lines of the first pass; if null, they are rejected or skipped
void for_each_line(CorpusText& text, BadLines bad, FirstPassBadLines* first_pass,
                   std::vector<std::string>& notes,
                   const std::function<void(LabelledLine, BadLines&)>& f) {
  std::size_t lines = 0, not_blank = 0;
  text.for_each_line([&](const std::string& line, std::size_t number) {
    ++lines;
    if (is_blank(line)) return;
    ++not_blank;
    std::optional<LabelledLine> parsed;
    bad.attempt([&] { parsed = parse(text.name(), number, line); });
    if (parsed) f(*std::move(parsed), bad);
  });
  if (first_pass != nullptr) {
    first_pass->add(bad, lines, not_blank - bad.count());
  } else {
    bad.finish(lines, not_blank - bad.count(), notes);
  }
  if (not_blank > bad.count()) return;
  throw bad.nothing_left(
      text.name(),
      DataError(
          fmt::format("{}: found only blank lines, expected labels and sentences", text.name()),
          format_hint));
}

Example encode(const LabelledLine& line, const std::string& name, const Tokenizer& tokenizer,
               const Corpus& corpus) {
  const std::int32_t label =
      class_id(corpus.target_vocabulary, line.label, fmt::format("{}:{}", name, line.number));
  Example example{.source = {bos_id}, .target = {label}};
  const auto words = corpus.source_vocabulary.encode(split(tokenizer, line.sentence));
  example.source.insert(example.source.end(), words.begin(), words.end());
  return example;
}

/// Encodes the lines of a file.
void encode_lines(CorpusText& text, const Tokenizer& tokenizer, const BadLines& no_bad_lines,
                  const Corpus& corpus, const AddExample& add, std::vector<std::string>& notes) {
  const auto add_line = [&](const LabelledLine& line, BadLines& bad) {
    bad.attempt([&] {
      Example example = encode(line, text.name(), tokenizer, corpus);
      bad.add_if_too_long(example, line.number);
      add(std::move(example), line.number);
    });
  };
  for_each_line(text, no_bad_lines, nullptr, notes, add_line);
}

/// Adds notes about the labels of a training file that may be mistakes. A label that occurs on a
/// single line may be misspelled or belong to a heading, if labels have many lines on average. If
/// most labels have a single line, or if there are more labels than words, the file probably has
/// unexpected columns.
///
/// labels   number of lines of each label
/// words    number of distinct words in the text; 0 if unknown
/// content  the expected columns
void note_doubtful_labels(const std::string& name, const TextContent& content,
                          const std::map<std::string, std::size_t>& labels, std::size_t words,
                          std::vector<std::string>& notes) {
  constexpr std::size_t many = 10;  // many labels, or many lines per label on average
  constexpr std::size_t max_named = 5;
  if (labels.size() > many && words > 0 && labels.size() > words) {
    notes.push_back(
        fmt::format("warning: {}: found {} different labels and {} different words, "
                    "expected {}; check the order of the columns",
                    name, labels.size(), words, content.expected));
    return;
  }
  std::size_t lines = 0, single = 0;
  std::vector<std::string> named;
  for (const auto& [label, count] : labels) {
    lines += count;
    if (count == 1 && ++single <= max_named) {
      named.push_back(fmt::format("`{}`{}", escaped(label), name_odd_character(label)));
    }
  }
  const bool most = labels.size() > many && 2 * single > labels.size();
  if (single == 0 || (!most && lines < many * labels.size())) return;
  notes.push_back(fmt::format(
      "warning: {} of {} classes {} a single training example: {}{}; {}", single, labels.size(),
      single == 1 ? "has" : "have", fmt::join(named, ", "), single > max_named ? ", ..." : "",
      most ? fmt::format("expected {}", content.expected) : "check the spelling of labels"));
}

/// The training files. The first pass makes the vocabularies, the second pass encodes the examples.
class TrainingFiles {
 public:
  TrainingFiles(const FileList& files, const std::filesystem::path& base, OnBadLine on_bad_line,
                const TrainingSetOptions& training)
      : texts_(list_texts("data.train_text", files, base, labelled_lines)),
        on_bad_line_(on_bad_line),
        first_pass_(on_bad_line),
        training_(training) {
    for (CorpusText& text : texts_) {
      source_.texts.push_back(&text);
      source_.corpora.push_back({.source = text.name(), .target = text.name()});
    }
    decide_on_cache(source_, training);
  }

  /// Makes the requested vocabularies: words, classes, or both.
  void make_vocabularies(bool of_words, bool of_classes, const WordOptions& words,
                         const std::filesystem::path& base, Corpus& corpus) try {
    if (!of_words && !of_classes) return;
    const bool subwords = words.subwords.kind != SubwordKind::none;
    const bool learns = subwords && words.subwords.kind != SubwordKind::file;
    const Tokenizer tokenizer = WordTokenizer(words.lowercase);
    WordCounter counter;
    TextSample sentences;
    std::map<std::string, std::size_t> labels;  // label -> number of lines
    std::vector<std::string> unused;
    for (CorpusText& text : texts_) {
      const auto add_line = [&](LabelledLine line, BadLines&) {
        ++labels[std::move(line.label)];
        if (of_words && !subwords) counter.add(split(tokenizer, line.sentence));
        if (of_words && learns) sentences.add(std::move(line.sentence));
      };
      for_each_line(text, {"train", on_bad_line_}, &first_pass_, unused, add_line);
    }
    if (of_words && learns) first_pass_.reject_any();
    const std::string& name = texts_.front().name();
    if (of_words) {
      corpus.source_vocabulary =
          subwords ? Vocabulary(make_subwords(std::move(sentences), words, SubwordSide::source,
                                              base, name, corpus.notes))
                   : frequent_words(counter, words);
    }
    if (of_classes) {
      std::vector<std::string> names;
      for (const auto& [label, lines] : labels) names.push_back(label);
      corpus.target_vocabulary = class_names(names, name);
      const bool counted = of_words && !subwords;
      note_doubtful_labels(name, labelled_lines, labels, counted ? counter.different_words() : 0,
                           corpus.notes);
      note_similar_classes(corpus.target_vocabulary, corpus.notes);
    }
  } catch (const DataError&) {
    first_pass_.reject_any();
    throw;
  }

  void encode(const WordOptions& words, Corpus& corpus) {
    source_.options = fmt::format("labelled_text lowercase={} skip={}", words.lowercase,
                                  on_bad_line_ == OnBadLine::skip);
    const Tokenizer tokenizer = sentence_tokenizer(corpus.source_vocabulary, words);
    fill_training_set(
        training_, source_, corpus,
        [&](std::size_t number, const AddExample& add, std::vector<std::string>& notes) {
          const BadLines bad("train", on_bad_line_, source_.corpora[number],
                             training_.find_too_long);
          encode_lines(texts_[number], tokenizer, bad, corpus, add, notes);
        });
  }

 private:
  std::vector<CorpusText> texts_;
  TrainingSource source_;
  OnBadLine on_bad_line_;
  FirstPassBadLines first_pass_;
  const TrainingSetOptions& training_;
};

}  // namespace

Corpus load_labelled_text(const TextFiles& files, const WordOptions& words,
                          const std::filesystem::path& base, const FixedVocabularies* fixed,
                          OnBadLine on_bad_line, const TrainingSetOptions& training) {
  Corpus corpus;
  if (fixed != nullptr) corpus.source_vocabulary = fixed->source;
  const bool has_classes = fixed != nullptr && fixed->target;
  if (has_classes) corpus.target_vocabulary = *fixed->target;
  if (fixed == nullptr || !files.train_text.empty()) {
    TrainingFiles texts(files.train_text, base, on_bad_line, training);
    texts.make_vocabularies(fixed == nullptr, !has_classes, words, base, corpus);
    texts.encode(words, corpus);
  }
  const Tokenizer tokenizer = sentence_tokenizer(corpus.source_vocabulary, words);
  const auto load = [&](const std::string& part, const std::string& file,
                        std::vector<Example>& examples, ExampleLines& lines) {
    if (file.empty()) return;
    CorpusText text(fmt::format("data.{}_text", part), base / file, labelled_lines);
    const LineFiles files_of_part{.source = text.name(), .target = text.name()};
    lines = {.source_file = text.name(), .target_file = text.name(), .lines = {}};
    encode_lines(
        text, tokenizer, {part, on_bad_line, files_of_part, training.find_too_long}, corpus,
        [&](Example example, std::size_t line) {
          examples.push_back(std::move(example));
          lines.lines.push_back(line);
        },
        corpus.notes);
    text.record(corpus);
  };
  load("validation", files.validation_text, corpus.validation, corpus.validation_lines);
  load("test", files.test_text, corpus.test, corpus.test_lines);
  return corpus;
}

namespace {

constexpr const char* tag_format_hint =
    "write a token, a tab and its label on each line, and an empty line between two sentences; "
    "select two columns of a file with cut, for example: cut -f1,4";

/// The hint for a line whose columns are not a token and a label.
std::string hint_for_columns(const std::string& line) {
  const auto spaces = std::ranges::count(line, ' ');
  if (spaces == 0 || line.find('\t') != line.npos) return tag_format_hint;
  return fmt::format("replace the spaces with tabs{}: sed 's/ /\\t/g' FILE{}",
                     spaces == 1 ? "" : ", and select the columns of the token and the label",
                     spaces == 1 ? "" : fmt::format(" | cut -f1,{}", spaces + 1));
}

constexpr TextContent content{.expected = "a token, a tab and its label per line",
                              .hint = "name the file with the tokens and labels"};

struct TaggedToken {
  std::size_t line;  ///< line number in the file, from 1
  std::string token, label;
};

using TaggedSentence = std::vector<TaggedToken>;

struct TaggedFile {
  std::string name;  ///< file name, escaped for messages
  std::vector<TaggedSentence> sentences;

  std::string place(std::size_t line) const { return fmt::format("{}:{}", name, line); }
};

TaggedToken parse_token(const std::string& line, std::size_t number, const std::string& place) {
  const auto reject = [&](const std::string& found) {
    throw DataError(fmt::format("{}: found {}, expected a token, a tab and a label", place, found),
                    hint_for_columns(line));
  };
  const auto tabs = std::ranges::count(line, '\t');
  if (tabs != 1) reject(tabs == 0 ? "no tab" : fmt::format("{} tabs", tabs));
  const std::size_t tab = line.find('\t');
  TaggedToken tagged{.line = number, .token = line.substr(0, tab), .label = line.substr(tab + 1)};
  if (SpaceTokenizer().split(tagged.token) != Tokens{tagged.token}) {
    reject(not_one_word("token", tagged.token));
  }
  if (!can_be_class(tagged.label)) {
    reject(not_one_word("label", tagged.label));
  }
  return tagged;
}

/// part    "train", "validation" or "test"
/// labels  labels of the training file; null while the training file is read
TaggedFile read(const std::string& part, const std::string& file, const std::filesystem::path& base,
                const Vocabulary* labels, OnBadLine on_bad_line, const FindTooLong& find_too_long,
                Corpus& corpus) {
  const std::filesystem::path path = base / file;
  const std::vector<std::string> lines =
      read_corpus_lines(fmt::format("data.{}_text", part), path, corpus, content);
  TaggedFile tagged{.name = escaped(path.native()), .sentences = {}};
  const LineFiles files{.source = tagged.name, .target = tagged.name};
  BadLines bad(part, on_bad_line, files, find_too_long);
  TaggedSentence sentence;
  std::size_t bad_before = 0;  // number of bad lines before this sentence
  const auto end_sentence = [&] {
    const bool good = bad.count() == std::exchange(bad_before, bad.count());
    if (good && !sentence.empty()) tagged.sentences.push_back(std::move(sentence));
    sentence = {};
  };
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (is_blank(lines[i])) {
      end_sentence();
    } else {
      bad.attempt([&] {
        sentence.push_back(parse_token(lines[i], i + 1, tagged.place(i + 1)));
        if (labels != nullptr) class_id(*labels, sentence.back().label, tagged.place(i + 1));
      });
    }
  }
  end_sentence();
  for (const TaggedSentence& each : tagged.sentences) {
    bad.add_if_too_long({each.size(), each.size(), 0}, each.front().line);
  }
  bad.finish(lines.size(), tagged.sentences.size(), corpus.notes);
  const bool one_sentence = std::ranges::none_of(lines, is_blank) && !tagged.sentences.empty();
  if (one_sentence && find_too_long && on_bad_line == OnBadLine::stop) {
    const std::size_t tokens = tagged.sentences.front().size();
    const auto error = find_too_long(part, {tokens, tokens, 0}, files, 1);
    if (error) throw DataError(error->what(), "put an empty line after each sentence");
  }
  if (!tagged.sentences.empty()) return tagged;
  throw bad.nothing_left(
      tagged.name,
      DataError(fmt::format("{}: found only blank lines, expected tokens and labels", tagged.name),
                tag_format_hint));
}

std::string only_name(const FileList& files) {
  const std::vector<std::string>& names = files.names();
  if (names.size() <= 1) return names.empty() ? "" : names.front();
  throw DataError(fmt::format("data.train_text: found {} files, expected one", names.size()),
                  "join the files into one with: cat");
}

WordCounter count_tokens(const TaggedFile& file) {
  WordCounter counter;
  for (const TaggedSentence& sentence : file.sentences) {
    for (const TaggedToken& tagged : sentence) counter.add({tagged.token});
  }
  return counter;
}

Vocabulary collect_labels(const TaggedFile& file, std::size_t different_tokens,
                          std::vector<std::string>& notes) {
  std::map<std::string, std::size_t> counts;
  for (const TaggedSentence& sentence : file.sentences) {
    for (const TaggedToken& tagged : sentence) ++counts[tagged.label];
  }
  std::vector<std::string> labels;
  for (const auto& [label, count] : counts) labels.push_back(label);
  Vocabulary classes = class_names(labels, file.name);
  note_doubtful_labels(file.name, content, counts, different_tokens, notes);
  note_similar_classes(classes, notes);
  return classes;
}

Example encode(const TaggedSentence& sentence, const Corpus& corpus) {
  Example example;
  for (const TaggedToken& tagged : sentence) {
    example.source.push_back(corpus.source_vocabulary.id(tagged.token));
    example.target.push_back(corpus.target_vocabulary.id(tagged.label));
  }
  return example;
}

void encode(const TaggedFile& file, const Corpus& corpus, std::vector<Example>& examples,
            ExampleLines& lines) {
  lines = {.source_file = file.name, .target_file = file.name, .lines = {}};
  for (const TaggedSentence& sentence : file.sentences) {
    examples.push_back(encode(sentence, corpus));
    lines.lines.push_back(sentence.front().line);
  }
}

}  // namespace

Corpus load_tagged_text(const TextFiles& files, const WordOptions& words,
                        const std::filesystem::path& base, const FixedVocabularies* fixed,
                        OnBadLine on_bad_line, const FindTooLong& find_too_long) {
  Corpus corpus;
  const auto read_part = [&](const std::string& part, const std::string& file,
                             const Vocabulary* labels) {
    return read(part, file, base, labels, on_bad_line, find_too_long, corpus);
  };
  const Vocabulary* fixed_labels = fixed != nullptr && fixed->target ? &*fixed->target : nullptr;
  TaggedFile training;
  if (fixed == nullptr || !files.train_text.empty()) {
    training = read_part("train", only_name(files.train_text), fixed_labels);
  }
  const WordCounter tokens = count_tokens(training);
  corpus.source_vocabulary = fixed != nullptr ? fixed->source : frequent_words(tokens, words);
  corpus.target_vocabulary = fixed_labels != nullptr
                                 ? *fixed_labels
                                 : collect_labels(training, tokens.different_words(), corpus.notes);
  encode(training, corpus, corpus.train, corpus.train_lines);
  const auto load = [&](const std::string& part, const std::string& file,
                        std::vector<Example>& examples, ExampleLines& lines) {
    if (file.empty()) return;
    encode(read_part(part, file, &corpus.target_vocabulary), corpus, examples, lines);
  };
  load("validation", files.validation_text, corpus.validation, corpus.validation_lines);
  load("test", files.test_text, corpus.test, corpus.test_lines);
  return corpus;
}

}  // namespace tapestry
