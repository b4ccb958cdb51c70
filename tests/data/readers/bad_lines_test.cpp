// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/training_set.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/corpus.h"
#include "data/readers/labelled_text.h"
#include "tests/data/readers/image_folder.h"
#include "tests/data/readers/text_folder.h"
#include "tests/data/rejection.h"

/// Tests the class BadLines and its use by all readers.
namespace tapestry {
namespace {

using test::contains;
using test::hint_of;
using test::rejection;
using Notes = std::vector<std::string>;
using Numbers = std::vector<std::size_t>;

BadLines bad_lines(int count, int too_long = 0, OnBadLine action = OnBadLine::stop) {
  BadLines bad("train", action, {.source = "f", .target = "f"},
               [](std::string_view, const ExampleLengths&, const LineFiles& files, std::size_t i) {
                 return DataError(fmt::format("{}:{}: long", files.source, i),
                                  i == 1 ? "shorten it" : "shorten that");
               });
  for (int i = 1; i <= too_long; ++i) bad.add_if_too_long({}, static_cast<std::size_t>(i));
  for (int i = 1; i <= count; ++i) {
    bad.add(DataError(fmt::format("f:{}: bad", i), i == 1 ? "mend it" : "mend that"));
  }
  return bad;
}

TEST_CASE("the error about bad lines shows the first bad lines, their count and how to skip them") {
  const std::string skip = "\n  or leave out these lines with data.on_bad_line=skip";
  struct {
    int bad, too_long;
    std::size_t left;
    std::string message, hint;
  } const expected[] = {
      {1, 0, 8, "f:1: bad", "mend it"},
      {2, 0, 7, "f:1: bad\nf:2: bad\n2 of 9 cannot be used", "mend it" + skip},
      {2, 0, 0, "f:1: bad\nf:2: bad\n2 of 9 cannot be used", "mend it"},  // other lines are blank
      {1, 1, 1, "f:1: bad\nf:1: long\n2 of 9 cannot be used, 1 of them with too many tokens",
       "mend it\n  shorten it"},
      {7, 0, 2,
       "f:1: bad\nf:2: bad\nf:3: bad\nf:4: bad\nf:5: bad\nand 2 more\n7 of 9 cannot be used",
       "mend it" + skip},
      {1, 2, 8,
       "f:1: bad\nf:1: long\nf:2: long\n3 of 9 cannot be used, 2 of them with too many tokens",
       "mend it\n  shorten that" + skip},
      {4, 2, 5,
       "f:1: bad\nf:2: bad\nf:3: bad\nf:4: bad\nf:1: long\nand 1 more\n6 of 9 cannot be used, 2 of "
       "them with too many tokens",
       "mend it\n  shorten that" + skip},
  };
  for (const auto& each : expected) {
    const auto finish = [&] {
      Notes notes;
      bad_lines(each.bad, each.too_long).finish(9, each.left, notes);
    };
    CHECK(rejection(finish) == each.message);
    CHECK(hint_of(finish) == each.hint);
    CHECK_THROWS_AS(bad_lines(each.bad, each.too_long).reject_any(9, each.left), DataError);
  }
  Notes notes;
  bad_lines(0, 9).finish(9, 9, notes);  // lines that are only too long are not rejected
  CHECK(bad_lines(0, 9).count() == 0);
  CHECK(notes.empty());
}

TEST_CASE("the message about bad lines stays short even if lines are long") {
  BadLines bad("train", OnBadLine::stop), longer = bad;
  for (const char letter : {'a', 'b', 'c'}) bad.add(DataError(std::string(400, letter), "mend it"));
  CHECK(rejection([&] { bad.reject_any(9, 6); }) == std::string(400, 'a') + "\n" +
                                                        std::string(400, 'b') +
                                                        "\nand 1 more\n3 of 9 cannot be used");
  longer.add(DataError(std::string(900, 'a'), "mend it"));
  longer.add(DataError("b", "mend it"));
  CHECK(rejection([&] { longer.reject_any(9, 7); }) ==
        std::string(900, 'a') + "\nand 1 more\n2 of 9 cannot be used");
}

TEST_CASE("bad lines that are skipped are counted in the notes") {
  Notes notes;
  bad_lines(0, 0, OnBadLine::skip).finish(9, 9, notes);
  CHECK(notes.empty());
  bad_lines(7, 2, OnBadLine::skip).finish(9, 2, notes);
  CHECK(notes == Notes{"train: 7 of 9 skipped as unusable, for example f:1: bad"});
}

TEST_CASE(
    "after a first pass, bad lines are rejected with the error of their first file, or skipped") {
  FirstPassBadLines lines(OnBadLine::stop);
  lines.add(bad_lines(0), 3, 3);
  CHECK_NOTHROW(lines.reject_any());
  lines.add(bad_lines(2), 9, 7);
  lines.add(bad_lines(1), 4, 3);
  CHECK(rejection([&] { lines.reject_any(); }) == "f:1: bad\nf:2: bad\n2 of 9 cannot be used");
  FirstPassBadLines skipped(OnBadLine::skip);
  skipped.add(bad_lines(2), 9, 7);
  CHECK_NOTHROW(skipped.reject_any());
}

TEST_CASE("attempt() catches only DataError") {
  BadLines bad("train", OnBadLine::stop);
  bad.attempt([] {});
  CHECK(bad.count() == 0);
  bad.attempt([] { throw DataError("x", "y"); });
  CHECK(bad.count() == 1);
  CHECK_THROWS_AS(bad.attempt([] { throw std::bad_alloc(); }), std::bad_alloc);
}

/// Rejects examples with a side of more than two tokens.
std::optional<DataError> find_too_long(std::string_view part, const ExampleLengths& lengths,
                                       const LineFiles& files, std::size_t line) {
  if (std::max(lengths.source, lengths.target) <= 2) return std::nullopt;
  return DataError(fmt::format("{} with {}:{}: long {}", files.source, files.target, line, part),
                   "shorten it");
}

/// Pairs in the files `a` and `b`, for training and validation.
struct BadPairs : test::PairFolder {
  using PairFolder::PairFolder;

