#include "tests/support/source_folder.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>

namespace tapestry {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(test::source_folder() / path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What is between the two, without the end of the line of the first and the start of that of the
/// second.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find('\n', text.find(begin)) + 1;
  return text.substr(from, text.rfind('\n', text.find(end, from)) + 1 - from);
}

/// The lines of a function's body as if they stood outside it.
std::string without_indent(const std::string& body) {
  std::istringstream lines(body);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    text += (line.starts_with("  ") ? line.substr(2) : line) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("README.md quotes the training loop of the example literally") {
  const std::string quoted = between(read("README.md"), "```cpp\n", "```");
  const std::string example =
      between(read("tests/examples/training_loop.cpp"), "README.md quotes from here", "// to here");
  CHECK(quoted.find("Mode::training(") != std::string::npos);
  CHECK(quoted == without_indent(example));
}

}  // namespace tapestry
