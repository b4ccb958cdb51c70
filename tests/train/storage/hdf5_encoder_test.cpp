#include "train/storage/hdf5_encoder.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/train/hdf5_files.h"
#include "train/storage/hdf5_attributes.h"
#include "train/storage/hdf5_checkpoint.h"

/// libhdf5 judges what the encoder writes.
namespace tapestry::hdf5 {
namespace {

constexpr std::size_t user_block = 512;

/// Whether libhdf5 lists the arrays that encode() tells, with the bytes of the snapshot there.
void check_listed(const Snapshot& snapshot, std::size_t user_block_size = user_block) {
  const auto image = image_of(snapshot, user_block_size);
  const auto entries = list_arrays(image, RootAttributes::required);
  CHECK(entries == encode(snapshot, user_block_size).entries);
  REQUIRE(entries.size() == snapshot.size());
  std::size_t same = 0;
  for (const ArrayEntry& entry : entries) {
    const StoredArray& array = snapshot.at(entry.path);
    const auto bytes = std::span(image).subspan(entry.offset, entry.size);
    if (entry.type == array.type && entry.shape == array.shape &&
        entry.digest == array_digest(array.bytes) && std::ranges::equal(bytes, array.bytes)) {
      ++same;
    }
  }
  CHECK(same == snapshot.size());
}

TEST_CASE("libhdf5 lists the arrays that were written, in byte order of their paths") {
  Snapshot snapshot;
  snapshot.put<float>("a/x", std::array{1.0F, 2.0F}, {2, 1});
  snapshot.put_scalar<std::int64_t>("a.b", 3);
  snapshot.put<double>("z", {}, {0});
  const auto image = image_of(snapshot, user_block);
  const auto entries = list_arrays(image, RootAttributes::required);
  CHECK(entries == encode(snapshot, user_block).entries);
  REQUIRE(entries.size() == 3);
  CHECK(entries[0].path == "a.b");
  CHECK(entries[1].path == "a/x");
  CHECK(entries[1].shape == ArrayShape{2, 1});
  CHECK(entries[1].digest == array_digest(snapshot.at("a/x").bytes));
  CHECK(
      std::ranges::equal(std::span(image).subspan(entries[1].offset, 8), snapshot.at("a/x").bytes));
  CHECK(entries[2] ==
        ArrayEntry{
            .path = "z", .type = ElementType::float64, .shape = {0}, .digest = array_digest({})});
}

TEST_CASE("every element type is listed with every number of axes") {
  Snapshot snapshot;
  ArrayShape shape;
  for (std::size_t rank = 0; rank <= max_stored_rank; ++rank) {
    for (int type = 1; type <= element_type_count; ++type) {
      const auto element_type = static_cast<ElementType>(type);
      std::vector<std::byte> bytes(byte_count(shape, element_size(element_type)).value());
      std::ranges::fill(bytes, static_cast<std::byte>(type));
      snapshot.put(fmt::format("{}/{}", rank, element_type_name(element_type)),
                   StoredArray{element_type, shape, bytes});
    }
    shape.push_back(rank % 3 + 1);
  }
  check_listed(snapshot);
}

TEST_CASE("libhdf5 reads the numbers that were written") {
  Snapshot snapshot;
  snapshot.put_scalar<float>("f32", -1.5F);
  snapshot.put_scalar<double>("f64", 1e300);
  snapshot.put_scalar<std::int32_t>("i32", -7);
  snapshot.put_scalar<std::int64_t>("i64", -5'000'000'000);
  snapshot.put_scalar<std::uint64_t>("u64", ~std::uint64_t{0});
  snapshot.put_scalar<std::uint8_t>("u8", 200);
  const auto image = image_of(snapshot, user_block);
  const Session session;
  const File file = open_image(image);
  const Object root(H5Oopen(file.get(), "/", H5P_DEFAULT), "open");
  for (const auto& [name, expected] : std::vector<std::pair<std::string, double>>{
           {"f32", -1.5}, {"f64", 1e300}, {"i32", -7}, {"i64", -5e9}, {"u8", 200}}) {
    double value = 0.0;
    const Dataset dataset(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT), "open");
    REQUIRE(H5Dread(dataset.get(), H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, &value) >= 0);
    CHECK(value == expected);
    const Attribute attribute(H5Aopen(root.get(), name.c_str(), H5P_DEFAULT), "open");
    REQUIRE(H5Aread(attribute.get(), H5T_NATIVE_DOUBLE, &value) >= 0);
    CHECK(value == expected);
  }
  std::uint64_t most = 0;
  const Dataset dataset(H5Dopen2(file.get(), "u64", H5P_DEFAULT), "open");
  REQUIRE(H5Dread(dataset.get(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, &most) >= 0);
  CHECK(most == ~std::uint64_t{0});
}

TEST_CASE("groups of every size around that of a node of names or of a tree are found") {
  // 8 names in a node of symbols, 32 nodes in one of a tree, 32 of these in the next.
  for (const int count : {0, 1, 7, 8, 9, 255, 256, 257, 8'192, 8'193}) {
    CAPTURE(count);
    Snapshot snapshot;
    for (int i = 0; i < count; ++i) {
      snapshot.put<std::uint8_t>(fmt::format("g/{}", i), std::array{std::uint8_t{1}}, {1});
    }
    check_listed(snapshot);
    const auto image = image_of(snapshot, user_block);
    const Session session;
    const File file = open_image(image);
    int found = 0;
    for (int i = 0; i < count; ++i) {  // by name: down the tree, not along it
      if (H5Oexists_by_name(file.get(), fmt::format("g/{}", i).c_str(), H5P_DEFAULT) > 0) ++found;
    }
    CHECK(found == count);
    if (count == 0) continue;
    for (const char* absent : {"g/!", "g/0!", "g/77777!", "g/~"}) {
      CHECK(H5Lexists(file.get(), absent, H5P_DEFAULT) == 0);
    }
  }
}

TEST_CASE("names with bytes below the slash are in the search order of HDF5") {
  Snapshot snapshot;
  for (const char* path : {"a/x", "a.b", "a-b", "a!", "a0", "a.b.c/y/z", "a.b.c/y.z", "b/a/x"}) {
    snapshot.put_text(path, path);
  }
  check_listed(snapshot);
  const auto image = image_of(snapshot, user_block);
  const Session session;
  const File file = open_image(image);
  for (const auto& [path, array] : snapshot) {
    CHECK(H5Oexists_by_name(file.get(), path.c_str(), H5P_DEFAULT) > 0);
  }
}

TEST_CASE("the longest and deepest paths and names of every length are listed") {
  Snapshot snapshot;
  std::string deep = std::string(255, 'd');
  for (std::size_t depth = 1; depth < max_path_depth; ++depth) deep += '/' + std::string(255, 'e');
  snapshot.put_text(deep, "deep");
  for (std::size_t length = 1; length <= 255; ++length) {
    snapshot.put_text("names/" + std::string(length, 'n'), std::string(length, 't'));
  }
  check_listed(snapshot);
}

TEST_CASE("a user block of zeros, small or large, comes first") {
  for (const std::size_t size : {512, 8192}) {
    const auto image = image_of(Snapshot(), size);
    CHECK(std::ranges::count(std::span(image).first(size), std::byte{0}) ==
          static_cast<std::ptrdiff_t>(size));
    CHECK(image[size + 1] == std::byte{'H'});
    Snapshot snapshot;
    snapshot.put_text("t", "text");
    check_listed(snapshot, size);
  }
}

TEST_CASE("arrays are at multiples of 8 bytes before all headers") {
  Snapshot snapshot;
  for (std::size_t size = 0; size < 20; ++size) {
    snapshot.put_text(fmt::format("{:02}", size), std::string(size, 'x'));
  }
  const EncodedFile file = encode(snapshot, user_block);
  std::uint64_t end = user_block + file.superblock.size();
  for (const ArrayEntry& entry : file.entries) {
    if (entry.size == 0) continue;
    CHECK(entry.offset == end);
    end = (entry.offset + entry.size + 7) / 8 * 8;
  }
  CHECK(file.objects_offset == end);
}

TEST_CASE("no dataset carries a time, which would make equal images differ") {
  Snapshot snapshot;
  snapshot.put_text("g/x", "text");
  const auto image = image_of(snapshot, user_block);
  const Session session;
  const File file = open_image(image);
  for (const char* name : {"/", "g", "g/x"}) {
    H5O_info_t info{};
    REQUIRE(H5Oget_info_by_name2(file.get(), name, &info, H5O_INFO_TIME, H5P_DEFAULT) >= 0);
    CHECK(info.ctime == 0);
    CHECK(info.mtime == 0);
  }
}

TEST_CASE("libhdf5 can delete from a file, add to it and change it") {
  Snapshot snapshot;
  for (int i = 0; i < 300; ++i) snapshot.put_text(fmt::format("g/{}", i), "text");
  auto image = image_of(snapshot, user_block);
  H5close();
  const PropertyList access(H5Pcreate(H5P_FILE_ACCESS), "create");
  H5Pset_fapl_core(access.get(), 4096, 0);
  H5Pset_file_image(access.get(), image.data(), image.size());
  File file(H5Fopen(name_in_memory, H5F_ACC_RDWR, access.get()), "open");
  for (int i = 299; i >= 0; --i) {  // nodes of the tree become empty and leave it
    CHECK(H5Ldelete(file.get(), fmt::format("g/{}", i).c_str(), H5P_DEFAULT) >= 0);
  }
  for (int i = 0; i < 100; ++i) add_good_array(file.get(), fmt::format("g/new{}", i).c_str());
  const Object root(H5Oopen(file.get(), "g", H5P_DEFAULT), "open");
  add_digest(Dataset(H5Dopen2(file.get(), "g/new7", H5P_DEFAULT), "open"), H5T_STD_U64LE, "more");
  H5G_info_t info{};
  REQUIRE(H5Gget_info(root.get(), &info) >= 0);
  CHECK(info.nlinks == 100);
  CHECK(H5Fflush(file.get(), H5F_SCOPE_GLOBAL) >= 0);
}

TEST_CASE("arrays that HDF5 cannot store are refused") {
  Snapshot endless;
  endless.put<float>("x", {}, {0, ~std::uint64_t{0}});  // stands for an unlimited length
  CHECK_THROWS_WITH_AS(encode(endless, user_block),
                       "x: found an axis of 18446744073709551615, expected a shorter one", Error);
  Snapshot scalars;
  for (int i = 0; i < 65'000; ++i) scalars.put_scalar<std::uint8_t>(fmt::format("{}", i), 1);
  CHECK_NOTHROW(encode(scalars, user_block));
  scalars.put_scalar<std::uint8_t>("one.more", 1);
  CHECK_THROWS_WITH_AS(encode(scalars, user_block),
                       "/: found more texts and scalars, expected at most 65000", Error);
}

}  // namespace
}  // namespace tapestry::hdf5
