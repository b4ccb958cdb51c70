// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/readers/images.h"
#include "tests/data/npy_files.h"
#include "tests/data/readers/image_folder.h"
#include "tests/data/rejection.h"

namespace tapestry {
namespace {

using namespace std::string_literals;
using test::check_rejected;
using test::header;
using test::npy;
using test::npy_file;
using test::to_bytes;
using Pixels = std::vector<float>;
using Names = std::vector<std::string>;

const std::string three_images =
    npy_file<std::uint8_t>("|u1", "(3, 1, 2)", {0, 255, 51, 102, 153, 204});
const std::string three_labels = npy_file<std::int64_t>("<i8", "(3,)", {7, 3, 7});

/// Three images in two classes.
struct NpyFolder : test::ImageFolder {
  NpyFolder() : ImageFolder("digits.npy") {
    write(three_images);
    write_labels(three_labels);
  }

  void write_labels(const std::string& bytes) const { folder.write("digits.labels.npy", bytes); }
};

/// A .npy file with this type and shape, and data of `bytes` zero bytes.
std::string zeros(const char* type, const char* shape, std::size_t bytes) {
  return npy(header(type, shape), std::string(bytes, '\0'));
}

TEST_CASE(
    "two .npy files give the same images and labels as a table, and are listed as data files") {
  NpyFolder folder;
  const Corpus corpus = folder.load();
  REQUIRE(corpus.train.size() == 3);
  CHECK(corpus.train[1] == Example{.target = {4}, .pixels = {0.2F, 0.4F}});
  CHECK(corpus.target_vocabulary == Vocabulary({"3", "7"}));
  REQUIRE(corpus.files.size() == 2);
  CHECK(corpus.files[0].key == "data.train_images");
  CHECK(corpus.files[0].bytes == 128 + 6);
  CHECK(corpus.files[1].key == "data.train_images.labels");
  CHECK(corpus.files[1].path == folder.folder.path() / "digits.labels.npy");
  CHECK(corpus.files[1].bytes == 128 + 3 * 8);

  folder.folder.write("digits.csv", "0,255,7\n51,102,3\n153,204,7\n");
  folder.options.train_images = "digits.csv";
  const Corpus table = folder.load();
  CHECK(table.train == corpus.train);
  CHECK(fingerprint(table) == fingerprint(corpus));

  folder.options.train_images = "digits.npy";
  folder.write_labels(npy_file<std::int64_t>("<i8", "(3,)", {7, 3, 3}));
  CHECK(folder.load().files[0] == corpus.files[0]);
  CHECK(folder.load().files[1].digest != corpus.files[1].digest);
}

TEST_CASE("the extension .npy may be in upper case, and the label file has the same extension") {
  NpyFolder folder;
  std::filesystem::rename(folder.name("digits.npy"), folder.name("DIGITS.x.NPY"));
  std::filesystem::rename(folder.name("digits.labels.npy"), folder.name("DIGITS.x.labels.NPY"));
  folder.options.train_images = "DIGITS.x.NPY";
  CHECK(folder.load().train.size() == 3);
}

TEST_CASE(
    "each part has a separate pair of .npy files, and the error about a missing file names it") {
  NpyFolder folder;
  folder.folder.write("t.npy", npy_file<float>("<f4", "(1, 1, 2)", {255, 0}));
  folder.folder.write("t.labels.npy", npy_file<std::uint8_t>("|u1", "(1,)", {3}));
  folder.options.test_images = "t.npy";
  const Corpus corpus = folder.load();
  REQUIRE(corpus.test.size() == 1);
  CHECK(corpus.test[0] == Example{.target = {4}, .pixels = {1.0F, 0.0F}});
  CHECK(corpus.files[3].key == "data.test_images.labels");
  folder.folder.write("t.labels.npy", npy_file<std::uint8_t>("|u1", "(1,)", {9}));
  folder.check_rejected_now({"t.labels.npy: image 0", "label \"9\"", "classes 3, 7"});
  std::filesystem::remove(folder.name("digits.labels.npy"));
  folder.check_rejected_now(
      {"digits.labels.npy: cannot be read", "numpy.save(\"digits.labels.npy\""});
  std::filesystem::remove(folder.name("digits.npy"));
  folder.check_rejected_now({"digits.npy: cannot be read", "(the key is data.train_images)"});
}

TEST_CASE("images of arrays with unknown labels are counted, and skipped on request") {
  const NpyFolder folder;
  const Vocabulary classes({"3", "5"});
  folder.check_rejected_now(
      {"image 0: found the label \"7\"", "image 2: found", "2 of 3 cannot be used"}, &classes);
  const Corpus corpus = folder.load(&classes, OnBadLine::skip);
  REQUIRE(corpus.train.size() == 1);
  CHECK(corpus.train[0].target == std::vector<std::int32_t>{classes.id("3")});
  CHECK(test::contains(corpus.notes.front(), "train: 2 of 3 skipped"));
  CHECK(test::contains(corpus.notes.front(), "image 0: found the label \"7\""));
}

// ---- Types

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

TEST_CASE(
    "pixels may have any number type in either byte order, and labels may have any integer type") {
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

TEST_CASE("negative numbers and numbers with many digits are read exactly") {
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

TEST_CASE("normal and subnormal float16 values and -0 are read") {
  NpyFolder folder;
  folder.options.pixel_maximum = 1;
  // 1, -2, the maximum, the smallest normal and subnormal numbers, and -0
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
}

TEST_CASE("booleans are read as 0 and 1, and any nonzero byte is true") {
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
  folder.write_labels(npy(header("|S5", "(3,)"), "cat\0\0horsed\xC3\xB6g\0"s));
  CHECK(folder.labels() == Names{"cat", "horse", "dög"});
  const std::vector<std::uint32_t> characters{'c', 'a', 't', 0xE9, 0x1F600, 0, 'x', 0, 0};
  for (const char* type : {"<U3", ">U3"}) {
    folder.write_labels(npy_file(type, "(3,)", characters));
    CHECK(folder.labels() == Names{"cat", "é\U0001F600", "x"});
  }
}

// ---- Element orders and headers

TEST_CASE("in Fortran order, the first axis varies fastest") {
  NpyFolder folder;
  folder.options.pixel_maximum = 1;
  folder.options.image_height = 2;
  folder.options.image_width = 3;
  folder.options.image_channels = 2;
  std::vector<std::int32_t> rows(3 * 12), columns(3 * 12);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::size_t n = i / 12, y = i / 6 % 2, x = i / 2 % 3, c = i % 2;
    rows[i] = static_cast<std::int32_t>(1000 * n + 100 * y + 10 * x + c);
    columns[n + 3 * (y + 2 * (x + 3 * c))] = rows[i];
  }
  folder.write(npy(header("<i4", "(3, 2, 3, 2)"), to_bytes(rows)));
  const Corpus expected = folder.load();
  CHECK(expected.train[2].pixels ==
        Pixels{2000, 2001, 2010, 2011, 2020, 2021, 2100, 2101, 2110, 2111, 2120, 2121});
  folder.write(npy(header("<i4", "(3, 2, 3, 2)", true), to_bytes(columns)));
  CHECK(folder.load().train == expected.train);
}

TEST_CASE(
    "images of one channel may have a channel axis, and images of several channels must have it") {
  NpyFolder folder;
  folder.write(zeros("|u1", "(3, 1, 2, 1)", 6));
  CHECK(folder.load().train.size() == 3);
  folder.check_rejected_files({{zeros("|u1", "(3, 2, 1, 1)", 6), {"(3, 2, 1, 1)", "(n, 1, 2)"}}});
  folder.options.image_channels = 4;
  folder.write(zeros("|u1", "(3, 1, 2, 4)", 24));
  CHECK(folder.load().train.front().pixels.size() == 8);
  folder.check_rejected_files({{three_images, {"(3, 1, 2)", "(n, 1, 2, 4)"}}});
}

/// The three images in a file of this format version.
std::string with_version(char major, char minor) {
  const std::string text = header("|u1", "(3, 1, 2)");
  const std::string size{static_cast<char>(text.size()), '\0', '\0', '\0'};
  return "\x93NUMPY"s + major + minor + size.substr(0, major == 1 ? 2 : 4) + text +
         three_images.substr(128);
}

TEST_CASE("all versions of the .npy format are read, with any spelling of the header") {
  const NpyFolder folder;
  const Corpus expected = folder.load();
  Names files{with_version('\1', '\0'), with_version('\2', '\0'), with_version('\3', '\0')};
  for (const char* text :
       {"{'descr':'|u1','fortran_order':False,'shape':(3,1,2)}",
        "{\"shape\": (3, 1, 2), \"fortran_order\": False, \"descr\": \"|u1\"}\n",
        "  { 'shape' : ( 3 , 1 , 2 , ) , 'descr' : '<u1' , 'fortran_order' : False , } \n\n",
        "{'descr': '|u1', 'fortran_order': False, 'shape': (3L, 1L, 2L), }"}) {
    files.push_back(npy(text, three_images.substr(128)));
  }
  for (const std::string& file : files) {
    CAPTURE(file);
    folder.write(file);
    CHECK(folder.load().train == expected.train);
  }
}

// ---- Rejected files

TEST_CASE("invalid headers and unknown versions are rejected with an excerpt") {
  const NpyFolder folder;
  std::vector<test::BadInput> files{
      {with_version('\4', '\0'), {"version 4.0", "1.0, 2.0 or 3.0"}},
      {with_version('\0', '\0'), {"version 0.0"}},
      {with_version('\1', '\1'), {"version 1.1"}},
      {with_version('\xFF', '\0'), {"version 255.0"}},
  };
  std::string axes = "(1";
  for (int i = 1; i < 33; ++i) axes += ", 1";
  const std::string start = "{'descr': '|u1', 'fortran_order': False, 'shape': ";
  const std::string end = ", 'fortran_order': False, 'shape': (3, 1, 2)}";
  for (const std::string& text : Names{
           "",
           "{}",
           "[]",
           "{'descr': '|u1'}",
           "{'descr': '|u1', 'fortran_order': False}",
           "{'descr': '|u1', 'shape': (3, 1, 2)}",
           "{'fortran_order': False, 'shape': (3, 1, 2)}",
           "{'descr': '|u1', 'fortran_order': 0, 'shape': (3, 1, 2)}",
           start + "3}",
           start + "(3, -1, 2)}",
           start + "(3, , 2)}",
           start + "(3 1 2)}",
           start + "(3, 1, 2}",
           start + "(99999999999999999999,)}",
           start + "(9999999999999999999,)}",
           start + "(3, 1, 2)",
           start + "(3, 1, 2)}}",
           start + "(3, 1, 2), 'x': 1}",
           start + axes + ")}",
           start + axes.substr(3) + ")}",
           "{'descr': '|u1' 'fortran_order': False, 'shape': (3, 1, 2)}",
           "{'descr': '|u1', 'descr': '|u1'" + end,
           "{'descr': 'u1'" + end,
           "{'descr': '|u'" + end,
           "{'descr': '|u1x'" + end,
           "{'descr': '|'" + end,
           "{'descr': '|\x1B[2J'" + end,
           "{'descr': ''" + end,
           "{'descr: |u1, fortran_order: False, shape: (3, 1, 2)}",
           "{'descr': |u1" + end,
       }) {
    files.push_back({npy(text, three_images.substr(128)),
                     {"found the header " + text.substr(0, 9), "expected {'descr': ..., "}});
  }
  folder.check_rejected_files(files);
}

TEST_CASE(
    "images of the wrong type, shape or size are rejected with the expected type, shape or size") {
  NpyFolder folder;
  folder.options.pixel_maximum = 1;
  const char* const shape = "(3, 1, 2)";
  const std::string types = "expected bool, int8 to int64, uint8 to uint64 or float16 to float64";
  const auto halves = [&](const std::vector<std::uint16_t>& bits) {
    return npy_file<std::uint16_t>("<f2", shape, bits);
  };
  folder.check_rejected_files({
      {zeros("<c16", shape, 96), {"images of complex128", types}},
      {zeros("<f16", shape, 96), {"images of float128", types}},
      {zeros("|S16", shape, 96), {"images of text", types}},
      {zeros("<U4", shape, 96), {"images of text", types}},
      {zeros("|V16", shape, 96), {"images of numpy's type V", types}},
      {zeros("<i16", shape, 96), {"images of int128", types}},
      {zeros("<M8[ns]", shape, 48), {"images of numpy's type M", types}},
      {npy(header("|O", shape), "\x80\x04]q."), {"array of Python objects"}},
      {npy("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (3,), }",
           std::string(12, '\0')),
       {"array of structures"}},
      {zeros("|u1", "(3, 2)", 6), {"digits.npy: ", "shape (3, 2)", "(n, 1, 2)"}},
      {zeros("|u1", "()", 1), {"shape ()", "(n, 1, 2)"}},
      {zeros("|u1", "(3, 1, 3)", 9), {"shape (3, 1, 3)", "(n, 1, 2)", "set data.image_width=3"}},
      {zeros("|u1", "(3, 1, 2, 3)", 18), {"(n, 1, 2)", "set data.image_channels=3"}},
      {"PK\x03\x04", {"found a ZIP or .npz file", "numpy.save"}},
      // No memory is allocated for headers that claim more data than the file has.
      {zeros("|b1", shape, 1), {"1 bytes after the header", "expected 6"}},
      {zeros("|u1", "(1000000000000, 1, 2)", 2), {"2 bytes after", "expected 2000"}},
      {zeros("<f8", "(4294967296, 4294967296, 2)", 0), {"expected more than 2^64"}},
      {zeros("|S4611686018427387904", "(4,)", 0), {"found the header "}},
      // Pixels that are not finite, or outside the range of float32 after the division.
      {halves({0, 0, 0, 0xFC00, 0, 0}), {"digits.npy: image 1", "-inf", "finite"}},
      {halves({0, 0, 0, 0, 0x7C01, 0}), {"image 2", "nan", "finite"}},
      {npy_file<double>("<f8", shape, {0, 0, 0, 1e300, 0, 0}), {"image 1", "1e+300"}},
  });
  folder.options.pixel_maximum = 1e-300;
  folder.check_rejected_files({{three_images, {"image 0", "found 255", "data.pixel_maximum"}}});
}

TEST_CASE(
    "labels are rejected if they are not class names, or if images and labels differ in number") {
  const NpyFolder folder;
  const std::string types = "expected integers or text", word = "expected one word";
  std::vector<test::BadInput> files{
      {zeros("<f4", "(3,)", 12), {"labels of float32", types}},
      {zeros("<f8", "(3,)", 24), {"labels of float64", types}},
      {zeros("|O", "(3,)", 15), {"array of Python objects"}},
      {zeros("<c8", "(3,)", 24), {"labels of complex64", types}},
      {zeros("<i16", "(3,)", 48), {"labels of int128", types}},
      {zeros("|u1", "(2,)", 2), {"digits.labels.npy: ", "shape (2)", "expected (3)"}},
      {zeros("|u1", "(3, 1)", 3), {"labels of shape (3, 1)", "expected (3)"}},
      {zeros("|S0", "(1000000000000000000,)", 0), {"shape (1000000000000000000)"}},
      {npy(header("|S3", "(3,)"), "catd gx\0\0"s), {"image 1", "\"d g\"", word}},
      {npy(header("|S3", "(3,)"), "catdogx\0y"s), {"image 2", "\"x\\x00y\"", word}},
      {npy(header("|S5", "(3,)"), "a\0\0\0\0<pad>b\0\0\0\0"s), {"image 1", "<pad>", word}},
      {npy(header("|S0", "(3,)"), ""), {"image 0", "\"\"", word}},
  };
  for (const std::uint32_t no_character : {0xD800U, 0xDFFFU, 0x110000U, 0xFFFFFFFFU}) {
    files.push_back({npy_file<std::uint32_t>("<U1", "(3,)", {'a', no_character, 'c'}),
                     {"image 1", "\"\\xFF\"", word}});
  }
  check_rejected(files, [&](const std::string& bytes) {
    folder.write_labels(bytes);
    folder.load();
  });
  folder.write_labels(zeros("|u1", "(0,)", 0));
  folder.check_rejected_files({{zeros("|u1", "(0, 1, 2)", 0), {"no image"}}});
}

TEST_CASE("truncated .npy files, and files longer than their header says, are rejected") {
  std::vector<test::BadInput> files{{three_images + "x", {"7 bytes after the header", "(3, 1, 2)"}},
                                    {"PK\x03\x04 of an archive, .npz", {"a ZIP or .npz file"}}};
  for (std::size_t size = 0; size < three_images.size(); ++size) {
    files.push_back(
        {three_images.substr(0, size),
         {size < 8     ? "no numpy array"
          : size < 128 ? "the end of the file inside its header"
                       : fmt::format("{} bytes after the header, expected 6", size - 128)}});
  }
  NpyFolder().check_rejected_files(files);
}

}  // namespace
}  // namespace tapestry
