// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/readers/image_arrays.h"
#include "data/readers/images.h"
#include "tests/data/readers/image_folder.h"
#include "tests/data/rejection.h"
#include "tests/support/contains.h"
#include "tests/support/hdf5_files.h"

namespace tapestry {
namespace {

using hdf5::Dataset;

using Shape = std::vector<hsize_t>;
using Fill = std::function<void(hid_t file)>;

template <class T>
hid_t type_of() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, std::int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, std::int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, std::uint64_t>) return H5T_NATIVE_UINT64;
  if constexpr (std::is_same_v<T, std::uint8_t>) return H5T_NATIVE_UINT8;
}

/// Writes a dataset.
template <class T>
void put(hid_t file, const char* name, const Shape& shape, const std::vector<T>& values,
         const hdf5::PropertyList& options = hdf5::dataset_options()) {
  const hdf5::Dataset dataset = hdf5::create(file, name, type_of<T>(), shape, options);
  REQUIRE(H5Dwrite(dataset.get(), type_of<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
}

/// Three images of 1 x 2 pixels in two classes.
void put_three(hid_t file) {
  put<std::uint8_t>(file, "images", {3, 1, 2}, {0, 255, 51, 102, 153, 204});
  put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
}

struct ArrayFolder : test::ImageFolder {
  ArrayFolder() : ImageFolder("train.h5") {}

  void write(const Fill& fill) const { write(hdf5::file_with(fill)); }
  void write(const std::vector<std::byte>& bytes) const {
    ImageFolder::write({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
  /// Checks that the file is rejected, and that the error contains its name and these words.
  void check_rejected(const std::vector<std::string>& words) const {
    check_rejected_now(words);
    CHECK(test::rejection([this] { load(); }).starts_with(name("train.h5") + ": "));
  }
  void check_rejected(const Fill& fill, const std::vector<std::string>& words) const {
    write(fill);
    check_rejected(words);
  }
};

/// A string type.
struct TextType {
  std::size_t size = H5T_VARIABLE;
  H5T_str_t padding = H5T_STR_NULLPAD;
  H5T_cset_t characters = H5T_CSET_ASCII;

  hdf5::Datatype make() const {
    hdf5::Datatype type(H5Tcopy(H5T_C_S1), "copy");
    REQUIRE(H5Tset_size(type.get(), size) >= 0);
    if (size != H5T_VARIABLE) REQUIRE(H5Tset_strpad(type.get(), padding) >= 0);
    REQUIRE(H5Tset_cset(type.get(), characters) >= 0);
    return type;
  }
};

/// Options that store a dataset in its object header.
hdf5::PropertyList compact() {
  hdf5::PropertyList options = hdf5::dataset_options();
  REQUIRE(H5Pset_layout(options.get(), H5D_COMPACT) >= 0);
  return options;
}

/// The options of a dataset that h5py makes with chunks=... and, with `gzip`, compression="gzip".
hdf5::PropertyList chunked(const Shape& chunk, bool gzip = true) {
  hdf5::PropertyList options = hdf5::dataset_options();
  REQUIRE(H5Pset_chunk(options.get(), static_cast<int>(chunk.size()), chunk.data()) >= 0);
  if (gzip) {
    REQUIRE(H5Pset_shuffle(options.get()) >= 0);
    REQUIRE(H5Pset_deflate(options.get(), 4) >= 0);
    REQUIRE(H5Pset_fletcher32(options.get()) >= 0);
  }
  return options;
}

TEST_CASE("an HDF5 file gives the same images and labels as a table") {
  ArrayFolder arrays;
  arrays.write(put_three);
  const Corpus corpus = arrays.load();
  REQUIRE(corpus.train.size() == 3);
  CHECK(corpus.train[1] == Example{.target = {4}, .pixels = {0.2F, 0.4F}});
  CHECK(corpus.target_vocabulary == Vocabulary({"3", "7"}));
  REQUIRE(corpus.files.size() == 1);
  CHECK(corpus.files[0].key == "data.train_images");

  const test::ImageFolder table("train.csv");
  table.write("0,255,7\n51,102,3\n153,204,7\n");
  CHECK(table.load().train == corpus.train);
}

/// NumPy's type float16.
hdf5::Datatype half(hid_t order_of) {
  hdf5::Datatype type(H5Tcopy(order_of), "copy");
  REQUIRE(H5Tset_fields(type.get(), 15, 10, 5, 0, 10) >= 0);
  REQUIRE(H5Tset_size(type.get(), 2) >= 0);
  REQUIRE(H5Tset_ebias(type.get(), 15) >= 0);
  return type;
}

constexpr std::size_t integer_types = 14;

/// Number types, integers first. Create new types for each file, because file_with() closes HDF5.
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

/// Whether number_types()[type] is unsigned.
bool is_unsigned(std::size_t type) {
  return type < integer_types && H5Tget_sign(number_types()[type].get()) == H5T_SGN_NONE;
}

/// The images read from the pixels -1 (0 if unsigned), 1, 2, 3 with maximum 4 and the labels 0 and
/// 1, stored with these types.
Corpus load_stored_as(std::size_t pixel_type, std::size_t label_type) {
  ArrayFolder arrays;
  arrays.options.pixel_maximum = 4;
  arrays.write([&](hid_t file) {
    const std::vector<hdf5::Datatype> types = number_types();
    const auto write = [&](const char* name, std::size_t type, const Shape& shape,
                           const std::vector<std::int8_t>& values) {
      const Dataset dataset = hdf5::create(file, name, types.at(type).get(), shape);
      REQUIRE(H5Dwrite(dataset.get(), H5T_NATIVE_INT8, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       values.data()) >= 0);
    };
    write("images", pixel_type, {2, 1, 2}, {-1, 1, 2, 3});
    write("labels", label_type, {2}, {0, 1});
  });
  return arrays.load();
}

TEST_CASE("pixels may have any number type, size and byte order, and labels any integer type") {
  for (std::size_t type = 0; type < 21; ++type) {
    CAPTURE(type);
    const std::vector<Example> expected{
        {.target = {4}, .pixels = {is_unsigned(type) ? 0.0F : -0.25F, 0.25F}},
        {.target = {5}, .pixels = {0.5F, 0.75F}}};
    CHECK(load_stored_as(type, 0).train == expected);
    if (type >= integer_types) continue;
    CHECK(load_stored_as(0, type).target_vocabulary == Vocabulary({"0", "1"}));
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
  CHECK(first_pixel<std::int32_t>(16'777'217, 16'777'217) ==
        1.0F);  // float32 cannot represent 2^24 + 1
  CHECK(first_pixel<std::int64_t>(-(std::int64_t{1} << 52) - 1, 9007199254740994.0) == -0.5F);
  CHECK(first_pixel<std::uint64_t>(std::uint64_t{1} << 63, 0x1p63) == 1.0F);
  CHECK(first_pixel<double>(1e300, 1e300) == 1.0F);
  CHECK(first_pixel<float>(0.1F, 3.0) == static_cast<float>(static_cast<double>(0.1F) / 3.0));
}

TEST_CASE("h5py booleans, which are an HDF5 enumeration, are read as 0 and 1") {
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

TEST_CASE("chunked, compressed and compact arrays give the same images as a contiguous array") {
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
  CHECK(expected.train.back().pixels.back() == static_cast<float>(pixels.back() / 255.0));
  arrays.write([&](hid_t file) {
    put(file, "images", {count, 6, 5, 2}, pixels, compact());
    put(file, "labels", {count}, labels, compact());
  });
  CHECK(arrays.load().train == expected.train);
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

TEST_CASE("shapes of images and labels must match the options and each other") {
  ArrayFolder arrays;
  arrays.options.image_channels = 2;
  arrays.check_rejected(put_three, {"images of shape (3, 1, 2)", "(n, 1, 2, 2)"});
  arrays.options.image_channels = 1;
  arrays.check_rejected(
      [](hid_t file) {
        put<float>(file, "images", {2, 1, 2, 1}, {0, 1, 2, 3});
        put<std::int32_t>(file, "labels", {3}, {0, 1, 2});
      },
      {"labels of shape (3)", "(2), one for each"});
}

TEST_CASE("integer labels keep all digits and the sign") {
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

/// A file of `count` images, with `labels` in the memory layout of the type.
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

TEST_CASE("labels may be text of fixed length, with any padding") {
  const ArrayFolder arrays;
  using Names = std::vector<std::string>;
  arrays.write(with_labels(3, TextType{5}, "cat\0\0horsedog\0\0"));
  CHECK(arrays.labels() == Names{"cat", "horse", "dog"});
  arrays.write(with_labels(3, TextType{5, H5T_STR_NULLTERM}, "cat\0xhors\0dog\0y"));
  CHECK(arrays.labels() == Names{"cat", "hors", "dog"});
  arrays.write(with_labels(3, TextType{5, H5T_STR_SPACEPAD}, "cat  horsedog  "));
  CHECK(arrays.labels() == Names{"cat", "horse", "dog"});
  arrays.write(with_labels(2, TextType{5, H5T_STR_NULLPAD, H5T_CSET_UTF8}, "h\xC3\xA9\0\0mut\0\0"));
  CHECK(arrays.labels() == Names{"hé", "mut"});
}

TEST_CASE("labels may be text of any length, compressed or not") {
  const ArrayFolder arrays;
  const std::vector<const char*> labels{"cat", "a_name_of_some_length", "hé", "cat", "x"};
  const TextType type{.characters = H5T_CSET_UTF8};
  for (const bool compressed : {false, true}) {
    arrays.write(with_labels(labels.size(), type, labels.data(), compressed));
    CHECK(arrays.labels() == std::vector<std::string>(labels.begin(), labels.end()));
  }
}

// ---- Rejected files

TEST_CASE("text labels that are not one word, or are too long, are rejected") {
  const ArrayFolder arrays;
  const std::string word = "expected one word";
  arrays.check_rejected(with_labels(2, TextType{3}, "catx\0y"), {"image 1", "x\\x00y", word});
  const std::string long_name(1001, 'x');
  const std::vector<const char*> labels{"x", long_name.c_str()}, none{"x", nullptr};
  arrays.check_rejected(with_labels(1, TextType{1001}, long_name.data()),
                        {"labels", "1001", "1000"});
  arrays.check_rejected(with_labels(2, TextType{}, labels.data()), {"labels", "1001", "1000"});
  arrays.check_rejected(with_labels(2, TextType{}, none.data()), {"image 1", "\"\"", word});
  const std::vector<const char*> longest{"x", long_name.c_str() + 1};
  arrays.write(with_labels(2, TextType{}, longest.data()));
  CHECK(arrays.labels().back() == std::string(1000, 'x'));
}

TEST_CASE("the error about an unsupported filter names the filter, and no plug-in is loaded") {
  const ArrayFolder arrays;
  const auto keep = [](unsigned, std::size_t, const unsigned*, std::size_t size, std::size_t*,
                       void**) { return size; };
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS, 32000, 1, 1, "lzf", nullptr, nullptr, keep};
  const auto fill = [&](hid_t file) {
    REQUIRE(H5Zregister(&filter) >= 0);
    const hdf5::PropertyList options = chunked({3, 1, 2}, false);
    REQUIRE(H5Pset_filter(options.get(), filter.id, H5Z_FLAG_OPTIONAL, 0, nullptr) >= 0);
    put<std::uint8_t>(file, "images", {3, 1, 2}, {0, 255, 51, 102, 153, 204}, options);
    put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
    REQUIRE(H5Zunregister(filter.id) >= 0);
  };
  arrays.check_rejected(fill, {"images: found the filter lzf", "with gzip or without compression"});
}

/// Creates a dataset whose type has no C++ counterpart. Writes no values.
void create_unwritten(hid_t file, const char* name, const hdf5::Datatype& type,
                      const Shape& shape) {
  hdf5::create(file, name, type.get(), shape, hdf5::allocated_early());
}

/// Creates `images` of one byte with a dataspace that is not an array.
void create_images_in(hid_t file, const hdf5::Dataspace& space) {
  put<std::int32_t>(file, "labels", {2}, {0, 1});
  const Dataset images(H5Dcreate2(file, "images", H5T_STD_U8LE, space.get(), H5P_DEFAULT,
                                  hdf5::allocated_early().get(), H5P_DEFAULT),
                       "create");
}

TEST_CASE("arrays of the wrong shape or type are rejected with the found and the expected type") {
  const ArrayFolder arrays;
  const auto images_as = [](const auto& make_type) {
    return [=](hid_t file) {
      put<std::int32_t>(file, "labels", {2}, {0, 1});
      create_unwritten(file, "images", make_type(), {2, 1, 2});
    };
  };
  const auto labels_as = [](const auto& make_type) {
    return [=](hid_t file) {
      put<float>(file, "images", {2, 1, 2}, {0, 0, 0, 0});
      create_unwritten(file, "labels", make_type(), {2});
    };
  };
  const std::string numbers = "expected integers or floating-point numbers";
  const std::vector<std::pair<Fill, std::vector<std::string>>> files{
      {images_as([] { return TextType{4}.make(); }), {"images: found text", numbers}},
      {images_as([] {
         hdf5::Datatype complex(H5Tcreate(H5T_COMPOUND, 8), "create");
         H5Tinsert(complex.get(), "r", 0, H5T_IEEE_F32LE);
         H5Tinsert(complex.get(), "i", 4, H5T_IEEE_F32LE);
         return complex;
       }),
       {"images: found structures", numbers}},
      {labels_as([] { return hdf5::Datatype(H5Tcopy(H5T_IEEE_F32LE), "copy"); }),
       {"labels: found float32", "expected integers or text"}},
      {labels_as([] { return hdf5::Datatype(H5Tvlen_create(H5T_STD_U8LE), "create"); }),
       {"labels: found an unsupported type", "expected integers or text"}},
      {labels_as([] {
         hdf5::Datatype large(H5Tcopy(H5T_STD_I64LE), "copy");
         H5Tset_size(large.get(), 16);
         return large;
       }),
       {"labels: found int128", "int64 or uint64"}},
      {[](hid_t file) {
         create_images_in(file, {H5Screate(H5S_NULL), "create"});
       },
       {"images: found no shape", "a scalar or an array"}},
      {[](hid_t file) {
         create_images_in(file, {H5Screate(H5S_SCALAR), "create"});
       },
       {"images of shape ()", "(n, 1, 2)"}},
  };
  for (const auto& [fill, words] : files) arrays.check_rejected(fill, words);
}

TEST_CASE(
    "missing arrays, links, groups and arrays stored in other files are rejected before they are "
    "read") {
  const ArrayFolder arrays;
  arrays.write(put_three);
  const std::string other = arrays.name("other.h5");
  std::filesystem::rename(arrays.name("train.h5"), other);
  const std::string link = "found a soft or external link, expected a dataset";
  const std::vector<std::pair<Fill, std::vector<std::string>>> files{
      {[](hid_t) {}, {"images: found nothing", "expected a dataset"}},
      {[](hid_t file) {
         put<float>(file, "images", {1, 1, 2}, {0, 0});
       },
       {"labels: found nothing", "expected a dataset"}},
      {[](hid_t file) { H5Lcreate_soft("/other", file, "images", H5P_DEFAULT, H5P_DEFAULT); },
       {"images: " + link}},
      {[](hid_t file) {
         const hdf5::Object group(H5Gcreate2(file, "images", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                                  "create");
       },
       {"images: found a group", "expected a dataset"}},
      {[&](hid_t file) {
         put<std::uint8_t>(file, "images", {3, 1, 2}, {0, 255, 51, 102, 153, 204});
         H5Lcreate_external(other.c_str(), "/labels", file, "labels", H5P_DEFAULT, H5P_DEFAULT);
       },
       {"labels: " + link}},
      {[&](hid_t file) {
         const hdf5::PropertyList options = hdf5::dataset_options();
         H5Pset_external(options.get(), other.c_str(), 0, 6);
         hdf5::create(file, "images", H5T_STD_U8LE, {3, 1, 2}, options);
         put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
       },
       {"images: found storage in other files"}},
      {[&](hid_t file) {
         const Shape shape{3, 1, 2};
         const hdf5::Dataspace space(H5Screate_simple(3, shape.data(), nullptr), "create");
         const hdf5::PropertyList options = hdf5::dataset_options();
         H5Pset_virtual(options.get(), space.get(), other.c_str(), "images", space.get());
         hdf5::create(file, "images", H5T_STD_U8LE, shape, options);
         put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
       },
       {"images: found virtual storage"}},
  };
  for (const auto& [fill, words] : files) arrays.check_rejected(fill, words);
}

TEST_CASE("unwritten, incomplete and damaged arrays are rejected") {
  const ArrayFolder arrays;
  const auto write_some = [](hid_t file) {
    const Dataset images =
        hdf5::create(file, "images", H5T_STD_U8LE, {5, 1, 2}, chunked({2, 1, 1}));
    const hdf5::Dataspace all(H5Dget_space(images.get()), "look at");
    const Shape begin{0, 0, 0}, count{4, 1, 2};
    H5Sselect_hyperslab(all.get(), H5S_SELECT_SET, begin.data(), nullptr, count.data(), nullptr);
    const std::vector<std::uint8_t> pixels(8);
    const hdf5::Dataspace some(H5Screate_simple(3, count.data(), nullptr), "create");
    REQUIRE(H5Dwrite(images.get(), H5T_NATIVE_UINT8, some.get(), all.get(), H5P_DEFAULT,
                     pixels.data()) >= 0);
  };
  const auto write_garbage = [](hid_t file) {
    const std::string garbage = "this was never compressed";
    const Dataset images =
        hdf5::create(file, "images", H5T_STD_U8LE, {3, 1, 2}, chunked({3, 1, 2}));
    const Shape begin{0, 0, 0};
    REQUIRE(H5Dwrite_chunk(images.get(), H5P_DEFAULT, 0, begin.data(), garbage.size(),
                           garbage.data()) >= 0);
    put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
  };
  arrays.check_rejected(
      [](hid_t file) {
        hdf5::create(file, "images", H5T_STD_U8LE, {hsize_t{1} << 60, 1, 2});
      },
      {"images: found 0 bytes stored", "uint8 (1152921504606846976, 1, 2)"});
  arrays.check_rejected(
      [](hid_t file) {
        hdf5::create(file, "images", H5T_STD_U8LE, {1'000'000'000'000, 1, 2}, chunked({10, 1, 2}));
      },
      {"images: found 0 chunks written", "100000000000"});
  arrays.check_rejected(write_some, {"images: found 4 chunks written", "the 6 of shape (5, 1, 2)"});
  arrays.check_rejected(write_garbage, {"HDF5 could not read images: "});
}

/// Replaces every run of these numbers in the bytes of a file.
void replace_all(std::vector<std::byte>& bytes, const std::vector<std::uint64_t>& numbers,
                 const std::vector<std::uint64_t>& by) {
  const auto old = std::as_bytes(std::span(numbers)), now = std::as_bytes(std::span(by));
  for (auto place = bytes.begin();
       (place = std::search(place, bytes.end(), old.begin(), old.end())) != bytes.end();) {
    place = std::ranges::copy(now, place).out;
  }
}

TEST_CASE("arrays that claim to be larger than their file allocate no memory") {
  const ArrayFolder arrays;
  std::vector<std::byte> bytes = hdf5::file_with([](hid_t file) {
    put<std::uint8_t>(file, "images", {77, 1, 2}, std::vector<std::uint8_t>(154, 7));
    put<std::int64_t>(file, "labels", {77}, std::vector<std::int64_t>(77, 7));
  });
  constexpr std::uint64_t many = std::uint64_t{1} << 40;
  replace_all(bytes, {77, 1, 2}, {many, 1, 2});
  replace_all(bytes, {77}, {many});       // number of labels, and the maximum sizes of both arrays
  replace_all(bytes, {154}, {2 * many});  // bytes of the images
  replace_all(bytes, {8 * 77}, {8 * many});  // bytes of the labels
  arrays.write(bytes);
  arrays.check_rejected({"found the end of the file inside `images`"});
}

TEST_CASE("compressed images beyond the memory of this machine are rejected before they are read") {
  const ArrayShape images{std::uint64_t{1} << 40, 28, 28}, labels{std::uint64_t{1} << 40};
  const ImageOptions options{.image_height = 28, .image_width = 28};
  try {
    const ImageArrays arrays({.images = "x.h5", .labels = "x.h5"}, images, labels, options);
    FAIL("not rejected");
  } catch (const MemoryError& error) {
    CHECK(test::contains(error.what(), "x.h5: found 1099511627776 images, which need 3.5"));
    CHECK(test::contains(error.what(), " GB of memory, expected at most "));
  }
}

TEST_CASE("files of other formats, and truncated HDF5 files, are rejected") {
  const ArrayFolder arrays;
  std::vector<std::byte> truncated = hdf5::file_with(put_three);
  truncated.resize(truncated.size() / 2);
  for (const auto& bytes :
       {std::vector<std::byte>(), std::vector<std::byte>(1000, std::byte{'x'}), truncated}) {
    arrays.write(bytes);
    arrays.check_rejected({"HDF5 could not open the file: "});
  }
}

}  // namespace
}  // namespace tapestry
