#include "train/storage/checkpoint_file.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <array>
#include <cstring>
#include <fstream>
#include <string>

#include "data/io/file.h"
#include "tests/support/faulty_file_system.h"
#include "tests/support/temporary_folder.h"
#include "train/error.h"

namespace tapestry {
namespace {

using test::FaultyFileSystem;
using test::TemporaryFolder;
using Bytes = std::vector<std::byte>;

Snapshot every_type() {
  Snapshot snapshot;
  snapshot.put<float>("parameters/encoder.layers.0.weight", std::array{1.5F, -0.0F}, {2, 1});
  snapshot.put<double>("optimizer/f64", std::array{0.1, 1e300}, {2});
  snapshot.put<std::int32_t>("i32", std::array{-1}, {1, 1, 1, 1, 1, 1, 1, 1});
  snapshot.put<std::int64_t>("i64", std::array<std::int64_t, 2>{-1, 5'000'000'000}, {2});
  snapshot.put_scalar<std::uint64_t>("progress/step", ~std::uint64_t{0});
  snapshot.put_text("config", "seed: 1\n");
  snapshot.put_text("empty", "");
  snapshot.put<float>("no/elements", {}, {0, 3});
  return snapshot;
}

Snapshot small() {
  Snapshot snapshot;
  snapshot.put<float>("w", std::array{1.0F, 2.0F}, {2});
  snapshot.put_text("t", "text");
  return snapshot;
}

Bytes read_bytes(const std::filesystem::path& path) { return read_binary_file(path).bytes; }

/// A folder with one checkpoint, whose bytes can be altered.
struct CheckpointInFolder {
  TemporaryFolder folder;
  std::filesystem::path path = folder / "step.h5";
  Bytes original;

  explicit CheckpointInFolder(const Snapshot& snapshot = small()) {
    write_checkpoint(path, snapshot);
    original = read_bytes(path);
  }

  void replace(const Bytes& bytes) const {
    std::filesystem::remove(path);  // ext4 flushes a file that is truncated and written anew
    std::ofstream file(path, std::ios::binary);
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

  /// What reading says about the bytes.
  std::string damage(const Bytes& bytes) const {
    replace(bytes);
    try {
      read_checkpoint(path);
    } catch (const DamagedCheckpoint& error) {
      return std::string(error.what()).substr(path.string().size());
    }
    return "accepted";
  }
};

/// Makes an altered envelope pass its own checksum.
void renew_envelope_checksum(Bytes& bytes) {
  const std::uint64_t checksum = XXH3_64bits(bytes.data(), envelope_size - 8);
  std::memcpy(bytes.data() + envelope_size - 8, &checksum, sizeof checksum);
}

/// Makes altered bytes pass as if they had been written so.
void reseal(Bytes& bytes) {
  const Envelope envelope = open_envelope(bytes, bytes.size(), "");
  seal(bytes, {}, envelope.table_size, envelope.hdf5_offset);
}

TEST_CASE("every element type, text, scalar and empty array is restored from a checkpoint") {
  const CheckpointInFolder checkpoint(every_type());
  CHECK(read_checkpoint(checkpoint.path) == every_type());
  CHECK_NOTHROW(verify_checkpoint(checkpoint.path));
}

TEST_CASE("an empty snapshot can be saved") {
  const CheckpointInFolder checkpoint{Snapshot()};
  CHECK(read_checkpoint(checkpoint.path).size() == 0);
  CHECK_NOTHROW(verify_checkpoint(checkpoint.path));
}

TEST_CASE("hundreds of arrays in nested groups are restored and agree with HDF5") {
  Snapshot snapshot;
  for (int i = 0; i < 300; ++i) {
    const std::string name = "layers." + std::to_string(i) + ".weight";
    snapshot.put_scalar<std::int32_t>("parameters/" + name, i);
    snapshot.put_scalar<std::int32_t>("optimizer/m/" + name, -i);
  }
  const CheckpointInFolder checkpoint(snapshot);
  CHECK(read_checkpoint(checkpoint.path) == snapshot);
  CHECK_NOTHROW(verify_checkpoint(checkpoint.path));
}

TEST_CASE("equal snapshots give equal bytes, in whatever order arrays were added") {
  Snapshot reversed;
  reversed.put_text("t", "text");
  reversed.put<float>("w", std::array{1.0F, 2.0F}, {2});
  const CheckpointInFolder a;
  const CheckpointInFolder b(reversed);
  CHECK(a.original == b.original);
}

TEST_CASE("the envelope has the documented layout, and HDF5 begins at its offset") {
  const CheckpointInFolder checkpoint;
  const Bytes& bytes = checkpoint.original;
  CHECK(std::memcmp(bytes.data(), "TAPESTRY\x03\0\0\0\0\x02\0\0", 16) == 0);
  const Envelope envelope = open_envelope(bytes, bytes.size(), "");
  CHECK(envelope.file_size == bytes.size());
  CHECK(envelope.table_size == 8 + 2 * (32 + 8 + 8));
  CHECK(envelope.hdf5_offset == 1024);
  CHECK(std::memcmp(bytes.data() + 1024, "\x89HDF\r\n\x1a\n", 8) == 0);
}

TEST_CASE("a checkpoint cut at any length is refused") {
  const CheckpointInFolder checkpoint;
  for (std::size_t size = 0; size < checkpoint.original.size(); ++size) {
    Bytes cut = checkpoint.original;
    cut.resize(size);
    if (checkpoint.damage(cut) == "accepted") FAIL("accepted when cut to " << size);
  }
  Bytes cut = checkpoint.original;
  cut.pop_back();
  CHECK(checkpoint.damage(cut) == ": the checkpoint is truncated: found " +
                                      std::to_string(cut.size()) + " bytes, expected " +
                                      std::to_string(cut.size() + 1));
}

TEST_CASE("a checkpoint with any byte altered is refused") {
  const CheckpointInFolder checkpoint;
  for (std::size_t at = 0; at < checkpoint.original.size(); ++at) {
    Bytes altered = checkpoint.original;
    altered[at] ^= std::byte{1} << (at % 8);
    if (checkpoint.damage(altered) == "accepted") FAIL("accepted when altered at " << at);
  }
}

TEST_CASE("damage is located: an array, the table of contents or the headers") {
  const CheckpointInFolder checkpoint;
  const auto damage_at = [&](std::size_t at) {
    Bytes altered = checkpoint.original;
    altered[at] ^= std::byte{0x80};
    return checkpoint.damage(altered);
  };
  const std::string begin = ": the checkpoint is damaged: found other bytes than were written in ";
  std::uint64_t offset_of_t = 0;
  std::memcpy(&offset_of_t, checkpoint.original.data() + envelope_size + 8, sizeof offset_of_t);
  CHECK(damage_at(offset_of_t) == begin + "t");
  CHECK(damage_at(envelope_size) == begin + "its table of contents");
  CHECK(damage_at(1024) == begin + "its headers");
}

TEST_CASE("of several damaged arrays the first is named") {
  const CheckpointInFolder checkpoint;
  Bytes altered = checkpoint.original;
  for (const std::size_t entry : {0, 48}) {  // each takes 32 bytes, an axis and a short path
    std::uint64_t offset = 0;
    std::memcpy(&offset, altered.data() + envelope_size + 8 + entry, sizeof offset);
    altered[offset] ^= std::byte{1};
  }
  CHECK(checkpoint.damage(altered).ends_with(" in t and 1 more"));
}

TEST_CASE("of three damaged arrays the first is named and the others counted") {
  Snapshot snapshot;
  for (const char* path : {"a", "b", "c", "d"}) snapshot.put_text(path, "text");
  const CheckpointInFolder checkpoint(snapshot);
  Bytes altered = checkpoint.original;
  for (const std::size_t entry : {48, 96, 144}) {
    std::uint64_t offset = 0;
    std::memcpy(&offset, altered.data() + envelope_size + 8 + entry, sizeof offset);
    altered[offset] ^= std::byte{1};
  }
  CHECK(checkpoint.damage(altered).ends_with(" in b and 2 more"));
}

TEST_CASE("bytes behind the end are refused") {
  const CheckpointInFolder checkpoint;
  Bytes longer = checkpoint.original;
  longer.push_back(std::byte{0});
  CHECK(checkpoint.damage(longer).find("too long") != std::string::npos);
}

TEST_CASE("a file that is no checkpoint is refused with its first bytes") {
  const CheckpointInFolder checkpoint;
  const Bytes hdf5(checkpoint.original.begin() + 1024, checkpoint.original.end());
  CHECK(checkpoint.damage({}) ==
        ": not a Tapestry checkpoint: found an empty file, expected 'TAPESTRY'");
  CHECK(checkpoint.damage(hdf5).find("HDF5 file without Tapestry's envelope") != std::string::npos);
  CHECK(checkpoint.damage(Bytes(4096)).find("begins with the bytes 00 00 00 00 00 00 00 00") !=
        std::string::npos);
}

TEST_CASE("a checkpoint of a newer format is refused with the hint of a newer program") {
  const CheckpointInFolder checkpoint;
  Bytes newer = checkpoint.original;
  newer[8] = std::byte{4};
  renew_envelope_checksum(newer);
  checkpoint.replace(newer);
  CHECK_THROWS_WITH_AS(read_checkpoint(checkpoint.path),
                       (checkpoint.path.string() +
                        ": written by a newer version of Tapestry: found format 4, expected 1 to 3")
                           .c_str(),
                       CheckpointError);
  try {
    read_checkpoint(checkpoint.path);
  } catch (const CheckpointError& error) {
    CHECK(dynamic_cast<const DamagedCheckpoint*>(&error) == nullptr);
  }
}

TEST_CASE("a checkpoint of a format that does not exist is refused") {
  const CheckpointInFolder checkpoint;
  Bytes unknown = checkpoint.original;
  unknown[8] = std::byte{0};
  renew_envelope_checksum(unknown);
  checkpoint.replace(unknown);
  CHECK_THROWS_WITH_AS(
      read_checkpoint(checkpoint.path),
      (checkpoint.path.string() +
       ": written by an unknown version of Tapestry: found format 0, expected 1 to 3")
          .c_str(),
      CheckpointError);
}

TEST_CASE("both halves of the digest are compared") {
  const CheckpointInFolder checkpoint;
  for (const std::size_t half : {40, 48}) {
    CAPTURE(half);
    Bytes altered = checkpoint.original;
    altered[half] ^= std::byte{1};
    renew_envelope_checksum(altered);
    CHECK(checkpoint.damage(altered).starts_with(": the checkpoint is damaged: "));
  }
}

TEST_CASE("an envelope with impossible positions is refused before memory is allocated") {
  const CheckpointInFolder checkpoint;
  for (const std::size_t field : {16, 24, 32}) {  // sizes of file and table, start of HDF5
    CAPTURE(field);
    Bytes altered = checkpoint.original;
    std::memset(altered.data() + field, 0xff, 7);
    renew_envelope_checksum(altered);
    CHECK(checkpoint.damage(altered) != "accepted");
  }
  Bytes inside_itself = checkpoint.original;
  std::memset(inside_itself.data() + 32, 0, 8);
  renew_envelope_checksum(inside_itself);
  CHECK(checkpoint.damage(inside_itself).starts_with(": the envelope is invalid: "));
}

TEST_CASE("the table ends before HDF5 begins, and HDF5 begins within the file") {
  const CheckpointInFolder checkpoint;
  const auto is_layout = [&](std::uint64_t table_size, std::uint64_t hdf5_offset) {
    Bytes altered = checkpoint.original;
    seal(altered, {}, table_size, hdf5_offset);
    return !checkpoint.damage(altered).starts_with(": the envelope is invalid: ");
  };
  const std::uint64_t size = checkpoint.original.size();
  CHECK(is_layout(1024 - envelope_size, 1024));
  CHECK_FALSE(is_layout(1024 - envelope_size + 1, 1024));
  CHECK_FALSE(is_layout(1024, 1024));
  CHECK(is_layout(0, envelope_size));
  CHECK_FALSE(is_layout(0, envelope_size - 1));
  CHECK(is_layout(0, size));
  CHECK_FALSE(is_layout(0, size + 1));
}

TEST_CASE("a table altered on purpose gives damage or other arrays, never a crash") {
  const CheckpointInFolder checkpoint;
  std::size_t refused = 0;
  for (std::size_t at = envelope_size; at < 1024; ++at) {
    for (const int value : {0x01, 0x80, 0xff}) {
      Bytes altered = checkpoint.original;
      altered[at] ^= static_cast<std::byte>(value);
      reseal(altered);
      if (checkpoint.damage(altered) != "accepted") ++refused;
    }
  }
  CHECK(refused > 150);
}

TEST_CASE("invalid paths in a checkpoint are refused as damage") {
  const CheckpointInFolder checkpoint;
  Bytes altered = checkpoint.original;
  const std::size_t path_of_first = envelope_size + 8 + 32 + 8;
  REQUIRE(altered[path_of_first] == std::byte{'t'});
  for (const char name : {'/', '.', '\0', 'w'}) {  // the second array is called w
    CAPTURE(name);
    altered[path_of_first] = static_cast<std::byte>(name);
    reseal(altered);
    CHECK(checkpoint.damage(altered).starts_with(": table of contents: "));
  }
}

TEST_CASE("an array whose digest is not that of the table is refused, even if the file digest is") {
  const CheckpointInFolder checkpoint;
  Bytes altered = checkpoint.original;
  std::uint64_t offset_of_t = 0;
  std::memcpy(&offset_of_t, altered.data() + envelope_size + 8, sizeof offset_of_t);
  altered[offset_of_t] ^= std::byte{1};
  reseal(altered);
  CHECK(checkpoint.damage(altered) ==
        ": t: its digest differs from the one in the table of contents");
}

TEST_CASE("verification finds a table of contents that differs from HDF5") {
  const CheckpointInFolder checkpoint;
  Bytes altered = checkpoint.original;
  altered[envelope_size + 8 + 32 + 8] = std::byte{'u'};
  reseal(altered);
  checkpoint.replace(altered);
  CHECK(read_checkpoint(checkpoint.path).get_text("u") == "text");
  CHECK_THROWS_AS(verify_checkpoint(checkpoint.path), DamagedCheckpoint);
}

TEST_CASE("a checkpoint larger than allowed is refused without being read") {
  const CheckpointInFolder checkpoint;
  FaultyFileSystem files;
  CHECK_THROWS_AS(read_checkpoint(checkpoint.path, checkpoint.original.size() - 1, files),
                  CheckpointError);
  CHECK(files.calls == std::vector<std::string>{"open", "fstat", "close"});
  CHECK_NOTHROW(read_checkpoint(checkpoint.path, checkpoint.original.size()));
}

TEST_CASE("a missing file, a folder and a pipe are refused without blocking") {
  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_AS(read_checkpoint(folder / "none"), CheckpointError);
  CHECK_THROWS_AS(read_checkpoint(folder.path()), CheckpointError);
  CHECK_THROWS_AS(read_checkpoint(folder / "pipe"), CheckpointError);
}

TEST_CASE("a checkpoint that the disk cannot read counts as damaged") {
  const CheckpointInFolder checkpoint;
  FaultyFileSystem files;
  files.failing_name = "pread";
  CHECK_THROWS_AS(read_checkpoint(checkpoint.path, 1 << 20, files), DamagedCheckpoint);
}

TEST_CASE("arrays that HDF5 cannot store are an output error, and no file is written") {
  const TemporaryFolder folder;
  Snapshot endless;
  endless.put<float>("x", {},
                     {0, ~std::uint64_t{0}});  // which stands for an unlimited length in HDF5
  CHECK_THROWS_WITH_AS(write_checkpoint(folder / "step.h5", endless),
                       ((folder / "step.h5").string() +
                        ": the checkpoint cannot be stored in an HDF5 file: x: found an axis of "
                        "18446744073709551615, expected a shorter one")
                           .c_str(),
                       OutputError);
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("a save that fails leaves the old checkpoint readable") {
  const CheckpointInFolder checkpoint;
  FaultyFileSystem files;
  files.failing_name = "fsync";
  CHECK_THROWS_AS(write_checkpoint(checkpoint.path, every_type(), files), OutputError);
  CHECK(read_checkpoint(checkpoint.path) == small());
}

TEST_CASE("errors of a snapshot that was read from a file name the file") {
  const CheckpointInFolder checkpoint;
  CHECK_THROWS_WITH_AS(
      read_checkpoint(checkpoint.path).get<float>("w", {3}),
      (checkpoint.path.string() + ": w: found float32 (2), expected float32 (3)").c_str(),
      CheckpointError);
}

}  // namespace
}  // namespace tapestry
