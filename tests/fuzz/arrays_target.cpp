#include <cstddef>
#include <cstring>
#include <span>
#include <string_view>

#include "data/io/error.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/images.h"
#include "train/platform/child_process.h"
#include "train/storage/image_stream.h"

using namespace tapestry;

/// Input: what the process sends in which HDF5 reads a file.
void tapestry::fuzz::feed(std::string_view input) try {
  std::string_view rest = input;
  const auto receive = [&](std::span<std::byte> to) {
    if (rest.size() < to.size()) throw NotContained("it ended without an answer");
    std::memcpy(to.data(), rest.data(), to.size());
    rest.remove_prefix(to.size());
  };
  const auto finish = [&] {
    if (!rest.empty()) throw NotContained("it sent more than was expected");
  };
  require_images(receive_images("x.h5", input.size(), {receive, finish}, image_options(), {}),
                 input.size());
} catch (const DataError& error) {
  fuzz::require_presentable(error.what());
  fuzz::require_presentable(error.hint());
}
