#include "data/readers/labelled_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

namespace {

constexpr const char* tag_format_hint =
    "write a token, a tab and its label on each line, and an empty line between two sentences; "
    "columns are chosen with cut, such as cut -f1,4";

constexpr TextContent content{.expected = "a token, a tab and its label a line",
                              .hint = "name the file with the tokens and labels"};

struct TaggedToken {
  std::size_t line;  ///< in its file, from 1
  std::string token, label;
};

using TaggedSentence = std::vector<TaggedToken>;

struct TaggedFile {
  std::string name;  ///< escaped for messages
  std::vector<TaggedSentence> sentences;

  std::string place(std::size_t line) const { return fmt::format("{}:{}", name, line); }
};

TaggedToken parse_token(const std::string& line, std::size_t number, const std::string& place) {
  const auto refuse = [&](const std::string& found) {
    throw DataError(fmt::format("{}: found {}, expected a token, a tab and a label", place, found),
                    tag_format_hint);
  };
  const auto tabs = std::ranges::count(line, '\t');
  if (tabs != 1) refuse(tabs == 0 ? "no tab" : fmt::format("{} tabs", tabs));
  const std::size_t tab = line.find('\t');
  TaggedToken tagged{.line = number, .token = line.substr(0, tab), .label = line.substr(tab + 1)};
  if (SpaceTokenizer().split(tagged.token) != Tokens{tagged.token}) {
    refuse(fmt::format("the token \"{}\", which is not one word", excerpt(tagged.token)));
  }
  if (!can_be_class(tagged.label)) {
    refuse(fmt::format("the label \"{}\", which is not one word", excerpt(tagged.label)));
  }
  return tagged;
}

/// part    "train", "validation" or "test"
/// labels  those of the training file; null while it is read itself
TaggedFile read(const std::string& part, const std::string& file, const std::filesystem::path& base,
                const Vocabulary* labels, OnBadLine on_bad_line, const FindTooLong& find_too_long,
                Corpus& corpus) {
  const std::filesystem::path path = base / file;
  const std::vector<std::string> lines =
      read_corpus_lines(fmt::format("data.{}_text", part), path, corpus, content);
  TaggedFile tagged{.name = escaped(path.native()), .sentences = {}};
  BadLines bad;
  TaggedSentence sentence;
  std::size_t bad_before = 0;  // bad lines before this sentence
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
    add_if_too_long({each.size(), each.size(), 0}, part,
                    {.source = tagged.name, .target = tagged.name}, each.front().line, on_bad_line,
                    find_too_long, bad);
  }
  bad.finish(on_bad_line, part, lines.size(), corpus.notes);
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
                  "join the files to one, with: cat");
}

Vocabulary make_vocabulary(const TaggedFile& file, const WordOptions& words) {
  WordCounter counter;
  for (const TaggedSentence& sentence : file.sentences) {
    for (const TaggedToken& tagged : sentence) counter.add({tagged.token});
  }
  return frequent_words(counter, words);
}

Vocabulary collect_labels(const TaggedFile& file) {
  std::vector<std::string> labels;
  for (const TaggedSentence& sentence : file.sentences) {
    for (const TaggedToken& tagged : sentence) labels.push_back(tagged.label);
  }
  return class_names(labels, file.name);
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
  corpus.source_vocabulary = fixed != nullptr ? fixed->source : make_vocabulary(training, words);
  corpus.target_vocabulary = fixed_labels != nullptr ? *fixed_labels : collect_labels(training);
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
