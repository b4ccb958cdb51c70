#include <algorithm>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz_target.h"

/// Feeds the target that it is linked with all files of the given folders, and given files, in the
/// order of their names. Exits with 1 if one is a finding, or without inputs.
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> files_of(const std::vector<std::string>& arguments) {
  std::vector<fs::path> files;
  for (const fs::path path : arguments) {
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    for (const auto& entry : fs::directory_iterator(path)) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

bool replay(const fs::path& path) try {
  std::ifstream file(path, std::ios::binary);
  // A vector, so that a sanitizer sees a read behind the end of the input.
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file) throw std::runtime_error("cannot be read");
  tapestry::fuzz::feed_in_time({bytes.data(), bytes.size()});
  return true;
} catch (const std::exception& error) {
  std::cerr << path.string() << ": " << error.what() << '\n';
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  const std::vector<fs::path> files = files_of({arguments + 1, arguments + count});
  const auto findings =
      std::ranges::count_if(files, [](const auto& file) { return !replay(file); });
  std::cout << files.size() << " inputs, " << findings << " findings\n";
  return files.empty() || findings > 0 ? 1 : 0;
}
