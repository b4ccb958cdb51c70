// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/language_model_corpus.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "data/text/tokenizer.h"
#include "tests/data/rejection.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;
using tapestry::test::TemporaryFolder;
using Ids = std::vector<std::int32_t>;

namespace {

struct BookFolder {
  explicit BookFolder(std::string_view text) {
    write(text);
    files.train_text = "train.txt";
    windows.validation_share = 0.0;
    windows.context = 4;
  }

  void write(std::string_view text, const char* file = "train.txt") const {
    folder.write(file, text);
  }
  Corpus load(const FixedVocabularies* fixed = nullptr) const {
    return load_language_model_corpus(files, windows, words, folder.path(), fixed);
  }
  /// Checks that the files are rejected, and that the error contains these words.
  void check_rejected(const std::vector<std::string>& words_of_message) const {
    test::check_rejected({{"", words_of_message}}, [this](const std::string&) { load(); });
  }

  /// The text of all tokens of a part, without the overlap of windows.
  std::string decoded(const Corpus& corpus, const std::vector<Example>& part) const {
    Ids ids;
    for (const Example& window : part) {
      ids.insert(ids.end(), window.target.begin() + (ids.empty() ? 0 : 1), window.target.end());
    }
    return TextCodec({.tokenizer = window_tokenizer(windows, words, corpus.target_vocabulary),
                      .multiple_lines = true},
                     corpus.source_vocabulary, corpus.target_vocabulary)
        .decode_target(ids);
  }

  TemporaryFolder folder;
  TextFiles files;
  WindowOptions windows;
  WordOptions words;
};

}  // namespace

TEST_CASE(
    "a text is divided into windows, each starting with the last token of the previous window") {
  const BookFolder text("abcabca\nb\n");
  const Corpus corpus = text.load();
  // By decreasing frequency; <newline> is the line end, which is as frequent as c.
  CHECK(corpus.target_vocabulary == Vocabulary({"a", "b", "<newline>", "c"}));
  CHECK(corpus.source_vocabulary == corpus.target_vocabulary);
  REQUIRE(corpus.train.size() == 3);
  CHECK(corpus.train[0] == Example{.target = {4, 5, 7, 4, 5}});
  CHECK(corpus.train[1] == Example{.target = {5, 7, 4, 6, 5}});
  CHECK(corpus.train[2] == Example{.target = {5, 6}});
  CHECK(corpus.validation.empty());
  for (const char* same : {"abcabca\r\nb\r\n", "abcabca\nb"}) {
    text.write(same);
    CHECK(text.load().train == corpus.train);
  }
}

TEST_CASE("every token but the first is predicted once, for every context length") {
  BookFolder text("one two\n\nthree\tfour\n");
  for (std::size_t context = 1; context <= 21; ++context) {
    CAPTURE(context);
    text.windows.context = context;
    const Corpus corpus = text.load();
    std::size_t predicted = 0;
    for (std::size_t i = 0; i < corpus.train.size(); ++i) {
      const Ids& window = corpus.train[i].target;
      CHECK(window.size() >= 2);
      CHECK(window.size() <= context + 1);
      if (i > 0) CHECK(window.front() == corpus.train[i - 1].target.back());
      predicted += window.size() - 1;
    }
    CHECK(predicted == 19);
    CHECK(text.decoded(corpus, corpus.train) == "one two\n\nthree\tfour\n");
  }
}

TEST_CASE("text by words has punctuation and line ends as tokens") {
  BookFolder text("Oh, oh!\noh\n");
  text.windows.unit = TextUnit::word;
  text.words.lowercase = true;
  const Corpus corpus = text.load();
  CHECK(corpus.target_vocabulary == Vocabulary({"oh", "<newline>", "!", ","}));
  CHECK(corpus.train[0].target == Ids{4, 7, 4, 6, 5});
}

TEST_CASE(
    "the last lines of a text are held out, and their words are not added to the vocabulary") {
  BookFolder text("aaaa\nbbbb\ncccc\ndddd\n");
  text.windows.validation_share = 0.25;
  Corpus corpus = text.load();
  CHECK(text.decoded(corpus, corpus.train) == "aaaa\nbbbb\ncccc\n");
  CHECK(corpus.target_vocabulary.id("d") == unk_id);
  REQUIRE(corpus.validation.size() == 1);
  CHECK(corpus.validation[0].target ==
        Ids{unk_id, unk_id, unk_id, unk_id, corpus.target_vocabulary.id("<newline>")});
  text.windows.validation_share = 0.5;
  corpus = text.load();
  CHECK(text.decoded(corpus, corpus.train) == "aaaa\nbbbb\n");
  // A line across the boundary stays in the training set.
  text.windows.validation_share = 0.3;
  CHECK(text.load().validation.size() == 1);
  CHECK(corpus.test.empty());
  // Line ends count as bytes of the share.
  text.write("ab\n\n\n\n\n\n\n");
  text.windows.validation_share = 1.0 / 3;  // 3 of 9 bytes
  corpus = text.load();
  CHECK(text.decoded(corpus, corpus.train) == "ab\n\n\n\n");
  CHECK(text.decoded(corpus, corpus.validation) == "\n\n\n");
}

