#include "train/storage/hdf5_checkpoint.h"

#include <doctest/doctest.h>

#include <functional>
#include <string>

#include "tests/train/hdf5_files.h"

namespace tapestry::hdf5 {
namespace {

/// What list_arrays says about such a file.
std::string refusal(const std::function<void(hid_t file)>& fill) {
  try {
    list_arrays(file_with(fill), RootAttributes::none);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST_CASE("a plain array made by other means is listed") {
  CHECK(refusal([](hid_t file) { add_good_array(file, "x"); }) == "accepted");
}

TEST_CASE("storage other than contiguous is refused") {
  const auto with_layout = [](H5D_layout_t layout) {
    return refusal([layout](hid_t file) {
      const PropertyList options = dataset_options();
      H5Pset_layout(options.get(), layout);
      const hsize_t chunk = 2;
      if (layout == H5D_CHUNKED) H5Pset_chunk(options.get(), 1, &chunk);
      add_digest(create(file, "x", H5T_IEEE_F32LE, {4}, options));
    });
  };
  const std::string expected =
      "x: found chunked, compact or virtual storage, expected contiguous storage";
  CHECK(with_layout(H5D_CHUNKED) == expected);
  CHECK(with_layout(H5D_COMPACT) == expected);
}

TEST_CASE("a virtual dataset is refused") {
  CHECK(refusal([](hid_t file) {
          const hsize_t size = 4;
          const Dataspace space(H5Screate_simple(1, &size, nullptr), "create");
          const PropertyList options = dataset_options();
          H5Pset_virtual(options.get(), space.get(), "/etc/passwd", "x", space.get());
          add_digest(create(file, "x", H5T_STD_U8LE, {4}, options));
        }).find("virtual storage") != std::string::npos);
}

TEST_CASE("an array in another file is refused") {
  CHECK(refusal([](hid_t file) {
          const PropertyList options = dataset_options();
          H5Pset_external(options.get(), "/etc/passwd", 0, 4);
          add_digest(create(file, "x", H5T_STD_U8LE, {4}, options));
        }) == "x: found storage in other files, expected storage in this one");
}

TEST_CASE("soft and external links are refused") {
  const std::string expected = "link: found a soft or external link, expected a hard link";
  CHECK(refusal([](hid_t file) { H5Lcreate_soft("/x", file, "link", H5P_DEFAULT, H5P_DEFAULT); }) ==
        expected);
  CHECK(refusal([](hid_t file) {
          REQUIRE(H5Lcreate_external("/tmp/other.h5", "/x", file, "link", H5P_DEFAULT,
                                     H5P_DEFAULT) >= 0);
        }) == expected);
}

TEST_CASE("an object with two links is refused, and so is a group that contains itself") {
  CHECK(refusal([](hid_t file) {
          add_good_array(file, "x");
          H5Lcreate_hard(file, "x", file, "y", H5P_DEFAULT, H5P_DEFAULT);
        }) == "x: found several links, expected one");
  CHECK(refusal([](hid_t file) {
          const Object group(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "g");
          H5Lcreate_hard(file, "g", group.get(), "again", H5P_DEFAULT, H5P_DEFAULT);
        }) == "g: found several links, expected one");
}

TEST_CASE("a file with more objects than allowed is refused, in one group or in many") {
  const auto flat = file_with([](hid_t file) {
    for (const char* name : {"x", "y", "z"}) add_good_array(file, name);
  });
  CHECK(list_arrays(flat, RootAttributes::none, 4).size() == 3);  // the root group is one
  CHECK_THROWS_WITH_AS(list_arrays(flat, RootAttributes::none, 3),
                       "HDF5 could not list the group '': iteration operator failed", Error);
  const auto nested = file_with([](hid_t file) {
    for (const char* name : {"g", "h"}) {
      const Object group(H5Gcreate2(file, name, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "create");
      add_good_array(group.get(), "x");
    }
  });
  CHECK(list_arrays(nested, RootAttributes::none, 5).size() == 2);
  CHECK_THROWS_WITH_AS(list_arrays(nested, RootAttributes::none, 3),
                       "h: found more objects, expected 3", Error);
}

void add_note(hid_t object) {
  const Dataspace scalar(H5Screate(H5S_SCALAR), "create");
  const Attribute attribute(
      H5Acreate2(object, "note", H5T_STD_U8LE, scalar.get(), H5P_DEFAULT, H5P_DEFAULT), "create");
}

TEST_CASE("attributes of a group, and of a root group without arrays, are refused") {
  CHECK(refusal(add_note) == "/: found attributes of the root group, expected none");
  CHECK(refusal([](hid_t file) {
          const Object group(H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
                             "create");
          add_note(group.get());
        }) == "g: found attributes of a group, expected none");
}

TEST_CASE("element types that are not stored are refused") {
  for (const hid_t type : {H5T_IEEE_F32BE, H5T_STD_I16LE, H5T_C_S1}) {
    CHECK(refusal([type](hid_t file) { add_digest(create(file, "x", type, {4})); }) ==
          "x: found another type, expected float32, float64, int32, int64, uint64 or uint8");
  }
}

TEST_CASE("arrays with too many axes or never stored are refused") {
  CHECK(refusal([](hid_t file) {
          add_digest(create(file, "x", H5T_STD_U8LE, std::vector<hsize_t>(9, 1)));
        }) == "x: found 9 axes, expected at most 8");
  CHECK(refusal([](hid_t file) {
          add_digest(create(file, "x", H5T_STD_U8LE, {1'000'000, 1'000'000, 1'000'000}));
        }) != "accepted");
}

TEST_CASE("a dataset without dataspace is refused") {
  CHECK(refusal([](hid_t file) {
          const Dataspace none(H5Screate(H5S_NULL), "create");
          add_digest(Dataset(H5Dcreate2(file, "x", H5T_STD_U8LE, none.get(), H5P_DEFAULT,
                                        H5P_DEFAULT, H5P_DEFAULT),
                             "create"));
        }) == "x: found no shape, expected a scalar or an array");
}

TEST_CASE("missing digests, and digests of another type, are refused") {
  CHECK(refusal([](hid_t file) { create(file, "x", H5T_STD_U8LE, {4}, allocated_early()); }) ==
        "x: found 0 attributes, expected one, the digest");
  CHECK(refusal([](hid_t file) {
          add_digest(create(file, "x", H5T_STD_U8LE, {4}, allocated_early()), H5T_STD_I64LE);
        }) == "x: found a digest of another type, expected a scalar uint64");
}

TEST_CASE("objects of other kinds, odd names and deep groups are refused") {
  CHECK(refusal([](hid_t file) {
          const Datatype type(H5Tcopy(H5T_STD_I32LE), "copy");
          H5Tcommit2(file, "t", type.get(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        }) == "t: found an object of another kind, expected a group or a dataset");
  CHECK(refusal([](hid_t file) { add_good_array(file, "a b"); }).find("the name 'a b'") !=
        std::string::npos);
  CHECK(refusal([](hid_t file) {
          std::string path;
          for (int depth = 1; depth <= 17; ++depth) {
            path += "/g";
            const Object group(
                H5Gcreate2(file, path.c_str(), H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT), "create");
          }
        }).find("groups nested deeper") != std::string::npos);
}

TEST_CASE("an invalid element type has no HDF5 type") {
  CHECK_THROWS_WITH_AS(file_type(ElementType{0}), "not an element type", Error);
}

TEST_CASE("bytes that are no HDF5 file are an error with HDF5's reason") {
  const std::vector<std::byte> zeros(2048);
  CHECK_THROWS_WITH_AS(list_arrays(zeros, RootAttributes::none),
                       "HDF5 could not open the file: file signature not found", Error);
}

}  // namespace
}  // namespace tapestry::hdf5
