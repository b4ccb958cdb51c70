#include "train/storage/image_arrays.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <functional>
#include <new>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "tests/data/refusal.h"
#include "tests/train/few_descriptors.h"
#include "tests/train/hdf5_files.h"
#include "tests/train/temporary_folder.h"
#include "train/platform/child_process.h"
#include "train/tasks/data_source.h"

namespace tapestry {
namespace {

using hdf5::Dataset;
using tapestry::testing::contains;
using tapestry::testing::refusal;

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

template <class T>
void check_pixels_of_type() {
  ArrayFolder arrays;
  arrays.options.pixel_maximum = 4;
  arrays.write([](hid_t file) {
    put<T>(file, "images", {2, 1, 2}, {0, 1, 2, 3});
    put<std::uint8_t>(file, "labels", {2}, {0, 1});
  });
  const Corpus corpus = arrays.load();
  CHECK(corpus.train[0].pixels == std::vector<float>{0.0F, 0.25F});
  CHECK(corpus.train[1].pixels == std::vector<float>{0.5F, 0.75F});
}

TEST_CASE("pixels may be numbers of every type") {
  check_pixels_of_type<std::uint8_t>();
  check_pixels_of_type<std::int32_t>();
  check_pixels_of_type<std::int64_t>();
  check_pixels_of_type<std::uint64_t>();
  check_pixels_of_type<float>();
  check_pixels_of_type<double>();
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

TEST_CASE("a file that HDF5 does not survive is refused, and so is one if no process can look") {
  const ArrayFolder arrays;
  arrays.write(put_three);
  const std::string name = arrays.options.train_images;
  Corpus corpus;
  CHECK(refusal([&] {
          read_image_arrays_by(
              [](std::span<const std::byte>) -> std::string { throw NotContained("it crashed"); },
              "data.train_images", name, arrays.options, corpus);
        }) == name + ": HDF5 could not look at it: it crashed");
  CHECK_THROWS_AS(read_image_arrays_by(
                      [](std::span<const std::byte>) -> std::string { throw std::bad_alloc(); },
                      "data.train_images", name, arrays.options, corpus),
                  std::bad_alloc);
#if !defined(TAPESTRY_ASAN)  // which opens descriptors of its own to look at an exception
  const test::FewDescriptors for_the_file_alone(1);
  CHECK(refusal([&] { arrays.load(); }) ==
        name + ": no process could be started to look at it: Too many open files");
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
  }) == "found labels of float32, expected whole numbers");
  CHECK(arrays.message([](hid_t file) {
    put<float>(file, "images", {2, 1, 2}, {0, 0, NAN, 0});
    put<std::int32_t>(file, "labels", {2}, {0, 1});
  }) == "image 1: found nan, expected a finite number");
  CHECK(arrays.message([](hid_t file) {
    put<std::int32_t>(file, "labels", {2}, {0, 1});
    hdf5::create(file, "images", H5T_STD_I16LE, {2, 1, 2});
  }) == "images: found another type, expected float32, float64, int32, int64, uint64 or uint8");
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

TEST_CASE("arrays in chunks, in other files or never written are refused") {
  const ArrayFolder arrays;
  CHECK(arrays.message([](hid_t file) {
    const hdf5::PropertyList options = hdf5::dataset_options();
    const hsize_t chunk[] = {1, 1, 2};
    H5Pset_chunk(options.get(), 3, chunk);
    H5Pset_deflate(options.get(), 6);
    hdf5::create(file, "images", H5T_STD_U8LE, {3, 1, 2}, options);
  }) == "images: found chunked, compact or virtual storage, expected contiguous storage");
  CHECK(arrays.message([](hid_t file) {
    const hdf5::PropertyList options = hdf5::dataset_options();
    H5Pset_external(options.get(), "/etc/passwd", 0, 6);
    hdf5::create(file, "images", H5T_STD_U8LE, {3, 1, 2}, options);
  }) == "images: found storage in other files, expected storage in this one");
  CHECK(arrays.message([](hid_t file) {
    hdf5::create(file, "images", H5T_STD_U8LE, {hsize_t{1} << 60, 1, 2});
  }) == "images: found 0 bytes stored, expected those of uint8 (1152921504606846976, 1, 2)");
}

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
  const std::vector<std::byte> good = hdf5::file_with(put_three);
  std::mt19937 random(1);
  std::size_t accepted = 0, refused = 0;
  for (int i = 0; i < 200; ++i) {
    std::vector<std::byte> bytes = good;
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

TEST_CASE("without a reader for arrays only tables are read") {
  const ArrayFolder arrays;
  arrays.write(put_three);
  CHECK(refusal([&] { load_images(arrays.options, {.validation = 0, .test = 0}, "."); }) ==
        arrays.options.train_images +
            ": found an HDF5 file, which cannot be read here, expected a table");
}

}  // namespace
}  // namespace tapestry