TEST_CASE("the number of bytes to hold out is rounded to the nearest integer") {
  BookFolder text("aaaa\nbbbb\ncccc\n");
  text.windows.context = 100;
  const auto kept = [&](double share) {
    text.windows.validation_share = share;
    return text.load().train.front().target.size();
  };
  CHECK(kept(1.0 - 5.4 / 15) == 5);
  CHECK(kept(1.0 - 5.6 / 15) == 10);
}

TEST_CASE("a text of one line is divided between two tokens") {
  BookFolder text("abcdefghij");
  text.windows.validation_share = 0.25;  // of 11 bytes, including the line end
  Corpus corpus = text.load();
  CHECK(text.decoded(corpus, corpus.train) == "abcdefgh");
  CHECK(corpus.target_vocabulary.id("j") == unk_id);
  CHECK(corpus.validation.front().target.size() == 3);  // i, j and the line end
  CHECK(corpus.validation.front().target.front() == unk_id);

  text.write("äöüäöüäöü");
  corpus = text.load();
  CHECK(text.decoded(corpus, corpus.train) == "äöüäöüä");
  CHECK(text.decoded(corpus, corpus.validation) == "öü\uFFFD");

  text.windows.unit = TextUnit::word;
  text.write("one two three four five six\n");
  corpus = text.load();
  CHECK(text.decoded(corpus, corpus.train) == "one two three four five");  // not "fi"
  CHECK(corpus.validation.front().target.size() == 2);

  // The last of several lines is divided if no line begins in the held-out share.
  text.windows = {.context = 4, .validation_share = 0.2};  // 4 of 20 bytes
  text.write("ab\ncdefghijklmnopqr\n");
  corpus = text.load();
  CHECK(text.decoded(corpus, corpus.train) == "ab\ncdefghijklmno");
}

TEST_CASE("a line of several megabytes is read, and dividing it does not change its tokens") {
  BookFolder text("");
  std::string line;
  for (int i = 0; line.size() < (std::size_t{3} << 20); ++i)
    line += "wörd" + std::to_string(i % 7) + " ";
  text.write(line);
  text.windows.context = 1 << 20;
  text.windows.validation_share = 0.0;
  Corpus corpus = text.load();
  CHECK(text.decoded(corpus, corpus.train) == line + "\n");
  text.windows.unit = TextUnit::word;
  corpus = text.load();
  line.back() = '\n';
  CHECK(text.decoded(corpus, corpus.train) == line);
}

