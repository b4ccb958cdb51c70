#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "data/io/error.h"
#include "data/readers/image_arrays.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/images.h"
#include "tests/support/temporary_folder.h"

using namespace tapestry;

namespace {

/// A folder in memory, if the system has one, that is kept for all inputs.
const std::filesystem::path& folder() {
  static const test::TemporaryFolder made(std::filesystem::is_directory("/dev/shm") ? "/dev/shm"
                                                                                    : "/tmp");
  return made.path();
}

void write(const char* name, std::string_view bytes) {
  std::ofstream(folder() / name, std::ios::binary) << bytes;
}

}  // namespace

/// Input: a file of images, and behind the line `=== labels` the file of their labels.
void tapestry::fuzz::feed(std::string_view input) try {
  constexpr std::string_view border = "\n=== labels\n";
  const std::size_t end = std::min(input.find(border), input.size());
  write("x.npy", input.substr(0, end));
  write("x.labels.npy", input.substr(std::min(end + border.size(), input.size())));
  Corpus corpus;
  const ImageFile images =
      read_npy_images("data.train_images", folder() / "x.npy", image_options(), corpus);
  require_images(images, input.size());
  require(corpus.files.size() == 2, "both files count");
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
