#include "data/readers/bad_lines.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "data/corpus.h"
#include "data/readers/images.h"
#include "data/readers/labelled_text.h"
#include "data/readers/parallel_text.h"
#include "tests/data/readers/text_folder.h"
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

TEST_CASE("lines that are too long are counted with bad lines, and not refused without them") {
  Notes notes;
  BadLines bad;
  bad.add_too_long(DataError("f:1: long", "shorten it"));
  bad.add_too_long(DataError("f:2: long", "shorten that"));
  CHECK_NOTHROW(bad.finish(OnBadLine::stop, "train", 9, notes));
  CHECK(bad.count() == 0);
  bad.add(DataError("f:3: bad", "mend it"));
  CHECK(refusal([&] { bad.finish(OnBadLine::stop, "train", 9, notes); }) ==
        "f:3: bad\nf:1: long\nf:2: long\n3 of 9 cannot be used, 2 of them with too many tokens");
  CHECK(hint_of([&] { bad.finish(OnBadLine::stop, "train", 9, notes); }) ==
        "mend it; for the first that is too long: shorten it, or leave them all out with "
        "data.on_bad_line=skip");
  for (int i = 4; i < 7; ++i) bad.add(DataError("f:" + std::to_string(i) + ": bad", "mend it"));
  CHECK(refusal([&] { bad.refuse_any(9); }) ==
        "f:3: bad\nf:4: bad\nf:5: bad\nf:6: bad\nf:1: long\nand 1 more\n"
        "6 of 9 cannot be used, 2 of them with too many tokens");
}