/// Returns where a text is divided: at the first line that begins in the held-out share, or,
/// without such a line, at the first token of the last line that begins there.
std::size_t border_of(const std::string& text, double share, TextUnit unit) {
  const auto border =
      static_cast<std::size_t>(std::llround((1.0 - share) * static_cast<double>(text.size())));
  for (std::size_t line = 0; line < text.size(); line = text.find('\n', line) + 1) {
    if (line >= border) return line;
  }
  std::size_t at = border;
  const auto begins_token = [&](char c) {
    return unit == TextUnit::word ? c == ' ' : (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  };
  while (!begins_token(text[at])) ++at;
  return at;
}

TEST_CASE("whole lines of any length are held out, even near 64 KB and in several files") {
  BookFolder text("");
  text.files.train_text = std::vector<std::string>{"train.txt", "more.txt"};
  text.windows.context = 1 << 20;
  const auto line = [](std::size_t bytes) {
    std::string words;
    for (int i = 0; words.size() + 7 < bytes; ++i) words += "wörd" + std::to_string(i % 7) + " ";
    while (words.size() < bytes) words += 'x';
    return words + "\n";
  };
  constexpr std::size_t piece = 1 << 16;
  const std::string small = line(50), large = line(3 * piece + 7);
  const std::vector<std::string> texts = {
      large + small + large + small + small,
      small + large + small,
      small + line(piece - 1) + line(piece) + line(piece + 1) + line(2 * piece) + small + small,
      line(2 * piece + 1) + line(2 * piece),
      small + large,
  };
  for (const TextUnit unit : {TextUnit::character, TextUnit::word}) {
    text.windows.unit = unit;
    for (std::size_t first = 0; first < texts.size(); ++first) {
      CAPTURE(first);
      const std::string more = texts[(first + 1) % texts.size()];
      text.write(texts[first]);
      text.write(more, "more.txt");
      for (const double share : {0.9, 0.7, 0.5, 0.3, 0.001}) {
        if (unit == TextUnit::character && (first > 1 || share != 0.5)) continue;  // slow
        CAPTURE(share);
        text.windows.validation_share = share;
        const Corpus corpus = text.load();
        // One window for the training part and one for the held-out part of each file.
        REQUIRE(corpus.train.size() == 2);
        REQUIRE(corpus.validation.size() == 2);
        for (std::size_t file = 0; file < 2; ++file) {
          const std::string& whole = file == 0 ? texts[first] : more;
          const std::size_t border = border_of(whole, share, unit);
          const bool is_space = unit == TextUnit::word && whole[border] == ' ';
          const auto decoded = [&](const Example& window) {
            return text.decoded(corpus, {window});
          };
          CHECK((decoded(corpus.train[file]) == whole.substr(0, border)));
          // Words that are not in the training part are unknown, but are counted.
          const std::string held_out = decoded(corpus.validation[file]);
          CHECK(std::ranges::count(held_out, '\n') ==
                std::ranges::count(whole.substr(border), '\n'));
          CHECK(std::ranges::count(held_out, ' ') ==
                std::ranges::count(whole.substr(border + (is_space ? 1 : 0)), ' '));
        }
      }
    }
  }
}

TEST_CASE("with validation and test files, nothing is held out of the training text") {
  BookFolder text("abc\ncba\n");
  text.write("cc\n", "valid.txt");
  text.write("xa", "test.txt");
  text.files.validation_text = "valid.txt";
  text.files.test_text = "test.txt";
  text.windows.validation_share = 0.5;
  const Corpus corpus = text.load();
  CHECK(text.decoded(corpus, corpus.train) == "abc\ncba\n");
  CHECK(text.decoded(corpus, corpus.validation) == "cc\n");
  CHECK(text.decoded(corpus, corpus.test) == "\uFFFDa\n");
  REQUIRE(corpus.files.size() == 3);
  CHECK(corpus.files[0].key == "data.train_text");
  CHECK(corpus.files[1].key == "data.validation_text");
  CHECK(corpus.files[2].key == "data.test_text");
  CHECK(corpus.files[1].bytes == 3);
}

TEST_CASE("a text is encoded with a given vocabulary") {
  const BookFolder text("abz\n");
  const Vocabulary known({"z", "<newline>", "a"});
  const FixedVocabularies fixed = {known, known};
  const Corpus corpus = text.load(&fixed);
  CHECK(corpus.target_vocabulary == known);
  CHECK(corpus.source_vocabulary == known);
  CHECK(corpus.train[0].target == Ids{6, unk_id, 4, 5});
}

TEST_CASE("a part without a token to predict, and a text with only rare words, are rejected") {
  BookFolder text("\n");
  text.check_rejected({"train.txt: found fewer than 2 tokens for training"});
  text.write("a\nb\n");
  text.windows.validation_share = 0.99;
  text.check_rejected({"train.txt: found fewer than 2 tokens for training"});
  text.windows.validation_share = 0.1;
  text.check_rejected({"train.txt: found fewer than 2 tokens for validation", "validation_share"});
  text.write("\n", "other.txt");
  text.files.validation_text = "other.txt";
  text.check_rejected({"other.txt: found fewer than 2 tokens for validation"});
  text.files.validation_text = "train.txt";
  text.files.test_text = "other.txt";
  text.check_rejected({"other.txt: found fewer than 2 tokens for testing"});
  text.words.min_frequency = 3;
  text.check_rejected({"no word occurs 3 times"});
}

TEST_CASE("a text divided into subwords keeps its line ends, and decoding restores the text") {
  BookFolder text("the dog plays\n\nthe dogs play\nthe cat plays with the dog\n");
  text.words.subwords = {.kind = SubwordKind::unigram, .vocabulary_size = 22};
  const Corpus corpus = text.load();
  CHECK(corpus.target_vocabulary.size() == 23);
  CHECK(corpus.target_vocabulary.id("<newline>") == 22);
  CHECK(corpus.source_vocabulary == corpus.target_vocabulary);
  CHECK(text.decoded(corpus, corpus.train) ==
        "the dog plays\n\nthe dogs play\nthe cat plays with the dog\n");
  const FixedVocabularies fixed = {corpus.source_vocabulary, corpus.target_vocabulary};
  CHECK(text.load(&fixed).train == corpus.train);
}

TEST_CASE("a partly held-out line is divided before a word, not within a word") {
  BookFolder text("one two three four five six seven eight nine ten");
  text.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 25};
  text.windows.validation_share = 0.2;
  const Corpus corpus = text.load();
  CHECK(text.decoded(corpus, corpus.validation) == "nine ten\n");
}
