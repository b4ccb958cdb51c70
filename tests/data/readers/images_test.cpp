// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/images.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "data/readers/image_arrays.h"
#include "tests/data/readers/image_folder.h"
#include "tests/data/rejection.h"

using namespace tapestry;
using tapestry::test::check_rejected;
using Pixels = std::vector<float>;

namespace {

TEST_CASE("arrays of more images than fit into memory are rejected before they are read") {
  const ImageOptions options{.image_height = 8, .image_width = 8};
  const std::uint64_t many = 100'000'000'000'000;
  check_rejected<MemoryError>(
      {{"a.h5", {"a.h5: found", "GB of memory, expected at most", "train on a part"}}},
      [&](const std::string& name) {
        ImageArrays({.images = name, .labels = name}, {many, 8, 8}, {many}, options);
      });
}

/// A table of two images.
struct TableFolder : test::ImageFolder {
  TableFolder() : ImageFolder("train.csv") { write("0,255,cat\n51,102,dog\n"); }

  /// Checks that these tables are rejected, and that the errors contain these words. In the
  /// message, the first of these words comes directly after the file name.
  void check_rejected_tables(std::vector<test::BadInput> tables) const {
    for (test::BadInput& bad : tables) bad.words[0] = "train.csv:" + bad.words[0];
    check_rejected_files(tables);
  }
};

/// A table of 12 images of one pixel with the values 0 to 11. Even values have the class a, odd
/// values b.
struct CountingFolder : TableFolder {
  CountingFolder() {
    std::string text;
    for (int i = 0; i < 12; ++i) text += std::to_string(i) + (i % 2 == 0 ? ",a\n" : ",b\n");
    write(text);
    options.image_width = 1;
    options.pixel_maximum = 1.0;
  }
};

Pixels first_pixels(const std::vector<Example>& images) {
  Pixels pixels;
  for (const Example& image : images) pixels.push_back(image.pixels.front());
  return pixels;
}

}  // namespace

TEST_CASE(
    "a line of a table has the pixels of an image, which are divided by the maximum, and its "
    "label") {
  const Corpus corpus = TableFolder().load();
  REQUIRE(corpus.train.size() == 2);
  CHECK(corpus.train[0] == Example{.target = {4}, .pixels = {0.0F, 1.0F}});
  CHECK(corpus.train[1] == Example{.target = {5}, .pixels = {0.2F, 0.4F}});
  CHECK(corpus.target_vocabulary == Vocabulary({"cat", "dog"}));
  CHECK(corpus.source_vocabulary == Vocabulary());
  CHECK(corpus.validation.empty());
  CHECK(corpus.test.empty());
}

TEST_CASE("pixels may be any finite numbers with white space around them") {
  TableFolder images;
  images.options.pixel_maximum = 0.5;
  images.write(" -1 ,\t2.5e-1\t, a \n1e-300,-0,b\n");
  const Corpus corpus = images.load();
  CHECK(corpus.train[0].pixels == Pixels{-2.0F, 0.5F});
  CHECK(corpus.train[1].pixels == Pixels{0.0F, 0.0F});
}

TEST_CASE("pixels far below the given maximum cause a warning") {
  TableFolder images;
  const auto notes = [&](double maximum) {
    images.options.pixel_maximum = maximum;
    return images.load().notes;
  };
  CHECK(notes(255).empty());  // the pixels range from 0 to 255
  CHECK(notes(1000).empty());
  const std::vector<std::string> far_above = notes(10'000);
  REQUIRE(far_above.size() == 1);
  CHECK(far_above[0] ==
        "warning: the training pixels range from 0 to 255, but data.pixel_maximum is 1e+04; it "
        "should be the largest possible value");
  CHECK(notes(254).size() == 1);
  images.write("300,600,cat\n510,320,dog\n");
  CHECK(notes(255).front().starts_with("warning: the training pixels range from 300 to 600, "));
  images.write("-1,3,cat\n1,2,dog\n");
  CHECK(notes(1).empty());  // pixel_maximum = 1 is deliberate
  images.write("510,320,cat\n600,300,dog\n");
  CHECK(notes(255).front().starts_with("warning: the training pixels range from 300 to 600, "));
  images.write("0,64,cat\n1,2,dog\n");
  CHECK(notes(255).empty());
  CHECK(notes(256).size() == 1);  // values of at most a quarter of the maximum cause a warning
}

TEST_CASE("numeric classes are sorted by number, not by their order in the file") {
  TableFolder images;
  images.write("0,0,10\n0,0,9\n0,0,2\n");
  const Corpus corpus = images.load();
  CHECK(corpus.target_vocabulary == Vocabulary({"2", "9", "10"}));
  CHECK(corpus.train[0].target.front() == 6);
}

TEST_CASE(
    "a heading, blank lines, quotes and Windows line ends in a table do not change the images") {
  TableFolder images;
  const auto plain = images.load().train;
  for (const char* text :
       {"left,right,label\n0,255,cat\n51,102,dog\n", "\r\n0,255,cat\r\n \t\r\n51,102,dog\r\n",
        "0,255,cat\n\n51,102,dog", "\"0\",\"255\",\"cat\"\n51,\"102\",dog\n",
        ",right,label\n0,255,cat\n51,102,dog\n",  // written by pandas
        "\xEF\xBB\xBF\"x\",\"y\",\"z\"\n0,255,cat\n51,102,dog\n"}) {
    CAPTURE(text);
    images.write(text);
    CHECK(images.load().train == plain);
  }
  images.write("left,right,label\n0,255,cat\n51,102,dog\n");
  const std::vector<std::string> notes = images.load().notes;
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].ends_with("train.csv:1: skipped the heading left,right,label"));
}

