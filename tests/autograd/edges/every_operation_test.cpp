#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>

#include "autograd/ids.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/losses.h"
#include "autograd/tape.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/contains.h"
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

/// Collects the formulas of what is recorded.
class Formulas : public tapestry::TapeObserver {
 public:
  void forward_ran(const tapestry::RecordedCall& call) override {
    CAPTURE(call.operation);
    CHECK_FALSE(call.formula.empty());
    CHECK_FALSE(call.derivative.empty());
    of[call.operation] = call.formula;
  }
  void backward_ran(const tapestry::GradientSlot&, const tapestry::Tensor&) override {}
  bool splits_fused() const override { return splits; }

  std::map<std::string, std::string> of;
  bool splits = false;
};

TEST_CASE("every operation tells an observer its formula and its derivative") {
  Formulas formulas;
  for (const auto& operation : tapestry::test::every_operation(2, 4)) {
    CAPTURE(operation.name);
    const auto operands = tapestry::test::operands_of(operation, tapestry::DType::float64);
    const auto leaves = tapestry::test::leaves_of(operands);
    const tapestry::Tape tape(&formulas);
    operation.run(leaves);
  }
  CHECK(formulas.of.size() > 50);
  CHECK(formulas.of["relu"] == "y = max(x, 0)");
  CHECK(tapestry::test::contains(formulas.of["linear"], "Wᵀ"));
}

TEST_CASE("the formula of an operation has the values of its attributes") {
  using tapestry::Tensor;
  Formulas formulas;
  const Tensor x = Tensor::full({3, 4}, 0.5, tapestry::DType::float64).require_gradient();
  const tapestry::Tape tape(&formulas);
  tapestry::scale(x, -2.5);
  CHECK(formulas.of["scale"] == "y = -2.5 x");
  const tapestry::Ids ids({2}, {0, 1});
  tapestry::embedding(x, ids, std::nullopt, 3.0);
  CHECK(tapestry::test::contains(formulas.of["embedding"], "3 · W"));
  tapestry::embedding(x, ids);
  CHECK(formulas.of["embedding"] == "yᵢ = W[idᵢ]");
  const tapestry::Ids labels({3}, {0, 1, 2});
  tapestry::cross_entropy(x, labels, {});
  CHECK(tapestry::test::contains(formulas.of["cross_entropy"], "n = 3"));
  CHECK_FALSE(tapestry::test::contains(formulas.of["cross_entropy"], "α"));
  tapestry::cross_entropy(x, labels, {.label_smoothing = 0.25});
  CHECK(tapestry::test::contains(formulas.of["cross_entropy"], "α = 0.25"));
}

TEST_CASE("an observer can ask for linear and cross entropy in place of the fused operation") {
  using tapestry::Tensor;
  const Tensor x = Tensor::full({3, 4}, 0.5, tapestry::DType::float64).require_gradient();
  const tapestry::Ids labels({3}, {0, 1, 2});
  for (const bool splits : {false, true}) {
    Formulas formulas;
    formulas.splits = splits;
    const tapestry::Tape tape(&formulas);
    const tapestry::Loss loss = tapestry::linear_cross_entropy(x, x, Tensor(), labels, {});
    CHECK(loss.mean.item() == doctest::Approx(std::log(3.0)));
    CHECK(formulas.of.contains("linear_cross_entropy") == !splits);
    CHECK(formulas.of.contains("linear") == splits);
    CHECK(formulas.of.contains("cross_entropy") == splits);
  }
}

}  // namespace
