#include "train/storage/hdf5_images.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/data/refusal.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/few_descriptors.h"
#include "tests/train/hdf5_files.h"
#include "train/tasks/data_source.h"

namespace tapestry {
namespace {

using hdf5::Dataset;
using tapestry::test::contains;
using tapestry::test::refusal;

using Shape = std::vector<hsize_t>;
using Fill = std::function<void(hid_t file)>;

template <class T>
hid_t type_of() {
  return hdf5::file_type(element_type_of<T>);
}

/// An array of a file, stored as h5py does.
template <class T>
void put(hid_t file, const char* name, const Shape& shape, const std::vector<T>& values) {
  const Dataset dataset = hdf5::create(file, name, type_of<T>(), shape);
  REQUIRE(H5Dwrite(dataset.get(), type_of<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
}

/// Three images of 1 x 2 pixels in two classes.
void put_three(hid_t file) {
  put<std::uint8_t>(file, "images", {3, 1, 2}, {0, 255, 51, 102, 153, 204});
  put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
}

struct ArrayFolder {
  ArrayFolder() {
    options.task = "images";
    options.train_images = (folder.path() / "train.h5").string();
    options.image_height = 1;
    options.image_width = 2;
    options.validation_size = options.test_size = 0;
  }

  void write(const Fill& fill) const { write_bytes(hdf5::file_with(fill)); }
  void write_bytes(const std::vector<std::byte>& bytes) const {
    std::ofstream file(options.train_images, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  Corpus load() const { return load_corpus(options); }

  /// What is said of such a file, without its name.
  std::string message(const Fill& fill) const {
    write(fill);
    const std::string text = refusal([this] { load(); });
    REQUIRE(text.starts_with(options.train_images + ": "));
    return text.substr(options.train_images.size() + 2);
  }

  test::TemporaryFolder folder;
  DataOptions options;
};

TEST_CASE("images and labels of an HDF5 file are those of the table that says the same") {
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
  CHECK(table.load().fingerprint == corpus.fingerprint);
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
    CHECK(load_stored_as(type, 0).fingerprint == expected.fingerprint);
    if (type < integer_types) CHECK(load_stored_as(0, type).fingerprint == expected.fingerprint);
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

TEST_CASE("no value loses digits on its way: it is divided as a float64") {
  CHECK(first_pixel<std::int32_t>(16'777'217, 16'777'217) == 1.0F);  // 2^24 + 1 is no float32
  CHECK(first_pixel<std::int64_t>(-(std::int64_t{1} << 52) - 1, 9007199254740994.0) == -0.5F);
  CHECK(first_pixel<std::uint64_t>(std::uint64_t{1} << 63, 0x1p63) == 1.0F);
  CHECK(first_pixel<double>(1e300, 1e300) == 1.0F);
  CHECK(first_pixel<float>(0.1F, 3.0) == static_cast<float>(static_cast<double>(0.1F) / 3.0));
}

TEST_CASE("negative pixels stay negative, whatever the size of their integers") {
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

TEST_CASE("integers as labels keep all their digits and their sign") {
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

// ---- Labels that are text.

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

TEST_CASE("labels may be text of a fixed length, however it is filled up") {
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

TEST_CASE("text that can name no class is refused with the index of its image") {
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

// ---- Chunks and filters.

/// Options of a dataset as h5py makes it with chunks=..., and compression="gzip" if it is said.
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

template <class T>
void put_with(hid_t file, const char* name, const Shape& shape, const std::vector<T>& values,
              const hdf5::PropertyList& options) {
  const Dataset dataset = hdf5::create(file, name, type_of<T>(), shape, options);
  REQUIRE(H5Dwrite(dataset.get(), type_of<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
}

TEST_CASE("chunks of any shape, compressed or not, are the images of an array in one piece") {
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
        put_with(file, "images", {count, 6, 5, 2}, pixels, chunked(chunk, gzip));
        put_with(file, "labels", {count}, labels, chunked({13}, gzip));
      });
      CHECK(arrays.load().fingerprint == expected.fingerprint);
    }
  }
}

TEST_CASE("an array of several megabytes is read whole") {
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
      put_with(file, "images", {count, 32, 32}, pixels,
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
    put_with<std::uint8_t>(file, "images", {2, 1, 2}, {0, 255, 51, 102}, options);
    put_with<std::int64_t>(file, "labels", {2}, {1, 2}, options);
  });
  CHECK(arrays.load().train[1].pixels == std::vector<float>{0.2F, 0.4F});
}

TEST_CASE("a filter that libhdf5 does not have is refused by its name, and no plug-in is loaded") {
  const ArrayFolder arrays;
  constexpr H5Z_filter_t lzf = 32000;
  const auto with_filter = [&](const H5Z_class2_t& filter) {
    return [&filter](hid_t file) {
      REQUIRE(H5Zregister(&filter) >= 0);
      const hdf5::PropertyList options = chunked({3, 1, 2}, false);
      REQUIRE(H5Pset_filter(options.get(), filter.id, H5Z_FLAG_OPTIONAL, 0, nullptr) >= 0);
      put_with<std::uint8_t>(file, "images", {3, 1, 2}, {0, 255, 51, 102, 153, 204}, options);
      put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
      REQUIRE(H5Zunregister(filter.id) >= 0);
    };
  };
  const auto keep = [](unsigned, std::size_t, const unsigned*, std::size_t size, std::size_t*,
                       void**) { return size; };
  const H5Z_class2_t like_h5py{H5Z_CLASS_T_VERS, lzf, 1, 1, "lzf", nullptr, nullptr, keep};
  const H5Z_class2_t nameless{H5Z_CLASS_T_VERS, 32015, 1, 1, nullptr, nullptr, nullptr, keep};
  CHECK(arrays.message(with_filter(like_h5py)) ==
        "images: found the filter lzf (32000), expected gzip, shuffle or none");
  CHECK(contains(tapestry::test::hint_of([&] { arrays.load(); }),
                 "with gzip or without compression"));
  CHECK(arrays.message(with_filter(nameless)) ==
        "images: found the filter 32015, expected gzip, shuffle or none");
}

TEST_CASE("channels are the last axis, which one channel may lack") {
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
  arrays.options.test_size = 1;
  arrays.write([](hid_t file) {
    put<float>(file, "images", {4, 1, 2}, std::vector<float>(8, 0.5F));
    put<std::int32_t>(file, "labels", {4}, {0, 1, 0, 1});
  });
  const Corpus corpus = arrays.load();
  CHECK(corpus.train.size() == 3);
  CHECK(corpus.test.size() == 1);
}

TEST_CASE("a test image of a class that no training image has is named by its index") {
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

TEST_CASE("a file is refused if no process can be started to look at it") {
#if !defined(TAPESTRY_ASAN)  // which opens descriptors of its own to look at an exception
  const ArrayFolder arrays;
  arrays.write(put_three);
  const test::FewDescriptors for_the_file_alone(1);
  CHECK(refusal([&] { arrays.load(); }) ==
        arrays.options.train_images +
            ": cannot start the process that reads it: Too many open files");
#endif
}

TEST_CASE("arrays of other shapes and types are refused with both") {
  const ArrayFolder arrays;
  CHECK(arrays.message([](hid_t file) {
    put<float>(file, "images", {1, 2, 2}, {0, 0, 0, 0});
    put<std::int32_t>(file, "labels", {1}, {0});
  }) == "found images of shape (1, 2, 2), expected (n, 1, 2)");
  CHECK(arrays.message([](hid_t file) {
    put<float>(file, "images", {2, 1, 2}, {0, 0, 0, 0});
    put<std::int32_t>(file, "labels", {3}, {0, 1, 2});
  }) == "found labels of shape (3), expected (2), one for each image");
  CHECK(arrays.message([](hid_t file) {
    put<float>(file, "images", {2, 1, 2}, {0, 0, 0, 0});
    put<float>(file, "labels", {2}, {0, 1});
  }) == "labels: found float32, expected integers or text");
  CHECK(arrays.message([](hid_t file) {
    put<float>(file, "images", {2, 1, 2}, {0, 0, NAN, 0});
    put<std::int32_t>(file, "labels", {2}, {0, 1});
  }) == "image 1: found nan, expected a finite number");
  CHECK(arrays.message([](hid_t file) {
    put<std::int32_t>(file, "labels", {2}, {0, 1});
    hdf5::create(file, "images", TextType{4}.make().get(), {2, 1, 2}, hdf5::allocated_early());
  }) == "images: found text, expected integers or floating-point numbers");
  CHECK(arrays.message([](hid_t file) {
    put<std::int32_t>(file, "labels", {2}, {0, 1});
    const hdf5::Datatype complex(H5Tcreate(H5T_COMPOUND, 8), "create");
    H5Tinsert(complex.get(), "r", 0, H5T_IEEE_F32LE);
    H5Tinsert(complex.get(), "i", 4, H5T_IEEE_F32LE);
    hdf5::create(file, "images", complex.get(), {2, 1, 2}, hdf5::allocated_early());
  }) == "images: found structures, expected integers or floating-point numbers");
  CHECK(arrays.message([](hid_t file) {
    put<float>(file, "images", {2, 1, 2}, {0, 0, 0, 0});
    const hdf5::Datatype list(H5Tvlen_create(H5T_STD_U8LE), "create");
    hdf5::create(file, "labels", list.get(), {2}, hdf5::allocated_early());
  }) == "labels: found another type, expected integers or text");
  CHECK(arrays.message([](hid_t file) {
    put<float>(file, "images", {2, 1, 2}, {0, 0, 0, 0});
    const hdf5::Datatype large(H5Tcopy(H5T_STD_I64LE), "copy");
    H5Tset_size(large.get(), 16);
    hdf5::create(file, "labels", large.get(), {2}, hdf5::allocated_early());
  }) == "labels: found int128, expected int64 or uint64");
  CHECK(arrays.message([](hid_t file) {
    put<std::int32_t>(file, "labels", {2}, {0, 1});
    const hdf5::Dataspace none(H5Screate(H5S_NULL), "create");
    const Dataset images(
        H5Dcreate2(file, "images", H5T_STD_U8LE, none.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        "create");
  }) == "images: found no shape, expected a scalar or an array");
  CHECK(arrays.message([](hid_t file) {
    put<std::int32_t>(file, "labels", {2}, {0, 1});
    const hdf5::Dataspace scalar(H5Screate(H5S_SCALAR), "create");
    const Dataset images(H5Dcreate2(file, "images", H5T_STD_U8LE, scalar.get(), H5P_DEFAULT,
                                    hdf5::allocated_early().get(), H5P_DEFAULT),
                         "create");
  }) == "found images of shape (), expected (n, 1, 2)");
  CHECK(arrays.message([](hid_t file) {
    put<std::uint8_t>(file, "images", {0, 1, 2}, {});
    put<std::uint8_t>(file, "labels", {0}, {});
  }) == "found no image, expected one or more");
}

TEST_CASE("a file without the two arrays is refused, and so is what only looks like them") {
  const ArrayFolder arrays;
  CHECK(arrays.message([](hid_t) {}) == "images: found nothing, expected a dataset of that name");
  CHECK(arrays.message([](hid_t file) {
    put<float>(file, "images", {1, 1, 2}, {0, 0});
  }) == "labels: found nothing, expected a dataset of that name");
  CHECK(arrays.message([](hid_t file) {
    H5Lcreate_soft("/other", file, "images", H5P_DEFAULT, H5P_DEFAULT);
  }) == "images: found a soft or external link, expected a dataset");
  CHECK(arrays.message([](hid_t file) {
    H5Lcreate_external("/tmp/other.h5", "/x", file, "images", H5P_DEFAULT, H5P_DEFAULT);
  }) == "images: found a soft or external link, expected a dataset");
  CHECK(arrays.message([](hid_t file) {
    const hdf5::Object group(H5Gcreate2(file, "images", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                             "create");
  }) == "images: found a group, expected a dataset");
}

TEST_CASE("arrays in other files are refused, and these are not read") {
  const ArrayFolder arrays;
  const std::string other = (arrays.folder.path() / "other.h5").string();
  const auto bytes = hdf5::file_with(put_three);
  std::ofstream(other, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  CHECK(arrays.message([&](hid_t file) {
    const hdf5::PropertyList options = hdf5::dataset_options();
    H5Pset_external(options.get(), other.c_str(), 0, 6);
    hdf5::create(file, "images", H5T_STD_U8LE, {3, 1, 2}, options);
    put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
  }) == "images: found storage in other files, expected storage in this one");
  CHECK(arrays.message([&](hid_t file) {
    const Shape shape{3, 1, 2};
    const hdf5::Dataspace space(H5Screate_simple(3, shape.data(), nullptr), "create");
    const hdf5::PropertyList options = hdf5::dataset_options();
    H5Pset_virtual(options.get(), space.get(), other.c_str(), "images", space.get());
    hdf5::create(file, "images", H5T_STD_U8LE, shape, options);
    put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
  }) == "images: found virtual storage, expected storage in this file");
  CHECK(arrays.message([&](hid_t file) {
    put<std::uint8_t>(file, "images", {3, 1, 2}, {0, 255, 51, 102, 153, 204});
    H5Lcreate_external(other.c_str(), "/labels", file, "labels", H5P_DEFAULT, H5P_DEFAULT);
  }) == "labels: found a soft or external link, expected a dataset");
}

TEST_CASE("arrays that were never written, or not whole, are refused") {
  const ArrayFolder arrays;
  CHECK(arrays.message([](hid_t file) {
    hdf5::create(file, "images", H5T_STD_U8LE, {hsize_t{1} << 60, 1, 2});
  }) == "images: found 0 bytes stored, expected those of uint8 (1152921504606846976, 1, 2)");
  CHECK(arrays.message([](hid_t file) {
    hdf5::create(file, "images", H5T_STD_U8LE, {1'000'000'000'000, 1, 2}, chunked({10, 1, 2}));
  }) == "images: found 0 chunks written, expected the 100000000000 of shape (1000000000000, 1, 2)");
  CHECK(arrays.message([](hid_t file) {
    const Dataset images =
        hdf5::create(file, "images", H5T_STD_U8LE, {5, 1, 2}, chunked({2, 1, 1}));
    const hdf5::Dataspace all(H5Dget_space(images.get()), "look at");
    const Shape begin{0, 0, 0}, count{4, 1, 2};
    H5Sselect_hyperslab(all.get(), H5S_SELECT_SET, begin.data(), nullptr, count.data(), nullptr);
    const std::vector<std::uint8_t> pixels(8);
    const hdf5::Dataspace some(H5Screate_simple(3, count.data(), nullptr), "create");
    REQUIRE(H5Dwrite(images.get(), H5T_NATIVE_UINT8, some.get(), all.get(), H5P_DEFAULT,
                     pixels.data()) >= 0);
  }) == "images: found 4 chunks written, expected the 6 of shape (5, 1, 2)");
}

TEST_CASE("a damaged chunk is refused") {
  const ArrayFolder arrays;
  const std::string garbage = "this was never compressed";
  CHECK(contains(arrays.message([&](hid_t file) {
    const Dataset images =
        hdf5::create(file, "images", H5T_STD_U8LE, {3, 1, 2}, chunked({3, 1, 2}));
    const Shape begin{0, 0, 0};
    REQUIRE(H5Dwrite_chunk(images.get(), H5P_DEFAULT, 0, begin.data(), garbage.size(),
                           garbage.data()) >= 0);
    put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
  }),
                 "HDF5 could not read images: "));
}

#if !defined(TAPESTRY_ASAN) && !defined(TAPESTRY_TSAN)  // which take memory as they like
/// Zeros as gzip packs them best: a byte in a block of fixed codes, then runs of 258 bytes. The
/// checksum at the end is missing.
std::vector<std::uint8_t> packed_zeros(std::uint64_t count) {
  std::vector<std::uint8_t> packed{0x78, 0x9C};
  unsigned bits = 0, used = 0;
  const auto append = [&](unsigned code, unsigned length) {  // its first bit is the lowest
    bits |= code << used;
    for (used += length; used >= 8; used -= 8, bits >>= 8U) {
      packed.push_back(static_cast<std::uint8_t>(bits));
    }
  };
  append(0b011, 3);       // the last block, with fixed codes
  append(0b00001100, 8);  // the byte 0
  for (std::uint64_t i = 1; i < count; i += 258) append(0b10100011, 13);  // 258 bytes like the last
  append(0, 7 + 8);
  return packed;
}

TEST_CASE("a chunk that expands to more than its file warrants is refused") {
  const ArrayFolder arrays;
  constexpr std::uint64_t rows = 400 << 20;
  const std::vector<std::uint8_t> bomb = packed_zeros(2 * rows);
  REQUIRE(bomb.size() < 6'000'000);
  const std::string text = arrays.message([&](hid_t file) {
    const Shape shape{3, 1, 2}, most{H5S_UNLIMITED, 1, 2}, begin{0, 0, 0};
    const hdf5::PropertyList options = hdf5::dataset_options();
    const Shape chunk{rows, 1, 2};
    H5Pset_chunk(options.get(), 3, chunk.data());
    H5Pset_deflate(options.get(), 9);
    const hdf5::Dataspace space(H5Screate_simple(3, shape.data(), most.data()), "create");
    const Dataset images(H5Dcreate2(file, "images", H5T_STD_U8LE, space.get(), H5P_DEFAULT,
                                    options.get(), H5P_DEFAULT),
                         "create");
    REQUIRE(H5Dwrite_chunk(images.get(), H5P_DEFAULT, 0, begin.data(), bomb.size(), bomb.data()) >=
            0);
    put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
  });
  const bool refused =
      text.starts_with("HDF5 could not ") || text.find("memory") != std::string::npos;
  CHECK_MESSAGE(refused, text);
}
#endif

/// Replaces every run of these numbers, as a file has them.
void replace_all(std::vector<std::byte>& bytes, const std::vector<std::uint64_t>& numbers,
                 const std::vector<std::uint64_t>& by) {
  const auto old = std::as_bytes(std::span(numbers)), now = std::as_bytes(std::span(by));
  for (auto place = bytes.begin();
       (place = std::search(place, bytes.end(), old.begin(), old.end())) != bytes.end();) {
    place = std::ranges::copy(now, place).out;
  }
}

TEST_CASE("arrays that claim to be larger than their file take no memory") {
  const ArrayFolder arrays;
  std::vector<std::byte> bytes = hdf5::file_with([](hid_t file) {
    put<std::uint8_t>(file, "images", {77, 1, 2}, std::vector<std::uint8_t>(154, 7));
    put<std::int64_t>(file, "labels", {77}, std::vector<std::int64_t>(77, 7));
  });
  constexpr std::uint64_t many = std::uint64_t{1} << 40;
  replace_all(bytes, {77, 1, 2}, {many, 1, 2});
  replace_all(bytes, {77}, {many});          // labels, and the largest extents of both
  replace_all(bytes, {154}, {2 * many});     // bytes of images
  replace_all(bytes, {8 * 77}, {8 * many});  // of labels
  arrays.write_bytes(bytes);
  CHECK(contains(refusal([&] { arrays.load(); }), ": found the end of the file inside `images`"));
}

TEST_CASE("what is no HDF5 file, or only the front of one, is refused") {
  const ArrayFolder arrays;
  std::vector<std::byte> bytes = hdf5::file_with(put_three);
  const auto refused = [&] { return refusal([&] { arrays.load(); }); };
  arrays.write_bytes({});
  CHECK(contains(refused(), ": HDF5 could not open the file: "));
  arrays.write_bytes(std::vector<std::byte>(1000, std::byte{'x'}));
  CHECK(contains(refused(), "HDF5 could not open the file"));
  bytes.resize(bytes.size() / 2);
  arrays.write_bytes(bytes);
  CHECK(contains(refused(), ": HDF5 could not open the file: "));
}

TEST_CASE("a file with altered bytes gives images or a refusal, never a crash") {
  const ArrayFolder arrays;
  const std::vector<std::byte>
      plain = hdf5::file_with(put_three),
      compressed = hdf5::file_with([](hid_t file) {
        put_with<std::uint8_t>(file, "images", {3, 1, 2}, {0, 255, 51, 102, 153, 204},
                               chunked({2, 1, 2}));
        put_with<std::int64_t>(file, "labels", {3}, {7, 3, 7}, chunked({2}));
      });
  std::mt19937 random(1);
  std::size_t accepted = 0, refused = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<std::byte> bytes = i % 2 == 0 ? plain : compressed;
    for (int change = 0; change < 3; ++change) {
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    }
    arrays.write_bytes(bytes);
    try {
      const Corpus corpus = arrays.load();
      CHECK(corpus.train.size() == 3);
      ++accepted;
    } catch (const DataError&) {
      ++refused;
    }
  }
  CHECK(accepted > 0);
  CHECK(refused > 0);
}

TEST_CASE("without a reader for HDF5 its files are refused") {
  const ArrayFolder arrays;
  arrays.write(put_three);
  CHECK(refusal([&] { load_images(arrays.options, {.validation = 0, .test = 0}, "."); }) ==
        arrays.options.train_images +
            ": found an HDF5 file, which cannot be read here, expected a table");
}

}  // namespace
}  // namespace tapestry
