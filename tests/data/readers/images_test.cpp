#include "data/readers/images.h"

#include <doctest/doctest.h>

#include <functional>

#include "tests/data/refusal.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;
using tapestry::test::hint_of;
using tapestry::test::refusal;
using tapestry::test::TemporaryFolder;
using Pixels = std::vector<float>;

namespace {

/// A file with two images of 1 x 2 pixels, and options that read it.
struct ImageFolder {
  ImageFolder() {
    write("0,255,cat\n51,102,dog\n");
    options.train_images = "train.csv";
    options.image_height = 1;
    options.image_width = 2;
    held_out = {.validation = 0, .test = 0};
  }

  void write(std::string_view text) const { folder.write("train.csv", text); }
  Corpus load(const Vocabulary* classes = nullptr) const {
    return load_images(options, held_out, folder.path(), classes);
  }
  std::string name(const char* file = "train.csv") const { return (folder.path() / file).string(); }

  /// What is said of a file with these lines, without its name.
  std::string message(std::string_view lines) const {
    write(lines);
    const std::string text = refusal([this] { load(); });
    REQUIRE(text.starts_with(name() + ":"));
    return text.substr(name().size() + 1);
  }

  TemporaryFolder folder;
  ImageOptions options;
  HeldOutImages held_out{};
};

const std::string out_of_range =
    ", expected a number whose quotient by data.pixel_maximum (255) is in the range of float32, up "
    "to 3.4e38";

/// A table of `count` images of one pixel, the values of which count from 0.
std::string counting(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    text += std::to_string(i) + (i % 2 == 0 ? ",a\n" : ",b\n");
  }
  return text;
}

Pixels first_pixels(const std::vector<Example>& images) {
  Pixels pixels;
  for (const Example& image : images) pixels.push_back(image.pixels.front());
  return pixels;
}

struct CountingFolder : ImageFolder {
  CountingFolder() {
    write(counting(12));
    options.image_width = 1;
    options.pixel_maximum = 1.0;
  }
};

}  // namespace

TEST_CASE("a line of a table of images is pixels, whose maximum becomes 1, and the label") {
  const Corpus corpus = ImageFolder().load();
  REQUIRE(corpus.train.size() == 2);
  CHECK(corpus.train[0] == Example{.target = {4}, .pixels = {0.0F, 1.0F}});
  CHECK(corpus.train[1] == Example{.target = {5}, .pixels = {0.2F, 0.4F}});
  CHECK(corpus.target_vocabulary == Vocabulary({"cat", "dog"}));
  CHECK(corpus.source_vocabulary == Vocabulary());
  CHECK(corpus.validation.empty());
  CHECK(corpus.test.empty());
}

TEST_CASE("pixels may be any finite numbers, with white space around them") {
  ImageFolder images;
  images.options.pixel_maximum = 0.5;
  images.write(" -1 ,\t2.5e-1\t, a \n1e-300,-0,b\n");
  const Corpus corpus = images.load();
  CHECK(corpus.train[0].pixels == Pixels{-2.0F, 0.5F});
  CHECK(corpus.train[1].pixels == Pixels{0.0F, 0.0F});
}

