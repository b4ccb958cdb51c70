#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "data/io/file.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/checkpoint/checkpoint_file.h"

/// Damages the bytes of a checkpoint at random, as a disk or a copy may, and reads what comes out:
/// each mutant must be rejected before libhdf5 reads it.
///
///     checkpoint_mutants --mutants 1000000      the full figure
namespace tapestry {
namespace {

using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

/// A disk with one file, which can be read by any name and not be written.
class MemoryFile : public FileSystem {
 public:
  explicit MemoryFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  int open(const char* /*path*/, int /*flags*/, mode_t /*mode*/) override { return descriptor; }
  ssize_t pread(int /*fd*/, void* to, std::size_t count, std::uint64_t offset) override {
    if (offset >= bytes_.size()) return 0;
    const std::size_t given = std::min<std::size_t>(count, bytes_.size() - offset);
    std::memcpy(to, bytes_.data() + offset, given);
    return static_cast<ssize_t>(given);
  }
  int fstat(int /*fd*/, struct stat& status) override {
    status = {};
    status.st_mode = S_IFREG;
    status.st_size = static_cast<off_t>(bytes_.size());
    return 0;
  }
  int close(int fd) override { return fd == descriptor ? 0 : -1; }

 private:
  static constexpr int descriptor = 1000;  ///< not used by the real system
  std::span<const std::byte> bytes_;
};

// ---- Damage.

/// A position that is often in the user block or near it.
std::size_t position_in(const Bytes& file, Random& random) {
  constexpr std::array<std::size_t, 4> ends{56, 512, 16 * 1024, ~std::size_t{0}};
  return random() % std::min(file.size(), ends[random() % ends.size()]);
}

/// A range of 1 to `longest` bytes inside the file.
std::span<std::byte> range_in(Bytes& file, std::size_t longest, Random& random) {
  const std::size_t begin = position_in(file, random), size = 1 + random() % longest;
  return std::span(file).subspan(begin, std::min(size, file.size() - begin));
}

void set_number(Bytes& file, Random& random) {
  const std::uint64_t size = file.size();
  const std::array<std::uint64_t, 9> numbers{0,          1,          size - 1,   size, size + 1,
                                             1ULL << 31, 1ULL << 32, 1ULL << 63, ~0ULL};
  const std::size_t at = position_in(file, random) / 8 * 8;
  std::memcpy(file.data() + at, &numbers[random() % numbers.size()],
              std::min<std::size_t>(8, file.size() - at));
}

/// Copies bytes from elsewhere in the file or from another one.
void splice(Bytes& file, const Bytes& other, Random& random) {
  const Bytes from = random() % 2 == 0 ? file : other;
  const auto to = range_in(file, 2048, random);
  const std::size_t begin = random() % from.size(), size = std::min(to.size(), from.size() - begin);
  std::copy_n(from.begin() + static_cast<std::ptrdiff_t>(begin), size, to.begin());
}

void damage(Bytes& file, const Bytes& other, Random& random) {
  switch (random() % 7) {
    case 0:  // flips bits
      for (std::size_t i = random() % 8 + 1; i > 0; --i) {
        file[position_in(file, random)] ^= std::byte{1} << (random() % 8);
      }
      break;
    case 1:  // sets a byte
      file[position_in(file, random)] = static_cast<std::byte>(random());
      break;
    case 2:
      set_number(file, random);
      break;
    case 3:  // cuts
      file.resize(position_in(file, random));
      break;
    case 4:  // extends
      file.resize(file.size() + 1 + random() % 5000, static_cast<std::byte>(random()));
      break;
    case 5:  // zeroes a page
      std::ranges::fill(range_in(file, 4096, random), std::byte{0});
      break;
    default:
      splice(file, other, random);
  }
}

// ---- Reading.

/// The checkpoint after some steps of a small run.
Bytes checkpoint_of(std::size_t steps) {
  test::TinyRun run;
  Config config = test::tiny_config();
  config.train.steps = steps;
  config.model.d_model = config.model.d_ff = 8;
  run.train(config);
  return run.checkpoint_bytes(steps);
}

/// Describes how a damaged checkpoint is read wrongly; empty if it is rejected.
std::string judge(const Bytes& mutant) try {
  MemoryFile files(mutant);
  read_checkpoint("mutant.h5", mutant.size() + 1, files);
  return "accepted";
} catch (const CheckpointError&) {
  return "";
} catch (const std::exception& error) {
  return fmt::format("another error than a CheckpointError: {}", error.what());
}

int run(std::uint64_t mutants, std::uint64_t first) {
  const Bytes original = checkpoint_of(1), other = checkpoint_of(2);
  fmt::print("a checkpoint of {} bytes\n", original.size());
  std::uint64_t unchanged = 0, wrong = 0;
  for (std::uint64_t seed = first; seed < first + mutants; ++seed) {
    Random random(seed);
    Bytes mutant = original;
    for (std::size_t i = random() % 3 + 1; i > 0 && !mutant.empty(); --i) {
      damage(mutant, other, random);
    }
    if (mutant == original) {
      ++unchanged;
      continue;
    }
    const std::string mistake = judge(mutant);
    if (mistake.empty()) continue;
    if (++wrong <= 10) fmt::print("mutant {}: {}\n", seed, mistake);
  }
  fmt::print("{} mutants: {} with the bytes of the original, {} wrong, the others rejected\n",
             mutants, unchanged, wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace tapestry

int main(int argc, char** argv) {
  CLI::App app("Damages a checkpoint at random and reads it");
  std::uint64_t mutants = 20'000, first = 1;
  app.add_option("--mutants", mutants, "Number of damaged files")->capture_default_str();
  app.add_option("--first", first, "Number of the first mutant")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return tapestry::run(mutants, first);
}