  std::string message() const {
    return rejection([this] { load(); });
  }

  std::string a = name("train.de"), b = name("train.en");
};

TEST_CASE("pairs with one blank side are counted, and skipped on request") {
  const BadPairs pairs("one\n\ntwo\n\nthree\n", "eins\nx\nzwei\n\n \n");
  const std::string first = pairs.a + ":2: the line is blank, but " + pairs.b + ":2 is not";
  CHECK(pairs.message() == first + "\n" + pairs.b + ":5: the line is blank, but " + pairs.a +
                               ":5 is not\n2 of 5 cannot be used");
  const Corpus corpus = pairs.load(nullptr, OnBadLine::skip);
  CHECK(corpus.train.size() == 2);
  CHECK(corpus.train_lines.lines == Numbers{1, 3});
  CHECK(corpus.train_lines.source_file == pairs.a);
  CHECK(corpus.train_lines.target_file == pairs.b);
  CHECK(corpus.source_vocabulary.id("three") == unk_id);
  REQUIRE(corpus.notes.size() == 4);
  CHECK(corpus.notes[0] == "train: 2 of 5 skipped as unusable, for example " + first);
  CHECK(corpus.notes[1] == "train: 1 of 5 pairs skipped: both lines are blank");
  pairs.folder.write("train.en", "\nx\n\n\n\n");
  CHECK(contains(rejection([&] { pairs.load(nullptr, OnBadLine::skip); }),
                 "no sentence pair remains of "));
  CHECK(pairs.message().ends_with("\n4 of 5 cannot be used"));
}

TEST_CASE("pairs that are too long are rejected together with pairs with one blank side") {
  BadPairs pairs("one two three\n\nx\ntwo\n", "eins\nx\nzwei drei vier\n2\n");
  pairs.training.find_too_long = find_too_long;
  const std::string blank = pairs.a + ":2: the line is blank, but " + pairs.b + ":2 is not";
  const auto message = [&](const std::string& part) {
    const std::string files = "\n" + pairs.a + " with " + pairs.b;
    return blank + files + ":1: long " + part + files + ":3: long " + part +
           "\n3 of 4 cannot be used, 2 of them with too many tokens";
  };
  CHECK(pairs.message() == message("train"));
  // An error about bad lines is reported before an error about the vocabularies.
  pairs.words.min_frequency = 9;
  CHECK(pairs.message() == blank);
  pairs.words.min_frequency = 1;
  const Corpus skipped = pairs.load(nullptr, OnBadLine::skip);
  CHECK(skipped.train.size() == 3);
  CHECK(skipped.notes.front() == "train: 1 of 4 skipped as unusable, for example " + blank);
  pairs.folder.write("c", "one\ntwo\nthree\nfour\n");
  pairs.options.train_source = pairs.options.train_target = "c";
  CHECK(pairs.message() == message("validation"));
  pairs.options.validation_source = "c";
  CHECK(pairs.load().validation.size() == 4);  // long, but not blank
}

TEST_CASE(
    "lines without a label, with an unknown label or with too many tokens are rejected together") {
  test::TextFolder<load_labelled_text> text("no\ta b c\nyes\tx\n");
  text.training.find_too_long = find_too_long;
  CHECK(text.load().train.size() == 2);
  const std::string unlabelled = "2: found no tab, expected a label, a tab and a sentence";
  CHECK(text.message("no\ta b c\nfine\nyes\tx\n") ==
        unlabelled + "\n" + text.name() + " with " + text.name() +
            ":1: long train\n2 of 3 cannot be used, 1 of them with too many tokens");
  // An error about bad lines is reported before an error about the classes.
  CHECK(text.message("no\ta b c\nfine\n") == unlabelled);

  text.write("no\tit rains\nfine\nyes\ta day\nno \tx\n");
  text.on_bad_line = OnBadLine::skip;
  text.write("yes\ta day\nmaybe\tx\nno\ty\n", "other.txt");
  text.files.validation_text = "other.txt";
  const Corpus corpus = text.load();
  CHECK(corpus.train_lines.lines == Numbers{1, 3});
  CHECK(corpus.validation.size() == 2);
  CHECK(corpus.validation_lines.lines == Numbers{1, 3});
  REQUIRE(corpus.notes.size() == 2);
  CHECK(contains(corpus.notes[1], "validation: 1 of 3 skipped"));
  CHECK(contains(corpus.notes[1], "other.txt:2: "));
}

TEST_CASE(
    "before subwords are learned, bad lines are rejected, but lines that are too long are not "
    "counted") {
  test::TextFolder<load_labelled_text> text("no\ta b c\nfine\nyes\tx\n");
  text.training.find_too_long = find_too_long;
  text.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 10};
  CHECK(rejection([&] { text.load(); }) ==
        text.name() + ":2: found no tab, expected a label, a tab and a sentence");
  text.on_bad_line = OnBadLine::skip;
  CHECK(text.load().source_vocabulary.size() == 10);

