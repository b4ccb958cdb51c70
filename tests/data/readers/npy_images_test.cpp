#include "data/readers/image_arrays.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "tests/data/npy_files.h"
#include "tests/data/refusal.h"
#include "tests/support/temporary_folder.h"

namespace tapestry {
namespace {

using namespace std::string_literals;
using tapestry::test::contains;
using tapestry::test::header;
using tapestry::test::hint_of;
using tapestry::test::npy;
using tapestry::test::npy_file;
using tapestry::test::refusal;
using tapestry::test::TemporaryFolder;
using tapestry::test::to_bytes;
using Pixels = std::vector<float>;

const std::string three_labels = npy_file<std::int64_t>("<i8", "(3,)", {7, 3, 7});

/// Three images of 1 x 2 pixels in two classes.
struct NpyFolder {
  NpyFolder() {
    options.train_images = "digits.npy";
    options.image_height = 1;
    options.image_width = 2;
    write(npy_file<std::uint8_t>("|u1", "(3, 1, 2)", {0, 255, 51, 102, 153, 204}));
    write_labels(three_labels);
  }

  void write(const std::string& bytes) const { folder.write("digits.npy", bytes); }
  void write_labels(const std::string& bytes) const { folder.write("digits.labels.npy", bytes); }
  Corpus load() const { return load_images(options, {.validation = 0, .test = 0}, folder.path()); }
  std::string name(const char* file) const { return (folder.path() / file).string(); }

  /// What is said of the images, without the name of their file.
  std::string message(const std::string& bytes) const {
    write(bytes);
    return message_on("digits.npy");
  }
  std::string message_on(const char* file) const {
    const std::string text = refusal([this] { load(); });
    REQUIRE_MESSAGE(text.starts_with(name(file) + ": "), text);
    return text.substr(name(file).size() + 2);
  }

