#include "data/corpora/bad_lines.h"

#include <doctest/doctest.h>

#include "data/corpora/images.h"
#include "data/corpora/labelled_text.h"
#include "data/corpora/parallel_text.h"
#include "data/corpus.h"
#include "tests/data/corpora/text_folder.h"
#include "tests/data/refusal.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;
using tapestry::test::contains;
using tapestry::test::hint_of;
using tapestry::test::refusal;
using tapestry::test::TemporaryFolder;
using Notes = std::vector<std::string>;

namespace {

BadLines bad_lines(int count) {
  BadLines bad;
  for (int i = 1; i <= count; ++i)
    bad.add(DataError("f:" + std::to_string(i) + ": bad", i == 1 ? "mend it" : "mend that"));
  return bad;
}

}  // namespace

TEST_CASE("one bad line is refused as it is, several with their numbers and how to skip them") {
  Notes notes;
  CHECK_NOTHROW(bad_lines(0).finish(OnBadLine::stop, "train", 9, notes));
  CHECK(refusal([&] { bad_lines(1).finish(OnBadLine::stop, "train", 9, notes); }) == "f:1: bad");
  CHECK(hint_of([&] { bad_lines(1).finish(OnBadLine::stop, "train", 9, notes); }) == "mend it");
  CHECK(refusal([&] { bad_lines(2).finish(OnBadLine::stop, "train", 9, notes); }) ==
        "f:1: bad\nf:2: bad\n2 of 9 cannot be used");
  CHECK(refusal([&] { bad_lines(7).finish(OnBadLine::stop, "train", 9, notes); }) ==
        "f:1: bad\nf:2: bad\nf:3: bad\nf:4: bad\nf:5: bad\nand 2 more\n7 of 9 cannot be used");
  CHECK(hint_of([&] { bad_lines(2).finish(OnBadLine::stop, "train", 9, notes); }) ==
        "mend it, or leave them all out with data.on_bad_line=skip");
  CHECK(notes.empty());
}

TEST_CASE("the message about bad lines stays short however long each of them is") {
  Notes notes;
  BadLines bad;
  for (const char letter : {'a', 'b', 'c'}) bad.add(DataError(std::string(400, letter), "mend it"));
  const std::string two = std::string(400, 'a') + "\n" + std::string(400, 'b');
  CHECK(refusal([&] { bad.finish(OnBadLine::stop, "train", 9, notes); }) ==
        two + "\nand 1 more\n3 of 9 cannot be used");
  BadLines longer;
  longer.add(DataError(std::string(900, 'a'), "mend it"));
  longer.add(DataError("b", "mend it"));
  CHECK(refusal([&] { longer.finish(OnBadLine::stop, "train", 9, notes); }) ==
        std::string(900, 'a') + "\nand 1 more\n2 of 9 cannot be used");
}

TEST_CASE("bad lines that are skipped are counted in the notes") {
  Notes notes;
  bad_lines(0).finish(OnBadLine::skip, "train", 9, notes);
  CHECK(notes.empty());
  bad_lines(7).finish(OnBadLine::skip, "test", 9, notes);
  CHECK(notes == Notes{"test: 7 of 9 skipped, which cannot be used, such as f:1: bad"});
}

TEST_CASE("an attempt catches errors of the data, and no others") {
  BadLines bad;
  bad.attempt([] {});
  CHECK(bad.count() == 0);
  bad.attempt([] { throw DataError("x", "y"); });
  CHECK(bad.count() == 1);
  CHECK_THROWS_AS(bad.attempt([] { throw std::bad_alloc(); }), std::bad_alloc);
}