  BadPairs pairs("one two three\n\nx\ntwo\n", "eins\nx\nzwei drei vier\n2\n");
  pairs.training.find_too_long = find_too_long;
  pairs.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 18};
  CHECK(pairs.message() == pairs.a + ":2: the line is blank, but " + pairs.b + ":2 is not");
  CHECK(pairs.load(nullptr, OnBadLine::skip).source_vocabulary.size() == 18);
}

TEST_CASE("bad tokens, unknown labels and sentences that are too long are rejected together") {
  test::TextFolder<load_tagged_text> text("Ada\tPER\n\nin\tO\n");
  text.write("in\tO\nin\tO\nAda\tPER\n\nAda\tDOG\nin\tCAT\n\nAda\nin\tO\n\nin\tO\n", "other");
  text.files.validation_text = "other";
  text.training.find_too_long = find_too_long;
  const std::string name = text.name("other");
  const std::string unknown = ", expected one of the classes O, PER\n";
  const std::string dog = name + ":5: found the label \"DOG\"" + unknown;
  CHECK(rejection([&] { text.load(); }) ==
        dog + name + ":6: found the label \"CAT\"" + unknown + name +
            ":8: found no tab, expected a token, a tab and a label\n" + name + " with " + name +
            ":1: long validation\n4 of 11 cannot be used, 1 of them with too many tokens");
  text.on_bad_line = OnBadLine::skip;
  const Corpus corpus = text.load();
  CHECK(corpus.validation_lines.lines == std::vector<std::size_t>{1, 11});
  CHECK(corpus.validation.size() == 2);
  CHECK(corpus.notes == Notes{"validation: 3 of 11 skipped as unusable, for example " +
                              dog.substr(0, dog.size() - 1)});

  // Without bad lines, sentences that are too long are not rejected.
  text.on_bad_line = OnBadLine::stop;
  text.write("in\tO\nin\tO\nAda\tPER\n\n", "other");
  CHECK(text.load().validation.size() == 1);
  // Without an empty line, the whole file is one sentence.
  text.write("in\tO\nin\tO\nAda\tPER\n", "other");
  CHECK(hint_of([&] { text.load(); }) == "put an empty line after each sentence");
  // Skipping is offered only if a whole sentence is left.
  text.write("Ada\tDOG\nin\tO\n\nin\nin\tO\n\n", "other");
  CHECK_FALSE(contains(hint_of([&] { text.load(); }), "on_bad_line"));
}