TEST_CASE("pixels far below the given maximum are noted") {
  ImageFolder images;
  const auto notes = [&](double maximum) {
    images.options.pixel_maximum = maximum;
    return images.load().notes;
  };
  CHECK(notes(255).empty());  // they go up to 255
  CHECK(notes(1000).empty());
  const std::vector<std::string> far_above = notes(10'000);
  REQUIRE(far_above.size() == 1);
  CHECK(far_above[0] ==
        "warning: the training pixels are from 0 to 255, data.pixel_maximum is 1e+04: it should "
        "be the largest possible value");
  CHECK(notes(254).size() == 1);
  images.write("300,600,cat\n510,320,dog\n");
  CHECK(notes(255).front().starts_with("warning: the training pixels are from 300 to 600, "));
  images.write("-1,3,cat\n1,2,dog\n");
  CHECK(notes(1).empty());  // made so on purpose
  images.write("510,320,cat\n600,300,dog\n");
  CHECK(notes(255).front().starts_with("warning: the training pixels are from 300 to 600, "));
  images.write("0,64,cat\n1,2,dog\n");
  CHECK(notes(255).empty());
  CHECK(notes(256).size() == 1);  // a quarter of the maximum is far below it
}

TEST_CASE("numeric classes are in the order of the numbers, whatever their order in the file") {
  ImageFolder images;
  images.write("0,0,10\n0,0,9\n0,0,2\n");
  const Corpus corpus = images.load();
  CHECK(corpus.target_vocabulary == Vocabulary({"2", "9", "10"}));
  CHECK(corpus.train[0].target.front() == 6);
}

TEST_CASE("a header, blank lines and Windows line ends of a table change no image") {
  ImageFolder images;
  const auto plain = images.load().train;
  for (const char* text :
       {"left,right,label\n0,255,cat\n51,102,dog\n", "\r\n0,255,cat\r\n \t\r\n51,102,dog\r\n",
        "0,255,cat\n\n51,102,dog", "\xEF\xBB\xBF\"x\",\"y\",\"z\"\n0,255,cat\n51,102,dog\n"}) {
    CAPTURE(text);
    images.write(text);
    CHECK(images.load().train == plain);
  }
}

TEST_CASE("a first line with a number in it is an image, and a mistake in it is reported") {
  const ImageFolder images;
  CHECK(images.message("nan,0,cat\n1,2,dog\n") == "1: found \"nan\" in field 1, expected a number");
  CHECK(images.message("1e999,x,cat\n1,2,dog\n") == "1: found \"1e999\" in field 1" + out_of_range);
  CHECK(images.message(",0,cat\n1,2,dog\n") == "1: found \"\" in field 1, expected a number");
  CHECK(images.message("x,y,z\nx,y,z\n") == "2: found \"x\" in field 1, expected a number");
}

TEST_CASE("a line with another number of fields is refused with both numbers") {
  ImageFolder images;
  CHECK(images.message("0,0,a\n\n0,a\n") ==
        "3: found 2 fields, expected 3: 2 pixels and the label");
  CHECK(images.message("0,0,0,a\n") == "1: found 4 fields, expected 3: 2 pixels and the label");
  CHECK(images.message("0,0,a,\n") == "1: found 4 fields, expected 3: 2 pixels and the label");
  CHECK(images.message("0;0;a;b\n0,0,a\n") ==
        "1: found 1 fields, expected 3: 2 pixels and the label");
  images.options.image_channels = 3;
  CHECK(images.message("0,0,a\n") == "1: found 3 fields, expected 7: 6 pixels and the label");
}

TEST_CASE("a field that is not a finite number is refused with its line and column") {
  const ImageFolder images;
  for (const char* field :
       {"", "x", "nan", "-nan", "inf", "-infinity", "1e39e", "0x10", "1 2", "+1", "--1",
        "1."
        "2.3"}) {
    CAPTURE(field);
    CHECK(images.message("1,2,a\n3," + std::string(field) + ",b\n") ==
          "2: found \"" + std::string(field) + "\" in field 2, expected a number");
  }
}

TEST_CASE("a pixel that overflows when divided by the maximum is refused") {
  ImageFolder images;
  images.options.pixel_maximum = 1e-300;
  CHECK(images.message("0,1,a\n") ==
        "1: found \"1\" in field 2, expected a number whose quotient by data.pixel_maximum "
        "(1e-300) is in the range of float32, up to 3.4e38");
  images.options.pixel_maximum = 255;
  for (const char* field : {"1e308", "1e400", "-1e42"}) {
    CHECK(images.message("0,1,b\n0," + std::string(field) + ",a\n") ==
          "2: found \"" + std::string(field) + "\" in field 2" + out_of_range);
  }
  CHECK(hint_of([&] { images.load(); }) ==
        "set data.pixel_maximum to the largest possible value of a pixel");
}

TEST_CASE("fields of a table may be quoted, as spreadsheets write them") {
  const ImageFolder images;
  const auto plain = images.load().train;
  images.write("\"0\",\"255\",\"cat\"\n51,\"102\",dog\n");
  CHECK(images.load().train == plain);
  CHECK(images.message("0,255,cat\n51,\"102,dog\n") ==
        "2: found a quote that is not closed, expected fields");
}

TEST_CASE("another separator is reported, with the command that replaces it by commas") {
  const ImageFolder images;
  CHECK(images.message("0;255;cat\n51;102;dog\n") ==
        "1: found fields separated by semicolons, expected commas\n" + images.name() +
            ":2: found fields separated by semicolons, expected commas\n2 of 2 cannot be used");
  CHECK(images.message("left;right;label\n") ==
        "1: found fields separated by semicolons, expected commas");
  CHECK(hint_of([&] { images.load(); }) == "convert the file, with: tr ';' ,");
  CHECK(images.message("0\t255\tcat\n") == "1: found fields separated by tabs, expected commas");
  CHECK(hint_of([&] { images.load(); }) == "convert the file, with: tr '\\t' ,");
}

TEST_CASE("a header is noted, and a row of empty fields is not a header") {
  const ImageFolder images;
  images.write("left,right,label\n0,255,cat\n51,102,dog\n");
  CHECK(images.load().notes ==
        std::vector<std::string>{images.name() + ":1: a heading, left,right,label, is skipped"});
  CHECK(images.message(",,\n0,255,cat\n51,102,dog\n") ==
        "1: found the label \"\", expected one word");
  CHECK(images.message(",,cat\n0,255,cat\n51,102,dog\n") ==
        "1: found \"\" in field 1, expected a number");
  images.write(",right,label\n0,255,cat\n51,102,dog\n");  // of pandas
  CHECK(images.load().train.size() == 2);
}

TEST_CASE("an empty table is refused: it has no images") {
  const ImageFolder images;
  CHECK(images.message("") ==
        " found an empty file, expected the pixels and the label of an image a line");
}

TEST_CASE("fields are quoted in messages as escaped excerpts") {
  const ImageFolder images;
  CHECK(images.message("0,0,a\n" + std::string(1'000'000, '7') + "x,0,b\n") ==
        "2: found \"" + std::string(60, '7') + "...\" in field 1, expected a number");
  CHECK(images.message("0,\x1B[2J,a\n") == "1: found \"\\x1B[2J\" in field 2, expected a number");
  CHECK(images.message("0,0," + std::string(500'000, 'a') + " b\n") ==
        "1: found the label \"" + std::string(60, 'a') + "...\", expected one word");
}

TEST_CASE("a label that is not one word, or spells a special symbol, is refused") {
  const ImageFolder images;
  CHECK(images.message("0,0,a\n0,0,\n") == "2: found the label \"\", expected one word");
  CHECK(images.message("0,0,a\n0,0, \n") == "2: found the label \"\", expected one word");
  CHECK(images.message("0,0,a b\n") == "1: found the label \"a b\", expected one word");
  CHECK(images.message("0,0,a\tb\n") == "1: found the label \"a\\tb\", expected one word");
  CHECK(images.message("0,0,<unk>\n") == "1: found the label \"<unk>\", expected one word");
}

TEST_CASE("a file without images, or with images of one class, is refused") {
  ImageFolder images;
  CHECK(images.message("\n \n") == " found no image, expected one a line");
  CHECK(images.message("x,y,label\n") == " found no image, expected one a line");
  CHECK(images.message("0,0,a\n1,1,a\n") ==
        " every example has the label a, expected two or more classes");
  images.options.train_images = "none.csv";
  CHECK(tapestry::test::contains(refusal([&] { images.load(); }),
                                 images.name("none.csv") + ": cannot be read"));
}

TEST_CASE("each class has its share of held-out images, evenly spread, the test set first") {
  CountingFolder images;
  images.held_out.test = 4;
  images.held_out.validation = 4;
  const Corpus corpus = images.load();
  // The class a has even numbers, b odd ones: of six each, two go to the test and two of the others
  // to validation.
  CHECK(first_pixels(corpus.test) == Pixels{4, 5, 10, 11});
  CHECK(first_pixels(corpus.validation) == Pixels{2, 3, 8, 9});
  CHECK(first_pixels(corpus.train) == Pixels{0, 1, 6, 7});
}

TEST_CASE("the share of a class is rounded, the total number of held-out images is not") {
  CountingFolder images;
  images.held_out.test = 3;
  CHECK(first_pixels(images.load().test) == Pixels{3, 6, 11});
  images.write("0,a\n1,a\n2,b\n3,a\n4,b\n5,b\n6,a\n");
  images.held_out.test = 4;
  CHECK(images.load().test.size() == 4);
}

TEST_CASE("a class of which all images would be held out is refused by its name") {
  CountingFolder images;
  images.write("0,a\n1,b\n2,a\n");
  images.held_out.test = 1;
  CHECK(images.message("0,a\n1,b\n2,a\n") ==
        " found all images of the class b held out, expected one to train on");
  const Vocabulary known({"a", "b"});
  CHECK(images.load(&known).train.size() == 2);  // by a model that has learned them
}

TEST_CASE("holding out more images than exist is refused with both numbers") {
  CountingFolder images;
  images.held_out.test = 12;
  CHECK(refusal([&] { images.load(); }) ==
        "data.test_size: found 12, expected less than 12, the number of images left in " +
            images.name());
  CHECK(hint_of([&] { images.load(); }) == "lower data.test_size");
  images.held_out.test = 4;
  images.held_out.validation = 8;
  CHECK(refusal([&] { images.load(); }) ==
        "data.validation_size: found 8, expected less than 8, the number of images left in " +
            images.name());
  CHECK(hint_of([&] { images.load(); }) == "lower data.validation_size");
}

TEST_CASE("files for validation and testing are used whole, and nothing is held out") {
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

TEST_CASE("with given classes of images, another label is refused") {
  const CountingFolder images;
  const Vocabulary more({"b", "a", "c"}), less({"b", "c"});
  CHECK(images.load(&more).target_vocabulary == more);
  CHECK(images.load(&more).train.front().target == std::vector<std::int32_t>{more.id("a")});
  CHECK(refusal([&] {
          images.load(&less);
        }).find(".csv:1: found the label a, expected one of the classes b, c\n") !=
        std::string::npos);
}

TEST_CASE("a held-out label of images that training lacks is refused with its line") {
  CountingFolder images;
  images.folder.write("other.csv", "x,y\n5,b\n6,c\n");
  images.options.validation_images = "other.csv";
  CHECK(refusal([&] { images.load(); }) ==
        images.name("other.csv") + ":3: found the label c, expected one of the classes a, b");
}

TEST_CASE("an image without a label is its pixels alone") {
  const ImageOptions options = ImageFolder().options;
  CHECK(parse_image("51, 255", "in:1", options) == Pixels{0.2F, 1.0F});
  const auto message = [&](std::string_view line) {
    return refusal([&] { parse_image(line, "in:7", options); });
  };
  CHECK(message("0,255,cat") == "in:7: found 3 fields, expected 2: the pixels, without a label");
  CHECK(message("0") == "in:7: found 1 fields, expected 2: the pixels, without a label");
  CHECK(message("0,cat") == "in:7: found \"cat\" in field 2, expected a number");
  CHECK(is_image_heading("left,right", options));
  CHECK_FALSE(is_image_heading("left,right,label", options));
  CHECK_FALSE(is_image_heading("left,2", options));
  CHECK(message("inf,0") == "in:7: found \"inf\" in field 1, expected a number");
}

TEST_CASE("HDF5 files are recognized by their extension, in either case, all others are tables") {
  ImageFolder images;
  for (const char* file : {"a.h5", "a.hdf5", "DIGITS.H5", "a.Hdf5"}) {
    CAPTURE(file);
    images.folder.write(file, "0,255,cat\n");
    images.options.train_images = file;
    CHECK(refusal([&] {
            images.load();
          }).starts_with(images.name(file) + ": HDF5 could not open the file: "));
  }
  images.folder.write("a.h5.txt", "0,255,cat\n51,102,dog\n");
  images.options.train_images = "a.h5.txt";
  CHECK(images.load().train.size() == 2);
}
