#include "train/storage/hdf5_attributes.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/train/hdf5_files.h"
#include "train/storage/hdf5_checkpoint.h"

namespace tapestry::hdf5 {
namespace {

constexpr std::size_t user_block = 512;

/// A snapshot with arrays that have attributes and arrays that have none.
Snapshot several() {
  Snapshot snapshot;
  snapshot.put_text("config", "data:\n  task: copy \u00e4\n");
  snapshot.put_text("empty", "");
  snapshot.put_text("group/longest", std::string(largest_text_attribute, 'x'));
  snapshot.put_text("too_long", std::string(largest_text_attribute + 1, 'x'));
  snapshot.put_text("no_text", "\xff");
  snapshot.put_text("with_nul", std::string("a\0b", 3));
  snapshot.put_scalar<std::uint64_t>("train/step", 1234);
  snapshot.put_scalar<double>("train/best_loss", 0.25);
  snapshot.put<float>("weights", std::vector<float>(3), {3});
  return snapshot;
}

/// The value of a string attribute of the root group.
std::string text_attribute(std::span<const std::byte> image, const std::string& name) {
  const Session session;
  const File file = open_image(image);
  const Attribute attribute(H5Aopen(file.get(), name.c_str(), H5P_DEFAULT), "open", name);
  const Datatype type(H5Aget_type(attribute.get()), "look at", name);
  std::string value(H5Tget_size(type.get()), '?');
  require(H5Aread(attribute.get(), type.get(), value.data()), "read", name);
  return value;
}

TEST_CASE("texts and single numbers of a snapshot are attributes that HDF5 programs can show") {
  const auto image = image_of(several(), user_block);
  CHECK(text_attribute(image, "config") == "data:\n  task: copy \u00e4\n");
  CHECK(text_attribute(image, "empty") == std::string(1, '\0'));
  CHECK(text_attribute(image, "group/longest").size() == largest_text_attribute);
  const Session session;
  const File file = open_image(image);
  CHECK(count_attributes(file) == 5);
  const Attribute step(H5Aopen(file.get(), "train/step", H5P_DEFAULT), "open");
  std::uint64_t value = 0;
  require(H5Aread(step.get(), H5T_STD_U64LE, &value), "read");
  CHECK(value == 1234);
}

TEST_CASE("a file whose attributes are missing or not expected is refused") {
  const auto image = image_of(several(), user_block);
  CHECK_THROWS_WITH_AS(list_arrays(image, RootAttributes::none),
                       "/: found attributes of the root group, expected none", Error);
  CHECK_NOTHROW(list_arrays(image, RootAttributes::required));
}

TEST_CASE("an attribute that is not a copy of its array is refused") {
  auto image = image_of(several(), user_block);
  const std::string_view text = "task: copy";
  // The text stands in the file twice: in the dataset and in the attribute.
  std::size_t found = 0;
  for (std::size_t i = 0; i + text.size() <= image.size(); ++i) {
    if (std::memcmp(image.data() + i, text.data(), text.size()) != 0) continue;
    auto altered = image;
    altered[i] = std::byte{'m'};
    CHECK_THROWS_WITH_AS(list_arrays(altered, RootAttributes::required),
                         "config: found an attribute of another value, expected that of its array",
                         Error);
    ++found;
  }
  CHECK(found == 2);
}

TEST_CASE("equal snapshots with attributes give equal bytes") {
  CHECK(image_of(several(), user_block) == image_of(several(), user_block));
}

}  // namespace
}  // namespace tapestry::hdf5