TEST_CASE("a tagged sentence with a bad token is skipped as a whole") {
  test::TextFolder<load_tagged_text> text("Ada\tPER\nin\n\nNew\tLOC\nYork\tLOC\n\nx\tPER\n");
  text.on_bad_line = OnBadLine::skip;
  const Corpus corpus = text.load();
  REQUIRE(corpus.train.size() == 2);
  CHECK(corpus.train[0].source.size() == 2);
  CHECK(corpus.train_lines.lines == std::vector<std::size_t>{4, 7});
  CHECK(corpus.source_vocabulary.id("Ada") == unk_id);
}

TEST_CASE("the error about a file with only bad lines shows the first bad line") {
  test::TextFolder<load_tagged_text> tags("Ada\tPER\nin\n");
  test::TextFolder<load_labelled_text> classes("fine\n\nday\n");
  tags.on_bad_line = classes.on_bad_line = OnBadLine::skip;
  const std::string nothing = " no line can be used, for example ";
  const FixedVocabularies places{Vocabulary({"Ada"}), Vocabulary({"LOC", "PER"})};
  const auto check = [&](const auto& text, const FixedVocabularies* fixed, const char* first) {
    CHECK(rejection([&] {
            text.load(fixed);
          }).starts_with(text.name() + ":" + nothing + text.name() + first));
  };
  check(tags, nullptr, ":2: found no tab");
  check(classes, nullptr, ":1: found no tab");
  tags.write("in\tO\n");
  check(tags, &places, ":1: found the label \"O\", expected one of the classes LOC, PER");
  classes.write("maybe\tday\n");
  check(classes, &places, ":1: found the label \"maybe\", expected");
}

TEST_CASE("bad pixels and unknown labels of images are rejected together, and skipped on request") {
  test::ImageFolder images("a.csv");
  images.write("0,1,a\n1,0,b\n");
  images.folder.write("b.csv", "0,1,z\n0,x,b\n1,0,b\n");
  images.options.validation_images = "b.csv";
  const std::string name = images.name("b.csv");
  const std::string unknown = name + ":1: found the label \"z\", expected one of the classes a, b";
  CHECK(rejection([&] { images.load(); }) ==
        unknown + "\n" + name +
            ":2: found \"x\" in field 2, expected a number\n2 of 3 cannot be used");
  const Corpus corpus = images.load(nullptr, OnBadLine::skip);
  CHECK(corpus.validation.size() == 1);
  CHECK(std::ranges::count(corpus.notes,
                           "validation: 2 of 3 skipped as unusable, for example " + unknown) == 1);
  images.folder.write("b.csv", "0,1,z\n");
  CHECK(contains(rejection([&] { images.load(nullptr, OnBadLine::skip); }), "no line can be used"));

  // Images with unknown labels are not held out.
  images.write("0,0,a\n1,0,b\n2,0,c\n3,0,c\n4,0,a\n5,0,b\n6,x,b\n");
  images.options.validation_images.clear();
  images.held_out.test = 2;
  const Vocabulary classes({"a", "b"});
  const Corpus held_out = images.load(&classes, OnBadLine::skip);
  CHECK(held_out.train.size() == 2);
  CHECK(held_out.test.size() == 2);
  CHECK(held_out.notes.front().starts_with("train: 3 of 7 skipped as unusable, "));
}

}  // namespace
}  // namespace tapestry
