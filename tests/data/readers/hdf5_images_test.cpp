#include <doctest/doctest.h>

#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/data/readers/hdf5_images.h"

namespace tapestry {
namespace {

using hdf5::Dataset;
using test::ArrayFolder;
using test::chunked;
using test::contains;
using test::Fill;
using test::put;
using test::put_three;
using test::refusal;
using test::Shape;
using test::TextType;

TEST_CASE("images and labels of an HDF5 file equal those of the same table") {
  ArrayFolder arrays;
  arrays.write(put_three);
  const Corpus corpus = arrays.load();
  REQUIRE(corpus.train.size() == 3);
  CHECK(corpus.train[1] == Example{.target = {4}, .pixels = {0.2F, 0.4F}});
  CHECK(corpus.target_vocabulary == Vocabulary({"3", "7"}));
  REQUIRE(corpus.files.size() == 1);
  CHECK(corpus.files[0].key == "data.train_images");

  ArrayFolder table;
  table.options.train_images = (table.folder.path() / "train.csv").string();
  std::ofstream(table.options.train_images) << "0,255,7\n51,102,3\n153,204,7\n";
  CHECK(table.load().train == corpus.train);
}

/// numpy's float16.
hdf5::Datatype half(hid_t order_of) {
  hdf5::Datatype type(H5Tcopy(order_of), "copy");
  REQUIRE(H5Tset_fields(type.get(), 15, 10, 5, 0, 10) >= 0);
  REQUIRE(H5Tset_size(type.get(), 2) >= 0);
  REQUIRE(H5Tset_ebias(type.get(), 15) >= 0);
  return type;
}

constexpr std::size_t integer_types = 14;

/// Types of numbers, first those of integers. To be made for each file: file_with() closes HDF5.
std::vector<hdf5::Datatype> number_types() {
  std::vector<hdf5::Datatype> types;
  for (const hid_t type :
       {H5T_STD_U8LE, H5T_STD_I8LE, H5T_STD_U16LE, H5T_STD_U16BE, H5T_STD_I16LE, H5T_STD_I16BE,
        H5T_STD_U32LE, H5T_STD_U32BE, H5T_STD_I32LE, H5T_STD_I32BE, H5T_STD_U64LE, H5T_STD_U64BE,
        H5T_STD_I64LE, H5T_STD_I64BE, H5T_IEEE_F32LE, H5T_IEEE_F32BE, H5T_NATIVE_LDOUBLE,
        H5T_IEEE_F64LE, H5T_IEEE_F64BE}) {
    types.emplace_back(H5Tcopy(type), "copy");
  }
  types.push_back(half(H5T_IEEE_F32LE));
  types.push_back(half(H5T_IEEE_F32BE));
  return types;
}

/// What is read of four pixels, 0 to 3 of 4, and labels 0 and 1, stored with these types.
Corpus load_stored_as(std::size_t pixel_type, std::size_t label_type) {
  ArrayFolder arrays;
  arrays.options.pixel_maximum = 4;
  arrays.write([&](hid_t file) {
    const std::vector<hdf5::Datatype> types = number_types();
    const auto write = [&](const char* name, std::size_t type, const Shape& shape,
                           const std::vector<std::uint8_t>& values) {
      const Dataset dataset = hdf5::create(file, name, types.at(type).get(), shape);
      REQUIRE(H5Dwrite(dataset.get(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       values.data()) >= 0);
    };
    write("images", pixel_type, {2, 1, 2}, {0, 1, 2, 3});
    write("labels", label_type, {2}, {0, 1});
  });
  return arrays.load();
}

TEST_CASE("pixels may be numbers of every type, size and byte order, and labels all integers") {
  const Corpus expected = load_stored_as(0, 0);
  REQUIRE(expected.train.size() == 2);
  CHECK(expected.train[0].pixels == std::vector<float>{0.0F, 0.25F});
  CHECK(expected.train[1].pixels == std::vector<float>{0.5F, 0.75F});
  for (std::size_t type = 1; type < 21; ++type) {
    CAPTURE(type);
    CHECK(load_stored_as(type, 0).train == expected.train);
    if (type < integer_types) CHECK(load_stored_as(0, type).train == expected.train);
  }
}

template <class T>
float first_pixel(T value, double maximum) {
  ArrayFolder arrays;
  arrays.options.pixel_maximum = maximum;
  arrays.write([&](hid_t file) {
    put<T>(file, "images", {2, 1, 2}, {value, T{}, T{}, T{}});
    put<std::int32_t>(file, "labels", {2}, {0, 1});
  });
  return arrays.load().train.front().pixels.front();
}

TEST_CASE("no pixel loses precision: pixels are divided in float64") {
  CHECK(first_pixel<std::int32_t>(16'777'217, 16'777'217) == 1.0F);  // 2^24 + 1 is no float32
  CHECK(first_pixel<std::int64_t>(-(std::int64_t{1} << 52) - 1, 9007199254740994.0) == -0.5F);
  CHECK(first_pixel<std::uint64_t>(std::uint64_t{1} << 63, 0x1p63) == 1.0F);
  CHECK(first_pixel<double>(1e300, 1e300) == 1.0F);
  CHECK(first_pixel<float>(0.1F, 3.0) == static_cast<float>(static_cast<double>(0.1F) / 3.0));
}

TEST_CASE("negative pixels remain negative, whatever the size of their integers") {
  for (std::size_t type = 0; type < integer_types; ++type) {
    CAPTURE(type);
    ArrayFolder arrays;
    arrays.options.pixel_maximum = 1;
    bool has_sign = false;
    arrays.write([&](hid_t file) {
      const std::vector<hdf5::Datatype> types = number_types();
      has_sign = H5Tget_sign(types[type].get()) == H5T_SGN_2;
      const std::vector<std::int8_t> pixels{-128, 127, -1, 0};
      H5Dwrite(hdf5::create(file, "images", types[type].get(), {2, 1, 2}).get(), H5T_NATIVE_INT8,
               H5S_ALL, H5S_ALL, H5P_DEFAULT, pixels.data());
      put<std::int32_t>(file, "labels", {2}, {0, 1});
    });
    if (has_sign) CHECK(arrays.load().train[0].pixels == std::vector<float>{-128.0F, 127.0F});
  }
}

TEST_CASE("booleans of h5py, an enumeration, are 0 and 1") {
  ArrayFolder arrays;
  arrays.options.pixel_maximum = 1;
  arrays.write([](hid_t file) {
    const hdf5::Datatype type(H5Tenum_create(H5T_STD_I8LE), "create");
    for (const std::int8_t value : {std::int8_t{0}, std::int8_t{1}}) {
      H5Tenum_insert(type.get(), value == 0 ? "FALSE" : "TRUE", &value);
    }
    const std::vector<std::int8_t> pixels{0, 1, 1, 0}, labels{1, 0};
    H5Dwrite(hdf5::create(file, "images", type.get(), {2, 1, 2}).get(), type.get(), H5S_ALL,
             H5S_ALL, H5P_DEFAULT, pixels.data());
    H5Dwrite(hdf5::create(file, "labels", type.get(), {2}).get(), type.get(), H5S_ALL, H5S_ALL,
             H5P_DEFAULT, labels.data());
  });
  const Corpus corpus = arrays.load();
  CHECK(corpus.train[0] == Example{.target = {5}, .pixels = {0.0F, 1.0F}});
  CHECK(corpus.train[1] == Example{.target = {4}, .pixels = {1.0F, 0.0F}});
  CHECK(corpus.target_vocabulary == Vocabulary({"0", "1"}));
}

TEST_CASE("chunks of any shape, compressed or not, give the images of a contiguous array") {
  ArrayFolder arrays;
  arrays.options.image_height = 6;
  arrays.options.image_width = 5;
  arrays.options.image_channels = 2;
  const std::size_t count = 101, values = count * 60;
  std::vector<std::int32_t> pixels(values);
  std::vector<std::int64_t> labels(count);
  for (std::size_t i = 0; i < values; ++i) pixels[i] = static_cast<std::int32_t>(i * 7919 % 256);
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int64_t>(i % 10);
  arrays.write([&](hid_t file) {
    put(file, "images", {count, 6, 5, 2}, pixels);
    put(file, "labels", {count}, labels);
  });
  const Corpus expected = arrays.load();
  for (const Shape& chunk : {Shape{1, 6, 5, 2}, Shape{7, 2, 5, 1}, Shape{101, 6, 5, 2},
                             Shape{50, 4, 4, 2}, Shape{1, 1, 1, 1}}) {
    for (const bool gzip : {false, true}) {
      CAPTURE(chunk.front());
      CAPTURE(gzip);
      arrays.write([&](hid_t file) {
        put(file, "images", {count, 6, 5, 2}, pixels, chunked(chunk, gzip));
        put(file, "labels", {count}, labels, chunked({13}, gzip));
      });
      CHECK(arrays.load().train == expected.train);
    }
  }
}

TEST_CASE("an array of several megabytes is read completely") {
  ArrayFolder arrays;
  arrays.options.image_height = arrays.options.image_width = 32;
  const std::size_t count = 2500;
  std::vector<std::uint8_t> pixels(count * 1024);
  std::vector<std::int64_t> labels(count);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = static_cast<std::uint8_t>(i * i % 251 + i / 1024 % 5);
  }
  for (std::size_t i = 0; i < count; ++i) labels[i] = static_cast<std::int64_t>(i % 2);
  for (const bool in_chunks : {false, true}) {
    CAPTURE(in_chunks);
    arrays.write([&](hid_t file) {
      put(file, "images", {count, 32, 32}, pixels,
          in_chunks ? chunked({300, 16, 32}) : hdf5::dataset_options());
      put(file, "labels", {count}, labels);
    });
    const Corpus corpus = arrays.load();
    REQUIRE(corpus.train.size() == count);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < pixels.size(); ++i) {
      const auto expected = static_cast<float>(pixels[i] / 255.0);
      wrong += corpus.train[i / 1024].pixels[i % 1024] == expected ? 0 : 1;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("compact storage, in the header of a dataset, is read") {
  const ArrayFolder arrays;
  arrays.write([](hid_t file) {
    const hdf5::PropertyList options = hdf5::dataset_options();
    H5Pset_layout(options.get(), H5D_COMPACT);
    put<std::uint8_t>(file, "images", {2, 1, 2}, {0, 255, 51, 102}, options);
    put<std::int64_t>(file, "labels", {2}, {1, 2}, options);
  });
  CHECK(arrays.load().train[1].pixels == std::vector<float>{0.2F, 0.4F});
}

TEST_CASE("channels are the last axis, which may be absent for one channel") {
  ArrayFolder arrays;
  arrays.options.image_channels = 2;
  arrays.options.pixel_maximum = 1;
  arrays.write([](hid_t file) {
    put<float>(file, "images", {2, 1, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
    put<std::int32_t>(file, "labels", {2}, {0, 1});
  });
  CHECK(arrays.load().train[1].pixels == std::vector<float>{4, 5, 6, 7});
  CHECK(arrays.message(put_three) == "found images of shape (3, 1, 2), expected (n, 1, 2, 2)");
  arrays.options.image_channels = 1;
  arrays.write([](hid_t file) {
    put<float>(file, "images", {2, 1, 2, 1}, {0, 1, 2, 3});
    put<std::int32_t>(file, "labels", {2}, {0, 1});
  });
  CHECK(arrays.load().train[1].pixels == std::vector<float>{2, 3});
}

TEST_CASE("images are held out of an array as of a table") {
  ArrayFolder arrays;
  arrays.held_out.test = 1;
  arrays.write([](hid_t file) {
    put<float>(file, "images", {4, 1, 2}, std::vector<float>(8, 0.5F));
    put<std::int32_t>(file, "labels", {4}, {0, 1, 0, 1});
  });
  const Corpus corpus = arrays.load();
  CHECK(corpus.train.size() == 3);
  CHECK(corpus.test.size() == 1);
}

TEST_CASE("a test image of a class that training lacks is refused with its index") {
  ArrayFolder arrays;
  arrays.options.test_images = (arrays.folder.path() / "test.csv").string();
  std::ofstream(arrays.options.test_images) << "0,255,9\n";
  arrays.write(put_three);
  CHECK(contains(refusal([&] { arrays.load(); }), "test.csv:1: found the label 9, expected"));
  std::swap(arrays.options.train_images, arrays.options.test_images);
  std::ofstream(arrays.options.train_images) << "0,255,7\n0,0,8\n";
  CHECK(
      contains(refusal([&] { arrays.load(); }), "train.h5: image 1: found the label 3, expected"));
}

TEST_CASE("integer labels keep all their digits and their sign") {
  const ArrayFolder arrays;
  const auto label_vocabulary = [&](auto... labels) {
    using T = std::common_type_t<decltype(labels)...>;
    arrays.write([&](hid_t file) {
      put<std::uint8_t>(file, "images", {2, 1, 2}, {1, 2, 3, 4});
      put<T>(file, "labels", {2}, {labels...});
    });
    return arrays.load().target_vocabulary;
  };
  CHECK(label_vocabulary(std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()) ==
        Vocabulary({"-9223372036854775808", "-1"}));
  CHECK(label_vocabulary(std::uint64_t{1}, std::numeric_limits<std::uint64_t>::max()) ==
        Vocabulary({"1", "18446744073709551615"}));
}

/// A file of so many images, with `labels` as the type is in memory.
Fill with_labels(std::size_t count, const TextType& text, const void* labels,
                 bool compressed = false) {
  return [=](hid_t file) {
    put<std::uint8_t>(file, "images", {count, 1, 2}, std::vector<std::uint8_t>(2 * count, 255));
    const hdf5::PropertyList options = hdf5::dataset_options();
    if (compressed) {
      const hsize_t chunk = 2;
      H5Pset_chunk(options.get(), 1, &chunk);
      H5Pset_deflate(options.get(), 4);
    }
    const hdf5::Datatype type = text.make();
    const Dataset dataset = hdf5::create(file, "labels", type.get(), {count}, options);
    REQUIRE(H5Dwrite(dataset.get(), type.get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, labels) >= 0);
  };
}

std::vector<std::string> label_names(const Corpus& corpus) {
  std::vector<std::string> names;
  for (const Example& image : corpus.train) {
    names.push_back(corpus.target_vocabulary.token(image.target.front()));
  }
  return names;
}

TEST_CASE("labels may be text of fixed length, with any padding") {
  const ArrayFolder arrays;
  using Names = std::vector<std::string>;
  arrays.write(with_labels(3, TextType{5}, "cat\0\0horsedog\0\0"));
  CHECK(label_names(arrays.load()) == Names{"cat", "horse", "dog"});
  arrays.write(with_labels(3, TextType{5, H5T_STR_NULLTERM}, "cat\0xhors\0dog\0y"));
  CHECK(label_names(arrays.load()) == Names{"cat", "hors", "dog"});
  arrays.write(with_labels(3, TextType{5, H5T_STR_SPACEPAD}, "cat  horsedog  "));
  CHECK(label_names(arrays.load()) == Names{"cat", "horse", "dog"});
  arrays.write(with_labels(2, TextType{5, H5T_STR_NULLPAD, H5T_CSET_UTF8}, "h\xC3\xA9\0\0mut\0\0"));
  CHECK(label_names(arrays.load()) == Names{"hé", "mut"});
}

TEST_CASE("labels may be text of any length, compressed or not") {
  const ArrayFolder arrays;
  const std::vector<const char*> labels{"cat", "a_name_of_some_length", "hé", "cat", "x"};
  const TextType type{.characters = H5T_CSET_UTF8};
  for (const bool compressed : {false, true}) {
    arrays.write(with_labels(labels.size(), type, labels.data(), compressed));
    CHECK(label_names(arrays.load()) == std::vector<std::string>(labels.begin(), labels.end()));
  }
}

TEST_CASE("text labels that are no valid class name are refused with the index of the image") {
  const ArrayFolder arrays;
  CHECK(arrays.message(with_labels(2, TextType{3}, "catd g")) ==
        "image 1: found the label \"d g\", expected one word");
  CHECK(arrays.message(with_labels(2, TextType{3}, "cat\0\0\0")) ==
        "image 1: found the label \"\", expected one word");
  CHECK(arrays.message(with_labels(2, TextType{3}, "ca\xFFx\0y")) ==
        "image 0: found the label \"ca\\xFF\", expected one word");
  CHECK(arrays.message(with_labels(2, TextType{3}, "catx\0y")) ==
        "image 1: found the label \"x\\x00y\", expected one word");
  const std::string long_name(1001, 'x');
  CHECK(arrays.message(with_labels(1, TextType{1001}, long_name.data())) ==
        "labels: found text of 1001 bytes, expected at most 1000");
  const std::vector<const char*> labels{"x", long_name.c_str()}, none{"x", nullptr};
  CHECK(arrays.message(with_labels(2, TextType{}, labels.data())) ==
        "labels: found text of 1001 bytes, expected at most 1000");
  CHECK(arrays.message(with_labels(2, TextType{}, none.data())) ==
        "image 1: found the label \"\", expected one word");
  const std::vector<const char*> longest{"x", long_name.c_str() + 1};
  arrays.write(with_labels(2, TextType{}, longest.data()));
  CHECK(label_names(arrays.load()).back() == std::string(1000, 'x'));
}

}  // namespace
}  // namespace tapestry