TEST_CASE("a bad line is named after any number of lines that are too long") {
  BadLines bad;
  for (int i = 0; i < 9; ++i) bad.add_too_long(DataError("long", "shorten it"));
  bad.add(DataError("f:9: bad", "mend it"));
  CHECK(refusal([&] { bad.refuse_any(9); }).starts_with("f:9: bad\nlong\n"));
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

TEST_CASE("bad lines of a first pass are refused for the first file that has any, or skipped") {
  FirstPassBadLines lines(OnBadLine::stop);
  lines.add(bad_lines(0), 3);
  CHECK_NOTHROW(lines.refuse_any());
  lines.add(bad_lines(2), 9);
  lines.add(bad_lines(1), 4);
  CHECK(refusal([&] { lines.refuse_any(); }) == "f:1: bad\nf:2: bad\n2 of 9 cannot be used");
  FirstPassBadLines skipped(OnBadLine::skip);
  skipped.add(bad_lines(2), 9);
  CHECK_NOTHROW(skipped.refuse_any());
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
  CHECK(refusal([&] {
          load_parallel_text(options, {}, folder.path());
        }).ends_with("\n4 of 5 cannot be used"));
}

namespace {

/// Refuses examples with a side of more than two tokens.
std::optional<DataError> find_too_long(std::string_view part, const ExampleLengths& lengths,
                                       const LineFiles& files, std::size_t line) {
  if (std::max(lengths.source, lengths.target) <= 2) return std::nullopt;
  return DataError(files.source + " with " + files.target + ":" + std::to_string(line) + ": long " +
                       std::string(part),
                   "shorten it");
}

}  // namespace

TEST_CASE("pairs that are too long are refused together with those with one blank side") {
  const TemporaryFolder folder;
  folder.write("a", "one two three\n\nx\ntwo\n");
  folder.write("b", "eins\nx\nzwei drei vier\n2\n");
  ParallelTextOptions options;
  options.train_source = options.validation_source = "a";
  options.train_target = options.validation_target = "b";
  const TrainingSetOptions training{.find_too_long = find_too_long};
  const std::string a = (folder / "a").string(), b = (folder / "b").string();
  const std::string blank = a + ":2: the line is blank, but " + b + ":2 is not";
  const auto message = [&](const std::string& part) {
    const std::string files = a + " with " + b;
    return blank + "\n" + files + ":1: long " + part + "\n" + files + ":3: long " + part +
           "\n3 of 4 cannot be used, 2 of them with too many tokens";
  };
  WordOptions words;
  const auto load = [&](OnBadLine on_bad_line = OnBadLine::stop) {
    return load_parallel_text(options, words, folder.path(), nullptr, on_bad_line, training);
  };
  CHECK(refusal([&] { load(); }) == message("train"));
  CHECK(hint_of([&] { load(); }) ==
        "fill in the line, or delete it from both files; for the first that is too long: shorten "
        "it, or leave them all out with data.on_bad_line=skip");
  // An error about the vocabularies comes after that about the lines.
  words.min_frequency = 9;
  CHECK(refusal([&] { load(); }) == blank);
  words.min_frequency = 1;
  const Corpus skipped = load(OnBadLine::skip);
  CHECK(skipped.train.size() == 3);
  CHECK(skipped.notes.front() == "train: 1 of 4 skipped, which cannot be used, such as " + blank);
  folder.write("c", "one\ntwo\nthree\nfour\n");
  options.train_source = options.train_target = "c";
  CHECK(refusal([&] { load(); }) == message("validation"));
  options.validation_source = options.train_source.names().front();
  CHECK(load().validation.size() == 4);  // long, but not blank
}

TEST_CASE("sentences that are too long are refused together with lines without a label") {
  test::TextFolder<load_labelled_text> text("no\ta b c\nyes\tx\n");
  text.training.find_too_long = find_too_long;
  CHECK(text.load().train.size() == 2);
  const std::string name = text.name();
  const std::string unlabelled = "2: found no tab, expected a label, a tab and a sentence";
  text.write("no\ta b c\nfine\nyes\tx\n");
  CHECK(refusal([&] { text.load(); }) ==
        name + ":" + unlabelled + "\n" + name + " with " + name +
            ":1: long train\n2 of 3 cannot be used, 1 of them with too many tokens");
  // An error about the classes comes after that about the lines.
  CHECK(text.message("no\ta b c\nfine\n") == unlabelled);
}

TEST_CASE("bad lines are refused before subwords are learned, without those that are too long") {
  test::TextFolder<load_labelled_text> text("no\ta b c\nfine\nyes\tx\n");
  text.training.find_too_long = find_too_long;
  text.words.subwords = {.kind = SubwordKind::bpe, .vocabulary_size = 10};
  CHECK(refusal([&] { text.load(); }) ==
        text.name() + ":2: found no tab, expected a label, a tab and a sentence");
  text.on_bad_line = OnBadLine::skip;
  CHECK(text.load().source_vocabulary.size() == 10);

  text.write("one two three\n\nx\ntwo\n", "a");
  text.write("eins\nx\nzwei drei vier\n2\n", "b");
  text.words.subwords.vocabulary_size = 18;
  ParallelTextOptions options;
  options.train_source = "a";
  options.train_target = "b";
  options.validation_source = "a";
  options.validation_target = "b";
  const auto load = [&](OnBadLine on_bad_line) {
    return load_parallel_text(options, text.words, text.folder.path(), nullptr, on_bad_line,
                              text.training);
  };
  CHECK(refusal([&] { load(OnBadLine::stop); }) ==
        text.name("a") + ":2: the line is blank, but " + text.name("b") + ":2 is not");
  CHECK(load(OnBadLine::skip).source_vocabulary.size() == 18);
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

TEST_CASE("bad tokens, unknown labels and sentences that are too long are refused together") {
  test::TextFolder<load_tagged_text> text("Ada\tPER\n\nin\tO\n");
  text.write("in\tO\nin\tO\nAda\tPER\n\nAda\tDOG\nin\tCAT\n\nAda\nin\tO\n\nin\tO\n", "other");
  text.files.validation_text = "other";
  text.training.find_too_long = find_too_long;
  const std::string name = text.name("other");
  const std::string unknown = ", expected one of the classes O, PER\n";
  const std::string dog = name + ":5: found the label DOG" + unknown;
  CHECK(refusal([&] { text.load(); }) ==
        dog + name + ":6: found the label CAT" + unknown + name +
            ":8: found no tab, expected a token, a tab and a label\n" + name + " with " + name +
            ":1: long validation\n4 of 11 cannot be used, 1 of them with too many tokens");
  text.on_bad_line = OnBadLine::skip;
  const Corpus corpus = text.load();
  CHECK(corpus.validation_lines.lines == std::vector<std::size_t>{1, 11});
  CHECK(corpus.validation.size() == 2);
  CHECK(corpus.notes == Notes{"validation: 3 of 11 skipped, which cannot be used, such as " +
                              dog.substr(0, dog.size() - 1)});

  // Sentences that are too long are not refused without bad lines.
  text.on_bad_line = OnBadLine::stop;
  text.write("in\tO\nin\tO\nAda\tPER\n", "other");
  CHECK(text.load().validation.size() == 1);
}

TEST_CASE("tags that a trained model lacks are refused together with bad lines") {
  test::TextFolder<load_tagged_text> text("Ada\tPER\n\nin\tO\nNew\n");
  const FixedVocabularies fixed{Vocabulary({"Ada"}), Vocabulary({"LOC", "PER"})};
  CHECK(refusal([&] { text.load(&fixed); }) ==
        text.name() + ":3: found the label O, expected one of the classes LOC, PER\n" +
            text.name() + ":4: found no tab, expected a token, a tab and a label\n" +
            "2 of 4 cannot be used");
  text.on_bad_line = OnBadLine::skip;
  CHECK(text.load(&fixed).train_lines.lines == std::vector<std::size_t>{1});
  text.write("in\tO\n");
  CHECK(refusal([&] { text.load(&fixed); }) ==
        text.name() + ": nothing is left without lines that cannot be used, such as " +
            text.name() + ":1: found the label O, expected one of the classes LOC, PER");
}

TEST_CASE("files of which nothing is left without bad lines are refused with the first of them") {
  const auto message = [](const std::string& name, const std::string& reason) {
    return name + ": nothing is left without lines that cannot be used, such as " + name + reason;
  };
  test::TextFolder<load_tagged_text> tags("Ada\tPER\nin\n");
  tags.on_bad_line = OnBadLine::skip;
  CHECK(refusal([&] { tags.load(); }) ==
        message(tags.name(), ":2: found no tab, expected a token, a tab and a label"));
  test::TextFolder<load_labelled_text> classes("fine\n\nday\n");
  classes.on_bad_line = OnBadLine::skip;
  CHECK(refusal([&] { classes.load(); }) ==
        message(classes.name(), ":1: found no tab, expected a label, a tab and a sentence"));
  const FixedVocabularies fixed{Vocabulary({"day"}), Vocabulary({"no", "yes"})};
  classes.write("maybe\tday\n");
  CHECK(refusal([&] { classes.load(&fixed); }) ==
        message(classes.name(), ":1: found the label maybe, expected one of the classes no, yes"));
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
  const Corpus corpus = load_images(options, none, folder.path(), nullptr, OnBadLine::skip);
  CHECK(corpus.train.size() == 2);
  CHECK(corpus.notes.front().starts_with("train: 2 of 4 skipped, "));
}

TEST_CASE("bad pixels and unknown labels of images are refused together, and skipped on request") {
  const TemporaryFolder folder;
  folder.write("a.csv", "0,1,a\n1,0,b\n");
  folder.write("b.csv", "0,1,z\n0,x,b\n1,0,b\n");
  ImageOptions options;
  options.train_images = "a.csv";
  options.validation_images = "b.csv";
  options.image_height = 1;
  options.image_width = 2;
  const HeldOutImages none{.validation = 0, .test = 0};
  const auto load = [&](OnBadLine on_bad_line) {
    return load_images(options, none, folder.path(), nullptr, on_bad_line);
  };
  const std::string name = (folder / "b.csv").string();
  const std::string unknown = name + ":1: found the label z, expected one of the classes a, b";
  CHECK(refusal([&] { load(OnBadLine::stop); }) ==
        unknown + "\n" + name +
            ":2: found \"x\" in field 2, expected a number\n2 of 3 cannot be used");
  const Corpus corpus = load(OnBadLine::skip);
  CHECK(corpus.validation.size() == 1);
  CHECK(std::ranges::count(
            corpus.notes, "validation: 2 of 3 skipped, which cannot be used, such as " + unknown) ==
        1);
  folder.write("b.csv", "0,1,z\n");
  CHECK(refusal([&] { load(OnBadLine::skip); }) ==
        name + ": nothing is left without lines that cannot be used, such as " + unknown);
}

TEST_CASE("images with unknown labels are not held out") {
  const TemporaryFolder folder;
  folder.write("a.csv", "0,a\n1,b\n2,c\n3,c\n4,a\n5,b\n");
  ImageOptions options;
  options.train_images = "a.csv";
  options.image_height = options.image_width = 1;
  const Vocabulary classes({"a", "b"});
  const Corpus corpus =
      load_images(options, {.validation = 0, .test = 2}, folder.path(), &classes, OnBadLine::skip);
  CHECK(corpus.train.size() == 2);
  CHECK(corpus.test.size() == 2);
}