  TemporaryFolder folder;
  ImageOptions options;
};

TEST_CASE("images and labels of two .npy files equal those of the same table") {
  NpyFolder folder;
  const Corpus corpus = folder.load();
  REQUIRE(corpus.train.size() == 3);
  CHECK(corpus.train[1] == Example{.target = {4}, .pixels = {0.2F, 0.4F}});
  CHECK(corpus.target_vocabulary == Vocabulary({"3", "7"}));
  folder.folder.write("digits.csv", "0,255,7\n51,102,3\n153,204,7\n");
  folder.options.train_images = "digits.csv";
  const Corpus table = folder.load();
  CHECK(table.train == corpus.train);
  CHECK(fingerprint(table) == fingerprint(corpus));
}

TEST_CASE("both .npy files are listed, each with its size and digest") {
  NpyFolder folder;
  const std::vector<DataFile> before = folder.load().files;
  REQUIRE(before.size() == 2);
  CHECK(before[0].key == "data.train_images");
  CHECK(before[0].path == folder.folder.path() / "digits.npy");
  CHECK(before[0].bytes == 128 + 6);
  CHECK(before[1].key == "data.train_images.labels");
  CHECK(before[1].path == folder.folder.path() / "digits.labels.npy");
  CHECK(before[1].bytes == 128 + 3 * 8);
  folder.write_labels(npy_file<std::int64_t>("<i8", "(3,)", {7, 3, 3}));
  const std::vector<DataFile> after = folder.load().files;
  CHECK(after[0] == before[0]);
  CHECK(after[1].digest != before[1].digest);
}

TEST_CASE("the extension .npy may be in capitals, and the labels have the same one") {
  NpyFolder folder;
  std::filesystem::rename(folder.name("digits.npy"), folder.name("DIGITS.x.NPY"));
  std::filesystem::rename(folder.name("digits.labels.npy"), folder.name("DIGITS.x.labels.NPY"));
  folder.options.train_images = "DIGITS.x.NPY";
  CHECK(folder.load().train.size() == 3);
}

TEST_CASE("each part has its own pair of files") {
  NpyFolder folder;
  folder.folder.write("t.npy", npy_file<float>("<f4", "(1, 1, 2)", {255, 0}));
  folder.folder.write("t.labels.npy", npy_file<std::uint8_t>("|u1", "(1,)", {3}));
  folder.options.test_images = "t.npy";
  const Corpus corpus = folder.load();
  REQUIRE(corpus.test.size() == 1);
  CHECK(corpus.test[0] == Example{.target = {4}, .pixels = {1.0F, 0.0F}});
  CHECK(corpus.files[3].key == "data.test_images.labels");
  folder.folder.write("t.labels.npy", npy_file<std::uint8_t>("|u1", "(1,)", {9}));
  CHECK(folder.message_on("t.labels.npy") ==
        "image 0: found the label 9, expected one of the classes 3, 7");
}

TEST_CASE("images of arrays with unknown labels are counted, and skipped on request") {
  const NpyFolder folder;
  const Vocabulary classes({"3", "5"});
  const auto load = [&](OnBadLine on_bad_line) {
    return load_images(folder.options, {.validation = 0, .test = 0}, folder.folder.path(), &classes,
                       on_bad_line);
  };
  const std::string unknown = ": found the label 7, expected one of the classes 3, 5";
  const std::string place = folder.name("digits.labels.npy") + ": image ";
  CHECK(refusal([&] { load(OnBadLine::stop); }) ==
        place + "0" + unknown + "\n" + place + "2" + unknown + "\n2 of 3 cannot be used");
  const Corpus corpus = load(OnBadLine::skip);
  REQUIRE(corpus.train.size() == 1);
  CHECK(corpus.train[0].target == std::vector<std::int32_t>{classes.id("3")});
  CHECK(corpus.notes.front() ==
        "train: 2 of 3 skipped, which cannot be used, such as " + place + "0" + unknown);
}

TEST_CASE("without a file of labels beside the images the hint says how to save it") {
  const NpyFolder folder;
  std::filesystem::remove(folder.name("digits.labels.npy"));
  CHECK(folder.message_on("digits.labels.npy") == "cannot be read: No such file or directory");
  CHECK(hint_of([&] { folder.load(); }) ==
        "save the labels beside the images, with numpy.save(\"digits.labels.npy\", labels)");
  std::filesystem::remove(folder.name("digits.npy"));
  CHECK(contains(hint_of([&] { folder.load(); }), "(the key is data.train_images)"));
}

// ---- Types.

template <class T>
void check_type(const std::string& type) {
  NpyFolder folder;
  folder.options.pixel_maximum = 4;
  for (const char order : {'<', '>', '='}) {
    CAPTURE(type);
    CAPTURE(order);
    folder.write(npy_file<T>(order + type, "(3, 1, 2)", {0, 1, 2, 3, 100, 4}));
    const Corpus corpus = folder.load();
    CHECK(corpus.train[0].pixels == Pixels{0.0F, 0.25F});
    CHECK(corpus.train[1].pixels == Pixels{0.5F, 0.75F});
    CHECK(corpus.train[2].pixels == Pixels{25.0F, 1.0F});
    if (type.front() == 'f') continue;
    folder.write_labels(npy_file<T>(order + type, "(3,)", {10, 9, 100}));
    CHECK(folder.load().target_vocabulary == Vocabulary({"9", "10", "100"}));
    folder.write_labels(three_labels);
  }
}

TEST_CASE("pixels may be numbers of every type in either byte order, and labels whole ones") {
  check_type<std::uint8_t>("u1");
  check_type<std::int8_t>("i1");
  check_type<std::uint16_t>("u2");
  check_type<std::int16_t>("i2");
  check_type<std::uint32_t>("u4");
  check_type<std::int32_t>("i4");
  check_type<std::uint64_t>("u8");
  check_type<std::int64_t>("i8");
  check_type<float>("f4");
  check_type<double>("f8");
}

TEST_CASE("negative numbers and numbers with all digits keep their values") {
  NpyFolder folder;
  folder.options.pixel_maximum = 0x1p63;
  folder.write(
      npy_file<std::uint64_t>("<u8", "(3, 1, 2)", {std::uint64_t{1} << 63, 0, 0, 0, 0, 0}));
  CHECK(folder.load().train[0].pixels[0] == 1.0F);
  folder.write(
      npy_file<std::int64_t>(">i8", "(3, 1, 2)", {-(std::int64_t{1} << 62), 0, 0, 0, 0, 0}));
  CHECK(folder.load().train[0].pixels[0] == -0.5F);
  folder.options.pixel_maximum = 1;
  folder.write(npy_file<std::int8_t>("|i1", "(3, 1, 2)", {-128, 127, -1, 0, 0, 0}));
  CHECK(folder.load().train[0].pixels == Pixels{-128.0F, 127.0F});
  folder.write_labels(npy_file<std::int8_t>("|i1", "(3,)", {-1, 1, -128}));
  CHECK(folder.load().target_vocabulary == Vocabulary({"-128", "-1", "1"}));
  folder.write_labels(npy_file<std::uint64_t>(">u8", "(3,)", {~std::uint64_t{0}, 1, 1}));
  CHECK(folder.load().target_vocabulary == Vocabulary({"1", "18446744073709551615"}));
}

TEST_CASE("float16 values of every form are read") {
  NpyFolder folder;
  folder.options.pixel_maximum = 1;
  // 1, -2, the largest, the smallest normal and subnormal ones, and -0
  const std::vector<std::uint16_t> bits{0x3C00, 0xC000, 0x7BFF, 0x0400, 0x0001, 0x8000};
  for (const char* type : {"<f2", ">f2"}) {
    CAPTURE(type);
    folder.write(npy_file(type, "(3, 1, 2)", bits));
    const Corpus corpus = folder.load();
    CHECK(corpus.train[0].pixels == Pixels{1.0F, -2.0F});
    CHECK(corpus.train[1].pixels == Pixels{65504.0F, 0x1p-14F});
    CHECK(corpus.train[2].pixels == Pixels{0x1p-24F, 0.0F});
    CHECK(std::signbit(corpus.train[2].pixels[1]));
  }
  CHECK(folder.message(npy_file<std::uint16_t>("<f2", "(3, 1, 2)", {0, 0, 0, 0xFC00, 0, 0})) ==
        "image 1: found -inf, expected a finite number");
  CHECK(folder.message(npy_file<std::uint16_t>("<f2", "(3, 1, 2)", {0, 0, 0, 0, 0x7C01, 0})) ==
        "image 2: found nan, expected a finite number");
}

TEST_CASE("booleans are 0 and 1, whatever byte represents true") {
  NpyFolder folder;
  folder.options.pixel_maximum = 1;
  folder.write(npy_file<std::uint8_t>("|b1", "(3, 1, 2)", {0, 1, 1, 255, 2, 0}));
  folder.write_labels(npy_file<std::uint8_t>("|b1", "(3,)", {0, 1, 8}));
  const Corpus corpus = folder.load();
  CHECK(corpus.train[0].pixels == Pixels{0, 1});
  CHECK(corpus.train[1].pixels == Pixels{1, 1});
  CHECK(corpus.train[2].pixels == Pixels{1, 0});
  CHECK(corpus.target_vocabulary == Vocabulary({"0", "1"}));
}

TEST_CASE("labels may be words, as bytes or as characters") {
  const NpyFolder folder;
  const auto labels = [&] {
    std::vector<std::string> names;
    const Corpus corpus = folder.load();
    for (const Example& image : corpus.train) {
      names.push_back(corpus.target_vocabulary.token(image.target.front()));
    }
    return names;
  };
  folder.write_labels(npy(header("|S5", "(3,)"), "cat\0\0horsed\xC3\xB6g\0"s));
  CHECK(labels() == std::vector<std::string>{"cat", "horse", "dög"});
  const std::vector<std::uint32_t> characters{'c', 'a', 't', 0xE9, 0x1F600, 0, 'x', 0, 0};
  for (const char* type : {"<U3", ">U3"}) {
    folder.write_labels(npy_file(type, "(3,)", characters));
    CHECK(labels() == std::vector<std::string>{"cat", "é\U0001F600", "x"});
  }
}

TEST_CASE("a text that is no valid class name is refused with the index of its image") {
  const NpyFolder folder;
  const auto message = [&](const std::string& labels) {
    folder.write_labels(labels);
    return folder.message_on("digits.labels.npy");
  };
  CHECK(message(npy(header("|S3", "(3,)"), "catd gx\0\0"s)) ==
        "image 1: found the label \"d g\", expected one word");
  CHECK(message(npy(header("|S3", "(3,)"), "catdogx\0y"s)) ==
        "image 2: found the label \"x\\x00y\", expected one word");
  CHECK(message(npy(header("|S0", "(3,)"), "")) ==
        "image 0: found the label \"\", expected one word");
  for (const std::uint32_t no_character : {0xD800U, 0xDFFFU, 0x110000U, 0xFFFFFFFFU}) {
    CHECK(message(npy_file<std::uint32_t>("<U1", "(3,)", {'a', no_character, 'c'})) ==
          "image 1: found the label \"\\xFF\", expected one word");
  }
}

// ---- Orders and headers.

TEST_CASE("in Fortran's order the first axis varies fastest") {
  NpyFolder folder;
  folder.options.pixel_maximum = 1;
  folder.options.image_height = 2;
  folder.options.image_width = 3;
  folder.options.image_channels = 2;
  std::vector<std::int32_t> rows(3 * 12), columns(3 * 12);
  for (std::size_t n = 0; n < 3; ++n) {
    for (std::size_t y = 0; y < 2; ++y) {
      for (std::size_t x = 0; x < 3; ++x) {
        for (std::size_t c = 0; c < 2; ++c) {
          const auto value = static_cast<std::int32_t>(1000 * n + 100 * y + 10 * x + c);
          rows[((n * 2 + y) * 3 + x) * 2 + c] = value;
          columns[n + 3 * (y + 2 * (x + 3 * c))] = value;
        }
      }
    }
  }
  folder.write(npy(header("<i4", "(3, 2, 3, 2)"), to_bytes(rows)));
  const Corpus expected = folder.load();
  CHECK(expected.train[2].pixels ==
        Pixels{2000, 2001, 2010, 2011, 2020, 2021, 2100, 2101, 2110, 2111, 2120, 2121});
  folder.write(npy(header("<i4", "(3, 2, 3, 2)", true), to_bytes(columns)));
  CHECK(folder.load().train == expected.train);
}

TEST_CASE("all versions of the .npy format are read, other versions are refused") {
  const NpyFolder folder;
  const Corpus expected = folder.load();
  const std::string text = header("|u1", "(3, 1, 2)"), data = "\x00\xFF\x33\x66\x99\xCC"s;
  const auto with_version = [&](char major, char minor) {
    const std::string size{static_cast<char>(text.size()), '\0', '\0', '\0'};
    return "\x93NUMPY"s + major + minor + size.substr(0, major == 1 ? 2 : 4) + text + data;
  };
  for (const char major : {'\1', '\2', '\3'}) {
    folder.write(with_version(major, '\0'));
    CHECK(folder.load().train == expected.train);
  }
  CHECK(folder.message(with_version('\4', '\0')) ==
        "found version 4.0 of the format, expected 1.0, 2.0 or 3.0");
  CHECK(folder.message(with_version('\0', '\0')) ==
        "found version 0.0 of the format, expected 1.0, 2.0 or 3.0");
  CHECK(folder.message(with_version('\1', '\1')) ==
        "found version 1.1 of the format, expected 1.0, 2.0 or 3.0");
  CHECK(folder.message(with_version('\xFF', '\0')) ==
        "found version 255.0 of the format, expected 1.0, 2.0 or 3.0");
}

TEST_CASE("the .npy header may be any Python literal of the same dictionary") {
  const NpyFolder folder;
  const Corpus expected = folder.load();
  const std::string data = "\x00\xFF\x33\x66\x99\xCC"s;
  for (const char* text :
       {"{'descr':'|u1','fortran_order':False,'shape':(3,1,2)}",
        "{\"shape\": (3, 1, 2), \"fortran_order\": False, \"descr\": \"|u1\"}\n",
        "  { 'shape' : ( 3 , 1 , 2 , ) , 'descr' : '<u1' , 'fortran_order' : False , } \n\n",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3L, 1L, 2L), }"}) {
    CAPTURE(text);
    folder.write(npy(text, data));
    CHECK(folder.load().train == expected.train);
  }
}

TEST_CASE("another .npy header is refused with an excerpt of its beginning") {
  const NpyFolder folder;
  for (const char* text :
       {"",
        "{}",
        "[]",
        "{'descr': '|u1'}",
        "{'descr': '|u1', 'fortran_order': False}",
        "{'descr': '|u1', 'shape': (3, 1, 2)}",
        "{'fortran_order': False, 'shape': (3, 1, 2)}",
        "{'descr': '|u1', 'fortran_order': 0, 'shape': (3, 1, 2)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': 3}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3, -1, 2)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3, , 2)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3 1 2)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 1, 2}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (99999999999999999999,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (9999999999999999999,)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 1, 2)",
        "{'descr': '|u1' 'fortran_order': False, 'shape': (3, 1, 2)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 1, 2)}}",
        "{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (3, 1, 2)}",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3, 1, 2), 'x': 1}",
        "{'descr': 'u1', 'fortran_order': False, 'shape': (3, 1, 2)}",
        "{'descr': '|u', 'fortran_order': False, 'shape': (3, 1, 2)}",
        "{'descr': '|u1x', 'fortran_order': False, 'shape': (3, 1, 2)}",
        "{'descr': '|', 'fortran_order': False, 'shape': (3, 1, 2)}",
        "{'descr': '|\x1B[2J', 'fortran_order': False, 'shape': (3, 1, 2)}",
        "{'descr': '', 'fortran_order': False, 'shape': (3, 1, 2)}",
        "{'descr: |u1, fortran_order: False, shape: (3, 1, 2)}",
        "{'descr': |u1, 'fortran_order': False, 'shape': (3, 1, 2)}"}) {
    CAPTURE(text);
    const std::string message = folder.message(npy(text, "\x00\xFF\x33\x66\x99\xCC"s));
    CHECK(message.starts_with("found the header " + std::string(text).substr(0, 9)));
    CHECK(message.ends_with(", expected {'descr': ..., 'fortran_order': ..., 'shape': ...}"));
    CHECK(message.size() < 200);
  }
  std::string axes = "(1";
  for (int i = 1; i < 33; ++i) axes += ", 1";
  CHECK(contains(folder.message(npy(header("|u1", axes + ")"), "x")), "found the header "));
  CHECK(
      contains(folder.message(npy(header("|u1", axes.substr(3) + ")"), "x")), "found the header "));
}