TEST_CASE("a table with a wrong number of fields, or a different separator, is rejected") {
  TableFolder images;
  images.check_rejected_tables({
      {"0,0,a\n\n0,a\n", {"3:", "2 fields", "expected 3: 2 pixels and the label"}},
      {"0,0,0,a\n", {"1:", "4 fields", "expected 3"}},
      {"0,0,a,\n", {"1:", "4 fields", "expected 3"}},
      {"0;0;a;b\n0,0,a\n", {"1:", "1 field,", "expected 3"}},
      {"0;255;cat\n51;102;dog\n",
       {"1: found fields separated by semicolons", ":2:", "2 of 2 cannot be used", "tr ';' ,"}},
      {"left;right;label\n", {"1:", "semicolons", "expected commas"}},
      {"0\t255\tcat\n", {"1:", "tabs", "tr '\\t' ,"}},
      {"0,255,cat\n51,\"102,dog\n", {"2:", "a quote that is not closed"}},
      {"", {" found an empty file", "the pixels and the label of one image per line"}},
      {"\n \n", {" found no image"}},
      {"x,y,label\n", {" found no image"}},
      {"Label,x,y\n1,0,0\n2,0,0\n", {"1: found the column \"Label\" first", "sed -E"}},
      {"0,0,a\n1,1,a\n", {" every example has the label \"a\"", "two or more classes"}},
  });
  images.options.image_channels = 3;
  images.check_rejected_tables({{"0,0,a\n", {"1:", "3 fields", "expected 7: 6 pixels"}}});
  images.options.train_images = "none.csv";
  images.check_rejected_now({"none.csv: cannot be read"});
  images.options.train_images = ".";
  images.check_rejected_now({"found a folder, expected a CSV, HDF5 or NumPy file"});
}

