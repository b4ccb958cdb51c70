// SPDX-License-Identifier: BSD-3-Clause
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "tests/fuzz/fuzz.h"

/// Feeds all inputs of archives to their targets: replay .../TARGET.tar ... Exits with 1 if an
/// input is a finding, or if there are no inputs.
namespace {

struct Input {
  std::string name;
  std::vector<char> bytes;  ///< exact size: a sanitizer detects reads past the end
};

/// The files of a tar archive.
std::vector<Input> read_archive(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  constexpr std::size_t block = 512, size_field = 124, type_field = 156;
  std::vector<Input> files;
  for (std::size_t at = 0; at + block <= bytes.size() && bytes[at] != '\0';) {
    const std::size_t size = std::strtoull(bytes.c_str() + at + size_field, nullptr, 8);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(at + block);
    if (bytes[at + type_field] == '0') {
      files.push_back({bytes.c_str() + at, {begin, begin + static_cast<std::ptrdiff_t>(size)}});
    }
    at += block + (size + block - 1) / block * block;
  }
  return files;
}

bool replay(const std::string& target, const Input& input) try {
  tapestry::fuzz::feed_in_time(target, {input.bytes.data(), input.bytes.size()});
  return true;
} catch (const std::exception& error) {
  std::cerr << target << ", " << input.name << ": " << error.what() << '\n';
  return false;
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t inputs = 0, findings = 0;
  for (const std::filesystem::path path :
       std::vector<std::string>{arguments + 1, arguments + count}) {
    for (const Input& input : read_archive(path)) {
      ++inputs;
      findings += replay(path.stem().string(), input) ? 0 : 1;
    }
  }
  std::cout << inputs << " inputs, " << findings << " findings\n";
  return inputs == 0 || findings > 0 ? 1 : 0;
}
