#include <fmt/format.h>
#include <sys/resource.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "data/io/durable_file.h"
#include "tests/durability/attack_files.h"
#include "tests/durability/memory_file.h"
#include "tests/train/hdf5_files.h"
#include "train/error.h"
#include "train/storage/checkpoint_file.h"

/// The reader that attack_trace.sh watches:
///
///     attack_reader make FOLDER     writes all attacks, and the file `secret` they try to reach
///     attack_reader verify FILE     reads one as the product does
///     attack_reader trust FILE      reads its array x as HDF5 does when nobody takes care
///
/// and, by itself,
///
///     attack_reader links NUMBER    verifies a checkpoint with this many links, kept in memory
namespace tapestry {
namespace {

using test::Attack;

void make(const std::filesystem::path& folder) {
  const auto secret = folder / "secret";
  const Attack decoy{"", [](hid_t file) { hdf5::add_good_array(file, "x"); }, ""};
  write_file_durably(secret, test::raw_file(decoy));
  int number = 0;
  for (const Attack& attack : test::attacks(secret.string())) {
    write_file_durably(folder / fmt::format("raw-{:02}.h5", number), test::raw_file(attack));
    write_file_durably(folder / fmt::format("wrapped-{:02}.h5", number++),
                       test::wrapped_file(attack));
  }
  for (const Attack& attack : test::image_attacks(secret.string())) {
    write_file_durably(folder / fmt::format("images-{:02}.h5", number++), test::raw_file(attack));
  }
}

/// 0 if the file is refused.
int verify(const char* path) try {
  verify_checkpoint(path);
  return 1;
} catch (const std::exception& error) {
  fmt::print("{}\n", error.what());
  return 0;
}

int trust(const char* path) try {
  const hdf5::File file(H5Fopen(path, H5F_ACC_RDONLY, H5P_DEFAULT), "open");
  const hdf5::Dataset x(H5Dopen2(file.get(), "x", H5P_DEFAULT), "open x");
  std::vector<std::uint8_t> bytes(64);
  H5Dread(x.get(), H5T_STD_U8LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, bytes.data());
  return 0;
} catch (const hdf5::Error&) {
  return 0;
}

/// 0 if the file is refused.
int verify_links(std::size_t count) {
  const auto bytes = test::wrapped_file(test::many_links(count));
  test::MemoryFile files(bytes);
  try {
    verify_checkpoint("links.h5", bytes.size(), files);
    return 1;
  } catch (const DamagedCheckpoint& error) {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    fmt::print("{}\na file of {} MiB, {} MiB of memory at the most\n", error.what(),
               bytes.size() >> 20, usage.ru_maxrss >> 10);
    return 0;
  }
}

int run(const std::string& action, const char* argument) {
  if (action == "verify") return verify(argument);
  if (action == "trust") return trust(argument);
  if (action == "links") return verify_links(std::stoul(argument));
  make(argument);
  return 0;
}

}  // namespace
}  // namespace tapestry

int main(int argc, char** argv) { return argc == 3 ? tapestry::run(argv[1], argv[2]) : 2; }