// ---- Rejected arrays.

/// A .npy file, and what is said about it.
struct BadArray {
  std::string bytes, message;
};

/// Zeros of a type, in an array of a shape.
std::string zeros(const char* type, const char* shape, std::size_t bytes) {
  return npy(header(type, shape), std::string(bytes, '\0'));
}

TEST_CASE("images of other types, shapes or sizes are rejected with those expected") {
  NpyFolder folder;
  const char* const shape = "(3, 1, 2)";
  const std::string types = ", expected bool, int8 to int64, uint8 to uint64 or float16 to float64";
  const BadArray rows[] = {
      {zeros("<c16", shape, 96), "found images of complex128" + types},
      {zeros("<f16", shape, 96), "found images of float128" + types},
      {zeros("|S16", shape, 96), "found images of text" + types},
      {zeros("<U4", shape, 96), "found images of text" + types},
      {zeros("|V16", shape, 96), "found images of numpy's type V" + types},
      {zeros("<i16", shape, 96), "found images of int128" + types},
      {zeros("<M8[ns]", shape, 48), "found images of numpy's type M, expected bool, "},
      {npy(header("|O", shape), "\x80\x04]q."), "found an array of Python objects"},
      {npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,), }",
           std::string(12, '\0')),
       "found an array of structures"},
      {zeros("|u1", "(3, 2)", 6), "found images of shape (3, 2), expected (n, 1, 2)"},
      {zeros("|u1", "()", 1), "found images of shape (), expected (n, 1, 2)"},
      {zeros("|u1", "(3, 1, 3)", 9), "found images of shape (3, 1, 3), expected (n, 1, 2)"},
      // Headers that claim more than the file has: nothing is allocated for them.
      {zeros("|b1", shape, 1), "found 1 bytes behind the header, expected 6"},
      {zeros("|u1", "(1000000000000, 1, 2)", 2), "found 2 bytes behind the header, expected 2000"},
      {zeros("<f8", "(4294967296, 4294967296, 2)", 0), "expected more than 2^64"},
      {zeros("|S4611686018427387904", "(4,)", 0), "found the header "},
  };
  for (const BadArray& bad : rows) {
    CAPTURE(bad.bytes);
    CHECK(contains(folder.message(bad.bytes), bad.message));
  }
}

