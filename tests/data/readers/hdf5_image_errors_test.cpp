#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <span>
#include <string>
#include <vector>

#include "tests/data/readers/hdf5_images.h"

/// HDF5 image files that are rejected.
namespace tapestry {
namespace {

using hdf5::Dataset;
using test::ArrayFolder;
using test::chunked;
using test::contains;
using test::put;
using test::put_three;
using test::refusal;
using test::Shape;
using test::TextType;

TEST_CASE("a filter that libhdf5 does not have is named, and no plug-in is loaded") {
  const ArrayFolder arrays;
  const auto keep = [](unsigned, std::size_t, const unsigned*, std::size_t size, std::size_t*,
                       void**) { return size; };
  const H5Z_class2_t filter{H5Z_CLASS_T_VERS, 32000, 1, 1, "lzf", nullptr, nullptr, keep};
  const std::string message = arrays.message([&](hid_t file) {
    REQUIRE(H5Zregister(&filter) >= 0);
    const hdf5::PropertyList options = chunked({3, 1, 2}, false);
    REQUIRE(H5Pset_filter(options.get(), filter.id, H5Z_FLAG_OPTIONAL, 0, nullptr) >= 0);
    put<std::uint8_t>(file, "images", {3, 1, 2}, {0, 255, 51, 102, 153, 204}, options);
    put<std::int64_t>(file, "labels", {3}, {7, 3, 7});
    REQUIRE(H5Zunregister(filter.id) >= 0);
  });
  CHECK(contains(message, "images: found the filter lzf"));
  CHECK(contains(tapestry::test::hint_of([&] { arrays.load(); }),
                 "with gzip or without compression"));
}

TEST_CASE("arrays of other shapes and types are refused with found and expected") {
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

TEST_CASE("files without the two arrays, or with other objects of their names, are refused") {
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

TEST_CASE("arrays in other files are refused, and the files are not read") {
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

TEST_CASE("arrays that were never written, or not completely, are refused") {
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

/// Replaces every run of these numbers, as a file has them.
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
  replace_all(bytes, {77}, {many});          // labels, and the largest extents of both
  replace_all(bytes, {154}, {2 * many});     // bytes of images
  replace_all(bytes, {8 * 77}, {8 * many});  // of labels
  arrays.write_bytes(bytes);
  CHECK(contains(refusal([&] { arrays.load(); }), ": found the end of the file inside `images`"));
}

TEST_CASE("other files, and truncated HDF5 files, are refused") {
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

}  // namespace
}  // namespace tapestry