TEST_CASE("pairs with one blank side are counted, and skipped on request") {
  const TemporaryFolder folder;
  folder.write("a", "one\n\ntwo\n\nthree\n");
  folder.write("b", "eins\nx\nzwei\n\n \n");
  ParallelTextOptions options;
  options.train_source = options.validation_source = "a";
  options.train_target = options.validation_target = "b";
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  const std::string first = a + ":2: the line is blank, but " + b + ":2 is not";
  CHECK(refusal([&] { load_parallel_text(options, {}, folder.path()); }) ==
        first + "\n" + b + ":5: the line is blank, but " + a + ":5 is not\n2 of 5 cannot be used");
  const Corpus corpus = load_parallel_text(options, {}, folder.path(), nullptr, OnBadLine::skip);
  CHECK(corpus.train.size() == 2);
  CHECK(corpus.train_lines.lines == std::vector<std::size_t>{1, 3});
  CHECK(corpus.train_lines.source_file == a);
  CHECK(corpus.train_lines.target_file == b);
  CHECK(corpus.source_vocabulary.id("three") == unk_id);
  REQUIRE(corpus.notes.size() == 4);
  CHECK(corpus.notes[0] == "train: 2 of 5 skipped, which cannot be used, such as " + first);
  CHECK(corpus.notes[1] == "train: 1 of 5 pairs skipped: both lines are blank");
  folder.write("b", "\nx\n\n\n\n");
  CHECK(contains(
      refusal([&] { load_parallel_text(options, {}, folder.path(), nullptr, OnBadLine::skip); }),
      "train: no sentence pair remains of "));
}

TEST_CASE("lines without a label, or with an unknown one, are counted, and skipped on request") {
  test::TextFolder<load_labelled_text> text("no\tit rains\nfine\nyes\ta day\nno \tx\n");
  CHECK(text.message("no\tit rains\nfine\nyes\ta day\na b\tx\n") ==
        "2: found no tab, expected a label, a tab and a sentence\n" + text.name() +
            ":4: found the label \"a b\", which is not one word, expected a label, a tab and a "
            "sentence\n2 of 4 cannot be used");
  text.on_bad_line = OnBadLine::skip;
  text.write("yes\ta day\nmaybe\tx\nno\ty\n", "other.txt");
  text.files.validation_text = "other.txt";
  const Corpus corpus = text.load();
  CHECK(corpus.train.size() == 2);
  CHECK(corpus.train_lines.lines == std::vector<std::size_t>{1, 3});
  CHECK(corpus.validation.size() == 2);
  CHECK(corpus.validation_lines.lines == std::vector<std::size_t>{1, 3});
  REQUIRE(corpus.notes.size() == 2);
  CHECK(corpus.notes[1].starts_with("validation: 1 of 3 skipped, which cannot be used, such as " +
                                    text.name("other.txt") + ":2: "));
}

TEST_CASE("a tagged sentence with a bad token is skipped as a whole") {
  test::TextFolder<load_tagged_text> text("Ada\tPER\nin\n\nNew\tLOC\nYork\tLOC\n\nx\tPER\n");
  CHECK(text.message("Ada\tPER\nin\n\nNew\n") ==
        "2: found no tab, expected a token, a tab and a label\n" + text.name() +
            ":4: found no tab, expected a token, a tab and a label\n2 of 4 cannot be used");
  text.write("Ada\tPER\nin\n\nNew\tLOC\nYork\tLOC\n\nx\tPER\n");
  text.on_bad_line = OnBadLine::skip;
  const Corpus corpus = text.load();
  REQUIRE(corpus.train.size() == 2);
  CHECK(corpus.train[0].source.size() == 2);
  CHECK(corpus.train_lines.lines == std::vector<std::size_t>{4, 7});
  CHECK(corpus.source_vocabulary.id("Ada") == unk_id);
}

TEST_CASE("images with bad pixels are counted, and skipped on request") {
  const TemporaryFolder folder;
  folder.write("a.csv", "0,1,a\n0,b\n0,x,b\n1,0,b\n");
  ImageOptions options;
  options.train_images = "a.csv";
  options.image_height = 1;
  options.image_width = 2;
  const HeldOutImages none{.validation = 0, .test = 0};
  const std::string name = (folder / "a.csv").string();
  CHECK(refusal([&] { load_images(options, none, folder.path()); }) ==
        name + ":2: found 2 fields, expected 3: 2 pixels and the label\n" + name +
            ":3: found \"x\" in field 2, expected a number\n2 of 4 cannot be used");
  const Corpus corpus = load_images(options, none, folder.path(), {}, nullptr, OnBadLine::skip);
  CHECK(corpus.train.size() == 2);
  CHECK(corpus.notes.front().starts_with("train: 2 of 4 skipped, "));
}