TEST_CASE("non-finite pixels, and labels that are not words, are rejected") {
  TableFolder images;
  const std::string word = "expected one word", number = "expected a number";
  std::vector<test::BadInput> tables{
      // A first line with a number or an empty field is not a heading.
      {"nan,0,cat\n1,2,dog\n", {"1:", "\"nan\" in field 1", number}},
      {"1e999,x,cat\n1,2,dog\n", {"1:", "\"1e999\" in field 1", "data.pixel_maximum"}},
      {",0,cat\n1,2,dog\n", {"1:", "\"\" in field 1", number}},
      {",,\n0,255,cat\n51,102,dog\n", {"1:", "the label \"\"", word}},
      {",,cat\n0,255,cat\n51,102,dog\n", {"1:", "\"\" in field 1", number}},
      {"x,y,z\nx,y,z\n", {"2:", "\"x\" in field 1", number}},
      {"0,0,a\n0,0,\n", {"2:", "the label \"\"", word}},
      {"0,0,a\n0,0, \n", {"2:", "the label \"\"", word}},
      {"0,0,a b\n", {"1:", "the label \"a b\"", word}},
      {"0,0,a\tb\n", {"1:", "the label \"a\\tb\"", word}},
      {"0,0,<unk>\n", {"1:", "the label \"<unk>\"", word}},
      {"0,0,a\u200B b\n", {"1:", "the label", "(U+200B, which is invisible)", word}},
      {"0,\u22121,b\n", {"1:", "(U+2212, which is not `-`) in field 2", number}},
      // Excerpts are short and escaped.
      {"0,0,a\n" + std::string(1'000'000, '7') + "x,0,b\n", {"2:", std::string(60, '7') + "...\""}},
      {"0,\x1B[2J,a\n", {"1:", "\"\\x1B[2J\" in field 2", number}},
      {"0,0," + std::string(500'000, 'a') + " b\n", {"1:", std::string(60, 'a') + "...\"", word}},
  };
  for (const std::string field :
       {"", "x", "nan", "-nan", "inf", "-infinity", "1e39e", "0x10", "1 2", "+1", "--1", "1.2.3"}) {
    tables.push_back(
        {"1,2,a\n3," + field + ",b\n", {"2:", "\"" + field + "\" in field 2", number}});
  }
  const std::vector<std::string> range{"2:", "in field 2", "data.pixel_maximum (255)", "float32",
                                       "the largest possible value"};
  for (const std::string field : {"1e308", "1.9e302", "1e400", "-1e42"}) {
    tables.push_back({"0,1,b\n0," + field + ",a\n", range});
  }
  images.check_rejected_tables(tables);
  images.options.pixel_maximum = 1e-300;
  images.check_rejected_tables({{"0,1,a\n", {"1:", "\"1\" in field 2", "(1e-300)"}}});
}

TEST_CASE("evenly spaced images of each class are held out, first for the test set") {
  CountingFolder images;
  images.held_out.test = 4;
  images.held_out.validation = 4;
  const Corpus corpus = images.load();
  // Each class has six images, of which two are held out for the test set and two for the
  // validation set.
  CHECK(first_pixels(corpus.test) == Pixels{4, 5, 10, 11});
  CHECK(first_pixels(corpus.validation) == Pixels{2, 3, 8, 9});
  CHECK(first_pixels(corpus.train) == Pixels{0, 1, 6, 7});
}

TEST_CASE("the share of a class is rounded, but not the total number of held-out images") {
  CountingFolder images;
  images.held_out.test = 3;
  CHECK(first_pixels(images.load().test) == Pixels{3, 6, 11});
  images.write("0,a\n1,a\n2,b\n3,a\n4,b\n5,b\n6,a\n");
  images.held_out.test = 4;
  CHECK(images.load().test.size() == 4);
}

TEST_CASE("holding out all images of a class, or more than exist, is rejected") {
  CountingFolder images;
  images.held_out.test = 12;
  images.check_rejected_now({"found 0 and 12", "less than 12", "data.test_size=1"});
  images.held_out = {.validation = 8, .test = 4};
  images.check_rejected_now({"found 8 and 4", "data.validation_size=1 data.test_size=1"});
  images.held_out = {.validation = 1, .test = 1};
  CHECK(images.load().train.size() == 10);
  images.held_out = {.validation = 0, .test = 1};
  images.check_rejected_tables(
      {{"0,a\n1,b\n2,a\n", {" found all images of the class b held out"}}});
  const Vocabulary known({"a", "b"});
  CHECK(images.load(&known).train.size() == 2);  // a trained model knows both classes
}

TEST_CASE(
    "with validation and test files, no training images are held out, and all images are used") {
  CountingFolder images;
  images.folder.write("other.csv", "5,b\n6,b\n");
  images.options.validation_images = images.options.test_images = "other.csv";
  images.held_out = {.validation = 1000, .test = 1000};
  const Corpus corpus = images.load();
  CHECK(corpus.train.size() == 12);
  CHECK(corpus.validation.size() == 2);
  CHECK(corpus.validation[0] == Example{.target = {5}, .pixels = {5.0F}});
  CHECK(corpus.test == corpus.validation);
  REQUIRE(corpus.files.size() == 3);
  CHECK(corpus.files[0].key == "data.train_images");
  CHECK(corpus.files[1].key == "data.test_images");
  CHECK(corpus.files[2].key == "data.validation_images");
  CHECK(corpus.files[2].bytes == 8);
}

TEST_CASE("labels must be among the given classes, or the classes of the training set") {
  CountingFolder images;
  const Vocabulary more({"b", "a", "c"}), less({"b", "c"});
  CHECK(images.load(&more).target_vocabulary == more);
  CHECK(images.load(&more).train.front().target == std::vector<std::int32_t>{more.id("a")});
  images.check_rejected_now({"train.csv:1: found the label \"a\"", "classes b, c"}, &less);
  images.folder.write("other.csv", "x,y\n5,b\n6,c\n");
  images.options.validation_images = "other.csv";
  images.check_rejected_now({"other.csv:3: found the label \"c\"", "classes a, b"});
}

TEST_CASE("a line without a label has only the pixels of an image") {
  const ImageOptions options = TableFolder().options;
  CHECK(parse_image("51, 255", "in:1", options) == Pixels{0.2F, 1.0F});
  check_rejected(
      {{"0,255,cat", {"in:7:", "3 fields", "expected 2: the pixels", "remove the labels"}},
       {"0", {"in:7:", "1 field,", "expected 2", "the value of each pixel"}},
       {"0,cat", {"in:7:", "\"cat\" in field 2", "expected a number"}},
       {"inf,0", {"in:7:", "\"inf\" in field 1", "expected a number"}}},
      [&](const std::string& line) { parse_image(line, "in:7", options); });
  CHECK(is_image_heading("left,right", options));
  CHECK_FALSE(is_image_heading("left,right,label", options));
  CHECK_FALSE(is_image_heading("left,2", options));
}

TEST_CASE("files with an HDF5 extension, in upper or lower case, are not read as tables") {
  TableFolder images;
  for (const std::string file : {"a.h5", "a.hdf5", "DIGITS.H5", "a.Hdf5"}) {
    images.folder.write(file, "0,255,cat\n");
    images.options.train_images = file;
    images.check_rejected_now({file + ": HDF5 could not open the file: "});
  }
  images.folder.write("a.h5.txt", "0,255,cat\n51,102,dog\n");
  images.options.train_images = "a.h5.txt";
  CHECK(images.load().train.size() == 2);
}
