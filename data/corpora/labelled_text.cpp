#include "data/corpora/labelled_text.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/text/tokenizer.h"
#include "data/text/vocabulary.h"

namespace tapestry {

namespace {

constexpr const char* format_hint = "write a label, a tab and a sentence on each line";

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

LabelledFile read(const char* key, const std::string& file, const std::filesystem::path& base,
                  Corpus& corpus) {
  const std::filesystem::path path = base / file;
  const std::vector<std::string> lines = read_corpus_lines(key, path, corpus);
  LabelledFile labelled{.name = escaped(path.native()), .lines = {}};
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (!is_blank(lines[i])) {
      labelled.lines.push_back(parse(labelled.name, i + 1, lines[i]));
    }
  }
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

std::vector<Example> encode(const LabelledFile& file, const Tokenizer& tokenizer,
                            const Corpus& corpus) {
  std::vector<Example> examples;
  for (const LabelledLine& line : file.lines) {
    examples.push_back(encode(line, file.name, tokenizer, corpus));
  }
  return examples;
}

}  // namespace

Corpus load_labelled_text(const TextFiles& files, const WordOptions& words,
                          const std::filesystem::path& base, const FixedVocabularies* fixed) {
  const Tokenizer tokenizer = WordTokenizer(words.lowercase);
  Corpus corpus;
  LabelledFile training;
  if (fixed == nullptr || !files.train_text.empty()) {
    training = read("data.train_text", files.train_text, base, corpus);
  }
  corpus.source_vocabulary =
      fixed != nullptr ? fixed->source : make_vocabulary(training, tokenizer, words);
  corpus.target_vocabulary =
      fixed != nullptr && fixed->target ? *fixed->target : collect_classes(training);
  corpus.train = encode(training, tokenizer, corpus);
  const auto load = [&](const char* key, const std::string& file) {
    return file.empty() ? std::vector<Example>{}
                        : encode(read(key, file, base, corpus), tokenizer, corpus);
  };
  corpus.validation = load("data.validation_text", files.validation_text);
  corpus.test = load("data.test_text", files.test_text);
  return corpus;
}

}  // namespace tapestry
