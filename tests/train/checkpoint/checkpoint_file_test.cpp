// SPDX-License-Identifier: BSD-3-Clause
#include "train/checkpoint/checkpoint_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <string>

#include "data/io/file.h"
#include "tests/support/contains.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/hdf5_files.h"
#include "tests/support/temporary_folder.h"
#include "train/base/error.h"

namespace tapestry {
namespace {

using test::contains;
using test::FaultyFileSystem;
using test::TemporaryFolder;
using Bytes = std::vector<std::byte>;

constexpr std::size_t block_size = 512;  // size of the user block, see format.md

ArrayStore every_type() {
  ArrayStore arrays;
  arrays.put<float>("parameters/encoder.layers.0.weight", std::array{1.5F, -0.0F}, {2, 1});
  arrays.put<double>("optimizer/f64", std::array{0.1, 1e300}, {2});
  arrays.put<std::int32_t>("i32", std::array{-1}, {1, 1, 1, 1, 1, 1, 1, 1});
  arrays.put<std::int64_t>("i64", std::array<std::int64_t, 2>{-1, 5'000'000'000}, {2});
  arrays.put_scalar<std::uint64_t>("progress/step", ~std::uint64_t{0});
  arrays.put_scalar<std::uint8_t>("byte", 7);
  arrays.put_text("config", "seed: 1\n");
  arrays.put_text("empty", "");
  arrays.put_text("nul", std::string(1, '\0'));
  arrays.put_text("no_utf8", "\xFF\xFE");
  arrays.put_text("words", "h\xC3\xA9\n");
  arrays.put<float>("no/elements", {}, {0, 3});
  return arrays;
}

ArrayStore small() {
  ArrayStore arrays;
  arrays.put<float>("w", std::array{1.0F, 2.0F}, {2});
  arrays.put_text("t", "text");
  return arrays;
}

Bytes read_bytes(const std::filesystem::path& path) { return read_binary_file(path).bytes; }

template <class T>
void store(Bytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

/// Updates the checksum of an altered user block.
void renew_checksum(Bytes& bytes) { store(bytes, 504, XXH3_64bits(bytes.data(), 504)); }

/// Updates size, digest and checksum, so that altered bytes pass as intact.
void reseal(Bytes& bytes) {
  const XXH128_hash_t digest = XXH3_128bits(bytes.data() + block_size, bytes.size() - block_size);
  store(bytes, 16, std::uint64_t{bytes.size()});
  store(bytes, 40, digest.low64);
  store(bytes, 48, digest.high64);
  renew_checksum(bytes);
}

/// A file system where every path is a file with the same bytes.
class MemoryDisk : public FileSystem {
 public:
  explicit MemoryDisk(const Bytes& bytes) : bytes_(bytes) {}

  int open(const char* /*path*/, int /*flags*/, mode_t /*mode*/) override { return descriptor; }
  ssize_t pread(int /*fd*/, void* to, std::size_t count, std::uint64_t offset) override {
    const auto rest = std::span(bytes_).subspan(std::min<std::size_t>(offset, bytes_.size()));
    const auto given = rest.first(std::min(count, rest.size()));
    std::ranges::copy(given, static_cast<std::byte*>(to));
    return static_cast<ssize_t>(given.size());
  }
  int fstat(int /*fd*/, struct stat& status) override {
    status = {};
    status.st_mode = S_IFREG;
    status.st_size = static_cast<off_t>(bytes_.size());
    return 0;
  }
  int close(int fd) override { return fd == descriptor ? 0 : -1; }

 private:
  static constexpr int descriptor = 1000;  ///< not in use by the process
  const Bytes& bytes_;
};

/// The error from reading these bytes as a checkpoint, without the file name.
std::string damage(const Bytes& bytes) {
  MemoryDisk disk(bytes);
  try {
    read_checkpoint("x", 1 << 20, disk);
  } catch (const DamagedCheckpoint& error) {
    return std::string(error.what()).substr(1);
  }
  return "accepted";
}

/// A folder with one checkpoint.
struct CheckpointInFolder {
  TemporaryFolder folder;
  std::filesystem::path path = folder / "step.h5";
  Bytes original;

  explicit CheckpointInFolder(const ArrayStore& arrays = small()) {
    write_checkpoint(path, arrays);
    original = read_bytes(path);
  }

  void replace(const Bytes& bytes) const {
    std::filesystem::remove(path);  // ext4 flushes a file that is truncated and rewritten
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }
};

TEST_CASE("every element type, text, scalar and empty array is restored from a checkpoint") {
  const CheckpointInFolder checkpoint(every_type());
  CHECK(read_checkpoint(checkpoint.path) == every_type());
  CHECK(read_checkpoint(CheckpointInFolder{ArrayStore()}.path).size() == 0);
}

TEST_CASE("thousands of arrays in nested groups are restored") {
  ArrayStore arrays;
  for (int i = 0; i < 2000; ++i) {
    const std::string name = "layers." + std::to_string(i) + ".weight";
    arrays.put<std::int32_t>("parameters/" + name, std::vector<std::int32_t>(100, i), {10, 10});
    arrays.put_scalar<std::int32_t>("optimizer/m/" + name, -i);
  }
  const CheckpointInFolder checkpoint(arrays);
  CHECK(read_checkpoint(checkpoint.path) == arrays);
}

TEST_CASE(
    "other programs read texts as strings, numbers as scalars, and arrays at aligned offsets") {
  const CheckpointInFolder checkpoint(every_type());
  const hdf5::Session session;
  const hdf5::File file(H5Fopen(checkpoint.path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT), "open");
  const auto open = [&](const char* path) {
    return hdf5::Dataset(H5Dopen2(file.get(), path, H5P_DEFAULT), "open");
  };
  const auto type_of = [](const hdf5::Dataset& dataset) {
    return hdf5::Datatype(H5Dget_type(dataset.get()), "look at");
  };
  const auto is_scalar = [](const hdf5::Dataset& dataset) {
    const hdf5::Dataspace space(H5Dget_space(dataset.get()), "look at");
    return H5Sget_simple_extent_type(space.get()) == H5S_SCALAR;
  };
  const hdf5::Dataset words = open("words");
  CHECK(H5Tget_class(type_of(words).get()) == H5T_STRING);
  CHECK(H5Tget_cset(type_of(words).get()) == H5T_CSET_UTF8);
  CHECK(is_scalar(words));
  std::array<char, 4> text{};
  CHECK(H5Tget_size(type_of(words).get()) == text.size());
  CHECK(H5Dread(words.get(), type_of(words).get(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) >=
        0);
  CHECK(std::string(text.data(), text.size()) == "h\xC3\xA9\n");
  CHECK(H5Tget_class(type_of(open("nul")).get()) == H5T_INTEGER);
  CHECK(H5Tget_class(type_of(open("no_utf8")).get()) == H5T_INTEGER);

  const hdf5::Dataset step = open("progress/step");
  std::uint64_t number = 0;
  CHECK(H5Dread(step.get(), H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, &number) >= 0);
  CHECK(number == ~std::uint64_t{0});
  CHECK(is_scalar(step));

  const hdf5::Dataset weight = open("parameters/encoder.layers.0.weight");
  std::array<float, 2> values{};
  CHECK(H5Dread(weight.get(), H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data()) >= 0);
  CHECK(values == std::array{1.5F, -0.0F});
  CHECK(H5Dget_offset(weight.get()) % 8 == 0);
}

TEST_CASE("equal arrays give equal bytes, independent of the order in which they were added") {
  ArrayStore reversed;
  reversed.put_text("t", "text");
  reversed.put<float>("w", std::array{1.0F, 2.0F}, {2});
  const CheckpointInFolder a;
  const CheckpointInFolder b(reversed);
  CHECK(a.original == b.original);
}

TEST_CASE("the user block has the documented layout, and HDF5 data follow the block") {
  const Bytes bytes = CheckpointInFolder().original;
  Bytes expected(block_size);
  std::memcpy(expected.data(), "TAPESTRY\x04\0\0\0\0\x02\0\0", 16);
  store(expected, 32, std::uint64_t{block_size});
  expected.insert(expected.end(), bytes.begin() + block_size, bytes.end());
  reseal(expected);
  CHECK(bytes == expected);
  CHECK(std::memcmp(bytes.data() + block_size, "\x89HDF\r\n\x1a\n", 8) == 0);
}

TEST_CASE("a checkpoint cut at any length, extended, or altered in any byte or block is rejected") {
  ArrayStore arrays = every_type();
  arrays.put<float>("parameters/bias", std::vector<float>(500, 0.5F), {500});
  const Bytes original = CheckpointInFolder(arrays).original;
  REQUIRE(original.size() > 10'000);
  ArrayStore others = arrays;
  std::ranges::fill(others.mutable_bytes("config"), std::byte{'x'});
  const Bytes other = CheckpointInFolder(others).original;
  for (std::size_t at = 0; at < original.size(); ++at) {
    CAPTURE(at);
    Bytes altered = original;
    altered[at] ^= std::byte{1} << (at % 8);
    if (damage(altered) == "accepted") FAIL("accepted when altered");
    altered.resize(at);
    if (damage(altered) == "accepted") FAIL("accepted when cut");
  }
  for (std::size_t at = 0; at + block_size < original.size(); at += block_size) {
    for (const Bytes& from : {Bytes(original.size()), other}) {
      Bytes altered = original;
      std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(at), block_size,
                  altered.begin() + static_cast<std::ptrdiff_t>(at));
      if (altered != original) CHECK(damage(altered) != "accepted");
    }
  }
  Bytes sized = original;
  sized.pop_back();
  CHECK(contains(damage(sized), "truncated: found " + std::to_string(sized.size())));
  sized.resize(original.size() + 1);
  CHECK(contains(damage(sized), "too long"));
}

TEST_CASE("a file that is not a checkpoint is rejected with its first bytes") {
  const CheckpointInFolder checkpoint;
  const Bytes hdf5(checkpoint.original.begin() + block_size, checkpoint.original.end());
  CHECK(contains(damage({}), "found an empty file, expected 'TAPESTRY'"));
  CHECK(contains(damage(hdf5), "HDF5 file without Tapestry's user block"));
  CHECK(contains(damage(Bytes(4096)), "begins with the bytes 00 00 00 00 00 00 00 00"));
}

TEST_CASE(
    "the error about a checkpoint of an unknown format version states the version, not damage") {
  const CheckpointInFolder checkpoint;
  for (const auto& [version, words] : {std::pair(5, "a newer version of Tapestry: found format 5"),
                                       std::pair(0, "an unknown version of Tapestry: found")}) {
    const auto& shown = version;  // clang 14 cannot capture structured bindings
    CAPTURE(shown);
    Bytes altered = checkpoint.original;
    altered[8] = static_cast<std::byte>(version);
    renew_checksum(altered);
    checkpoint.replace(altered);
    try {
      read_checkpoint(checkpoint.path);
      FAIL("accepted");
    } catch (const CheckpointError& error) {
      CHECK(dynamic_cast<const DamagedCheckpoint*>(&error) == nullptr);
      CHECK(contains(error.what(), words));
    }
  }
}

TEST_CASE("both halves of the digest are compared") {
  const CheckpointInFolder checkpoint;
  for (const std::size_t half : {40, 48}) {
    CAPTURE(half);
    Bytes altered = checkpoint.original;
    altered[half] ^= std::byte{1};
    renew_checksum(altered);
    CHECK(contains(damage(altered), "the checkpoint is damaged"));
  }
}

TEST_CASE("an HDF5 file with types or names that a checkpoint cannot have is rejected") {
  const CheckpointInFolder checkpoint;
  const auto damage_of = [&](hid_t type, const char* name) {
    Bytes bytes = hdf5::file_with(
        [&](hid_t file) { hdf5::create(file, name, type, {2}, hdf5::allocated_early()); },
        block_size);
    std::copy_n(checkpoint.original.begin(), block_size, bytes.begin());
    reseal(bytes);
    return damage(bytes);
  };
  CHECK(damage_of(H5T_IEEE_F32LE, "x") == "accepted");
  CHECK(contains(damage_of(H5T_STD_I16BE, "x"), "x: found an unsupported type"));
  CHECK(contains(damage_of(H5T_IEEE_F32LE, "a b"), "found 'a b'"));
  Bytes no_hdf5(2048);
  std::copy_n(checkpoint.original.begin(), block_size, no_hdf5.begin());
  reseal(no_hdf5);
  CHECK(contains(damage(no_hdf5), "HDF5 could not open the file"));
}

TEST_CASE("a checkpoint larger than allowed is rejected before it is read") {
  const CheckpointInFolder checkpoint;
  FaultyFileSystem files;
  CHECK_THROWS_AS(read_checkpoint(checkpoint.path, checkpoint.original.size() - 1, files),
                  CheckpointError);
  CHECK(files.calls == std::vector<std::string>{"open", "fstat", "close"});
  CHECK_NOTHROW(read_checkpoint(checkpoint.path, checkpoint.original.size()));
}

TEST_CASE("a missing file, a folder and a pipe are rejected without blocking") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(read_checkpoint(folder / "none"), CheckpointError);
  CHECK_THROWS_AS(read_checkpoint(folder.path()), CheckpointError);
  CHECK_THROWS_AS(read_checkpoint(folder / "pipe"), CheckpointError);
}

TEST_CASE("a failure of any read from disk counts as damage") {
  const CheckpointInFolder checkpoint(every_type());
  FaultyFileSystem whole;
  read_checkpoint(checkpoint.path, 1 << 20, whole);
  std::size_t failed = 0;
  for (std::size_t call = 0; call < whole.calls.size(); ++call) {
    if (whole.calls[call] != "pread") continue;
    FaultyFileSystem files;
    files.failing_call = call;
    CHECK_THROWS_AS(read_checkpoint(checkpoint.path, 1 << 20, files), DamagedCheckpoint);
    ++failed;
  }
  CHECK(failed > 3);
}

TEST_CASE("short reads and writes and interrupted calls do not change the result") {
  const CheckpointInFolder checkpoint;
  FaultyFileSystem files;
  files.max_transfer_bytes = 7;
  files.interrupt_every_second_call = true;
  write_checkpoint(checkpoint.path, every_type(), files);
  CHECK(read_checkpoint(checkpoint.path, 1 << 20, files) == every_type());
}

TEST_CASE("saving arrays that HDF5 cannot store throws OutputError and writes no file") {
  const TemporaryFolder folder;
  ArrayStore endless, conflict;
  endless.put<float>("x", {}, {0, ~std::uint64_t{0}});  // HDF5 reads ~0 as an unlimited length
  conflict.put_text("a/b", "");
  conflict.put_text("a/b/c", "");  // its group is the array a/b
  CHECK_THROWS_AS(write_checkpoint(folder / "step.h5", endless), OutputError);
  CHECK_THROWS_AS(write_checkpoint(folder / "step.h5", conflict), OutputError);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("if arrays were read from a file, errors about the arrays state its path") {
  const CheckpointInFolder checkpoint;
  CHECK_THROWS_WITH_AS(
      read_checkpoint(checkpoint.path).get<float>("w", {3}),
      (checkpoint.path.string() + ": w: found float32 (2), expected float32 (3)").c_str(),
      CheckpointError);
}

}  // namespace
}  // namespace tapestry