TEST_CASE("labels that are neither whole numbers nor words, or not one for each image") {
  const NpyFolder folder;
  const std::string types = ", expected integers or text";
  const BadArray rows[] = {
      {zeros("<f4", "(3,)", 12), "found labels of float32" + types},
      {zeros("<f8", "(3,)", 24), "found labels of float64" + types},
      {zeros("|O", "(3,)", 15), "found an array of Python objects"},
      {zeros("<c8", "(3,)", 24), "found labels of complex64" + types},
      {zeros("<i16", "(3,)", 48), "found labels of int128" + types},
      {zeros("|u1", "(2,)", 2), "found labels of shape (2), expected (3)"},
      {zeros("|S0", "(1000000000000000000,)", 0), "found labels of shape (1000000000000000000)"},
  };
  for (const BadArray& bad : rows) {
    CAPTURE(bad.bytes);
    folder.write_labels(bad.bytes);
    CHECK(contains(folder.message_on("digits.labels.npy"), bad.message));
  }
}

TEST_CASE("truncated .npy files, and ones longer than their header says, are refused") {
  const NpyFolder folder;
  const std::string whole = npy_file<std::uint8_t>("|u1", "(3, 1, 2)", {0, 255, 51, 102, 153, 204});
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const std::string text = folder.message(whole.substr(0, size));
    if (size < 8) {
      CHECK(text == "found no array of numpy, expected a file that numpy.save() wrote");
    } else if (size < 128) {
      CHECK(text == "found the end of the file inside its header, expected an array behind it");
    } else {
      CHECK(text == fmt::format("found {} bytes behind the header, expected 6: uint8 of shape "
                                "(3, 1, 2)",
                                size - 128));
    }
  }
  CHECK(folder.message(whole + "x") ==
        "found 7 bytes behind the header, expected 6: uint8 of shape (3, 1, 2)");
  CHECK(folder.message("PK\x03\x04 of an archive, .npz") ==
        "found no array of numpy, expected a file that numpy.save() wrote");
}

}  // namespace
}  // namespace tapestry
