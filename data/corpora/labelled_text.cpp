#include "data/corpora/labelled_text.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/io/error.h"
#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

namespace {

constexpr const char* format_hint = "write a label, a tab and a sentence on each line";
constexpr TextContent content{.expected = "a label, a tab and a sentence a line",
                              .hint = "name the file with the labels and sentences"};

struct LabelledLine {
  std::size_t number;  ///< in its file, from 1
  std::string label, sentence;
};

struct LabelledFile {
  std::string name;
  std::vector<LabelledLine> lines;
};

LabelledLine parse(const std::string& name, std::size_t number, const std::string& line) {
  const std::size_t tab = line.find('\t');
  const auto refuse = [&](const std::string& found) {
    throw DataError(
        fmt::format("{}:{}: found {}, expected a label, a tab and a sentence", name, number, found),
        format_hint);
  };
  if (tab == std::string::npos) refuse("no tab");
  LabelledLine labelled{
      .number = number, .label = line.substr(0, tab), .sentence = line.substr(tab + 1)};
  if (is_blank(labelled.label)) refuse("no label before the tab");
  if (!can_be_class(labelled.label)) {
    refuse(fmt::format("the label \"{}\", which is not one word", excerpt(labelled.label)));
  }
  if (is_blank(labelled.sentence)) refuse("no sentence after the tab");
  return labelled;
}

/// part  "train", "validation" or "test"
LabelledFile read(const std::string& part, const std::string& file,
                  const std::filesystem::path& base, OnBadLine on_bad_line, Corpus& corpus) {
  const std::filesystem::path path = base / file;
  const std::vector<std::string> lines =
      read_corpus_lines(fmt::format("data.{}_text", part), path, corpus, content);
  LabelledFile labelled{.name = escaped(path.native()), .lines = {}};
  BadLines bad;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (is_blank(lines[i])) continue;
    bad.attempt([&] { labelled.lines.push_back(parse(labelled.name, i + 1, lines[i])); });
  }
  bad.finish(on_bad_line, part, lines.size(), corpus);
  if (!labelled.lines.empty()) return labelled;
  throw DataError(
      fmt::format("{}: found only blank lines, expected labels and sentences", labelled.name),
      format_hint);
}

Vocabulary make_vocabulary(const LabelledFile& file, const Tokenizer& tokenizer,
                           const WordOptions& words) {
  WordCounter counter;
  for (const LabelledLine& line : file.lines) counter.add(split(tokenizer, line.sentence));
  return frequent_words(counter, words);
}

Vocabulary collect_classes(const LabelledFile& file) {
  std::vector<std::string> labels;
  for (const LabelledLine& line : file.lines) labels.push_back(line.label);
  return class_names(labels, file.name);
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

void encode(const LabelledFile& file, const Tokenizer& tokenizer, const std::string& part,
            OnBadLine on_bad_line, Corpus& corpus, std::vector<Example>& examples,
            ExampleLines& lines) {
  lines = {.source_file = file.name, .target_file = file.name, .lines = {}};
  BadLines bad;
  for (const LabelledLine& line : file.lines) {
    bad.attempt([&] {
      examples.push_back(encode(line, file.name, tokenizer, corpus));
      lines.lines.push_back(line.number);
    });
  }
  bad.finish(on_bad_line, part, file.lines.size(), corpus);
}

}  // namespace

Corpus load_labelled_text(const TextFiles& files, const WordOptions& words,
                          const std::filesystem::path& base, const FixedVocabularies* fixed,
                          OnBadLine on_bad_line) {
  const Tokenizer tokenizer = WordTokenizer(words.lowercase);
  Corpus corpus;
  LabelledFile training;
  if (fixed == nullptr || !files.train_text.empty()) {
    training = read("train", files.train_text, base, on_bad_line, corpus);
  }
  corpus.source_vocabulary =
      fixed != nullptr ? fixed->source : make_vocabulary(training, tokenizer, words);
  corpus.target_vocabulary =
      fixed != nullptr && fixed->target ? *fixed->target : collect_classes(training);
  encode(training, tokenizer, "train", on_bad_line, corpus, corpus.train, corpus.train_lines);
  const auto load = [&](const std::string& part, const std::string& file,
                        std::vector<Example>& examples, ExampleLines& lines) {
    if (file.empty()) return;
    encode(read(part, file, base, on_bad_line, corpus), tokenizer, part, on_bad_line, corpus,
           examples, lines);
  };
  load("validation", files.validation_text, corpus.validation, corpus.validation_lines);
  load("test", files.test_text, corpus.test, corpus.test_lines);
  return corpus;
}

}  // namespace tapestry
