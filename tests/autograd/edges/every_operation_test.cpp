#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

#include "tests/support/source_folder.h"

namespace {

std::string read_file(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The functions of a header that return tensors.
std::set<std::string> parse_functions(const std::string& header) {
  static const std::regex declaration(
      "(?:^|\\n)(?:inline )?(?:Tensor|std::vector<Tensor>|TopK|Loss) (\\w+)\\(");
  std::set<std::string> names;
  for (auto found = std::sregex_iterator(header.begin(), header.end(), declaration);
       found != std::sregex_iterator(); ++found) {
    names.insert((*found)[1]);
  }
  return names;
}

TEST_CASE("the list of all operations has each function of autograd/ops with a gradient") {
  const std::set<std::string> without_gradient{"additive_attention_weights",
                                               "attention_weights",
                                               "equal",
                                               "less",
                                               "less_equal",
                                               "not_equal",
                                               "one_hot",
                                               "to_tensor",
                                               "topk_log_softmax"};
  const std::filesystem::path sources = tapestry::test::source_folder();
  const std::string list = read_file(sources / "tests/autograd/edges/every_operation.cpp");
  std::size_t found = 0;
  for (const auto& file : std::filesystem::directory_iterator(sources / "autograd/ops")) {
    if (file.path().extension() != ".h") continue;
    for (const std::string& name : parse_functions(read_file(file.path()))) {
      if (without_gradient.contains(name)) continue;
      CAPTURE(name);
      CHECK(
          std::regex_search(list, std::regex("\\b" + name + "\\(o\\[0\\]|\\b" + name + "\\(\\{o")));
      ++found;
    }
  }
  CHECK(found > 70);
}

}  // namespace
