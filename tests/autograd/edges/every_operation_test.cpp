// SPDX-License-Identifier: BSD-3-Clause
#include "tests/autograd/edges/every_operation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <string>

#include "autograd/error.h"
#include "autograd/ids.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "tests/support/contains.h"
#include "tests/support/source_folder.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::test;

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

/// Collects the formulas of recorded operations.
class Formulas : public TapeObserver {
 public:
  void forward_ran(const RecordedCall& call) override {
    CAPTURE(call.operation);
    CHECK_FALSE(call.formula.empty());
    CHECK_FALSE(call.derivative.empty());
    of[call.operation] = call.formula;
    derivative_of[call.operation] = call.derivative;
  }
  void backward_ran(const GradientSlot&, const Tensor&) override {}
  bool splits_fused() const override { return splits; }

  std::map<std::string, std::string> of, derivative_of;
  bool splits = false;
};

/// The Latin words and Greek letters of a formula, without subscripts and accents. `dL/dx` is x.
std::set<std::string> symbols_of(std::string text) {
  text = std::regex_replace(text, std::regex("dL/d"), " ");
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  std::set<std::string> symbols;
  for (std::size_t i = 0, end = 0; i < text.size(); i = std::max(end, i + 1)) {
    const bool greek = text[i] == '\xCE' || text[i] == '\xCF';
    end = greek ? i + 2 : i;
    while (!greek && end < text.size() && (is_letter(text[end]) || text[end] == '_')) ++end;
    if (end > i) symbols.insert(text.substr(i, end - i));
  }
  return symbols;
}

/// The symbols of a derivative that neither the derivative nor the formula defines.
std::set<std::string> undefined_symbols(const std::string& formula, const std::string& derivative) {
  static const std::set<std::string> known{
      "Σ",        "i",        "j",       "k",       "sign",  "sin",   "cos",    "mean",
      "onehot",   "softmax",  "and",     "are",     "at",    "axes",  "angles", "broadcast",
      "by",       "chosen",   "each",    "else",    "equal", "first", "for",    "get",
      "gets",     "gradient", "half",    "if",      "in",    "input", "is",     "its",
      "negative", "of",       "over",    "padding", "part",  "sum",   "summed", "the",
      "they",     "through",  "ignored", "value",   "where", "with",  "without"};
  const std::set<std::string> defined = symbols_of(formula);
  std::set<std::string> undefined;
  for (const std::string& symbol : symbols_of(derivative)) {
    const bool here = std::regex_search(derivative, std::regex("(^|[ ,;])" + symbol + " = "));
    if (!known.contains(symbol) && !defined.contains(symbol) && !here) undefined.insert(symbol);
  }
  return undefined;
}

/// The largest relative error of the operation's gradients; infinite if a gradient is inconclusive.
double gradient_error_of(const OperationCase& operation) {
  const Operands leaves = leaves_of(operands_of(operation, DType::float64));
  std::vector<NamedTensor> named;
  for (const Tensor& leaf : leaves) {
    if (leaf.size() > 0) named.push_back({"operand " + std::to_string(named.size()), leaf});
  }
  const GradcheckReport report =
      gradcheck([&] { return operation.run(leaves); }, named, {.max_coordinates = 24});
  const bool conclusive = std::ranges::none_of(report.rows, [](const GradcheckRow& row) {
    return row.verdict == GradcheckVerdict::inconclusive;
  });
  return conclusive ? report.worst_relative_error() : inf;
}

/// Runs every operation on operands of these extents and checks that gradients have the sizes of
/// the operands, and are zero if there are no rows. Returns the names of operations that throw.
std::set<std::string> rejections_of(std::size_t rows, std::size_t n, DType dtype) {
  std::set<std::string> rejected;
  for (const OperationCase& operation : every_operation(rows, n)) {
    CAPTURE(operation.name);
    const Operands operands = operands_of(operation, dtype);
    try {
      const Results results = results_of(operation, dtype);
      for (std::size_t i = 0; i < operands.size(); ++i) {
        CHECK(results.gradients[i].size() == operands[i].size());
        // Operands that still have elements, such as a bias or a transposed operand.
        if (rows == 0)
          CHECK(std::ranges::count(results.gradients[i], 0.0) == std::ssize(results.gradients[i]));
      }
      if (rows == 0) CHECK(std::ranges::count(results.y, 0.0) == std::ssize(results.y));
    } catch (const ShapeError&) {
      rejected.insert(operation.name);
    }
  }
  return rejected;
}

}  // namespace

TEST_CASE("the list of operations contains every differentiable function of autograd/ops") {
  const std::set<std::string> without_gradient{"additive_attention_weights",
                                               "attention_weights",
                                               "equal",
                                               "less",
                                               "less_equal",
                                               "not_equal",
                                               "one_hot",
                                               "to_tensor",
                                               "topk_log_softmax"};
  const std::filesystem::path sources = source_folder();
  const std::string list = read_file(sources / "tests/autograd/edges/every_operation.cpp");
  std::size_t found = 0;
  for (const auto& file : std::filesystem::directory_iterator(sources / "autograd/ops")) {
    if (file.path().extension() != ".h") continue;
    for (const std::string& name : parse_functions(read_file(file.path()))) {
      if (without_gradient.contains(name)) continue;
      CAPTURE(name);
      CHECK(std::regex_search(
          list, std::regex("\\b" + name + "\\((o\\[0\\]|\\{o)|(unary|binary)\\(" + name + "\\)")));
      ++found;
    }
  }
  CHECK(found > 70);
}

TEST_CASE(
    "gradients of every operation agree with finite differences for sizes near the vector width") {
  for_every_operation(3, {1, 2, 5, 8, 17}, [](const OperationCase& operation) {
    // The row of the padding id has no gradient by design; indexing_test checks this.
    if (operation.name == "embedding") return;
    CHECK(gradient_error_of(operation) < 1e-6);
  });
}

TEST_CASE("every operation on many rows is bit-identical on any number of threads") {
  for_every_operation(400, {90}, [](const OperationCase& operation) {
    CHECK(same_on_any_number_of_threads([&] { return results_of(operation, DType::float32); }));
  });
}

// Finite differences check the gradients in float64; float32 is too coarse for differences.
TEST_CASE("values and gradients in float32 agree with float64 up to rounding in every operation") {
  for (const std::size_t rows : {1, 3}) {
    for (std::size_t n = 1; n <= 33; ++n) {
      for_every_operation(rows, {n}, [](const OperationCase& operation) {
        CHECK(difference(results_of(operation, DType::float32),
                         results_of(operation, DType::float64)) < 2e-5);
      });
    }
  }
}

TEST_CASE("every operation rejects mixed element types and lists them in operand order") {
  std::size_t rejected = 0;
  for_every_operation(3, {5}, [&](const OperationCase& operation) {
    const Operands single = operands_of(operation, DType::float32);
    for (std::size_t i = 0; single.size() > 1 && i < single.size(); ++i) {
      CAPTURE(i);
      Operands mixed = single;
      mixed[i] = operands_of(operation, DType::float64)[i];
      check_error<DTypeError>(i == 0 ? "operands are float64 and float32, expected"
                                     : "operands are float32 and float64, expected",
                              [&] { operation.run(mixed); });
      ++rejected;
    }
  });
  CHECK(rejected > 40);
}

TEST_CASE("element-wise operations keep the shape, and are not recorded if no operand is a leaf") {
  for (const DType dtype : dtypes) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{3, 0, 2}, Shape{2, 1, 3}}) {
      for (const OperationCase& operation : every_elementwise_operation(shape)) {
        CAPTURE(operation.name);
        const Tape tape;
        const Tensor y = operation.run(operands_of(operation, dtype));
        CHECK(y.shape() == shape);
        CHECK(y.dtype() == dtype);
        CHECK(tape.size() == 0);
      }
    }
    const auto scalars = every_elementwise_operation({}),
               vectors = every_elementwise_operation({1});
    for (std::size_t i = 0; i < scalars.size(); ++i) {
      CAPTURE(scalars[i].name);
      CHECK(results_of(scalars[i], dtype) == results_of(vectors[i], dtype));
    }
  }
}

TEST_CASE("the gradients of operations on scalars agree with finite differences") {
  const Tensor x = random_leaf({}, 1), y = random_leaf({}, 2);
  const Tensor target = Tensor::scalar(0.25, DType::float64).set_requires_grad(true);
  const std::function<Tensor()> functions[] = {
      [&] { return sum(x); },
      [&] { return mean(x); },
      [&] { return max(x); },
      [&] {
        return stack({x, y, x}, 0);
      },
      [&] {
        return reshape(x, {1, 1});
      },
      [&] { return mean_squared_error(x, y); },
      [&] { return binary_cross_entropy_with_logits(x, target); }};
  for (const auto& f : functions) CHECK(gradient_error(f, {x}) < 1e-6);
}

TEST_CASE("every operation except means over rows accepts 0 rows, with zero gradients") {
  const std::set<std::string> means = {"mean_squared_error", "binary_cross_entropy_with_logits"};
  for (const DType dtype : dtypes) CHECK(rejections_of(0, 5, dtype) == means);
}

TEST_CASE("all operations that do not need a last axis accept rows of 0 elements") {
  const std::set<std::string> expected = {"attention",
                                          "attention with dropout",
                                          "attention with linear biases",
                                          "additive_attention",
                                          "rotary",
                                          "softmax",
                                          "log_softmax",
                                          "layer_norm",
                                          "rms_norm",
                                          "batch_norm",
                                          "batch_norm_given",
                                          "mean_squared_error",
                                          "binary_cross_entropy_with_logits",
                                          "cross_entropy",
                                          "cross_entropy, smoothed",
                                          "max of the rows",
                                          "mean of the rows",
                                          "linear_cross_entropy"};
  for (const DType dtype : dtypes) {
    CHECK(rejections_of(3, 0, dtype) == expected);
    CHECK(rejections_of(0, 0, dtype).contains("softmax"));
  }
}

TEST_CASE("every operation reports its formula and its derivative to an observer") {
  Formulas formulas;
  for_every_operation(2, {4}, [&](const OperationCase& operation) {
    const Operands leaves = leaves_of(operands_of(operation, DType::float64));
    const Tape tape(&formulas);
    operation.run(leaves);
  });
  CHECK(formulas.of.size() > 50);
  CHECK(formulas.of["relu"] == "y = max(x, 0)");
  CHECK(contains(formulas.of["linear"], "Wᵀ"));
}

TEST_CASE("every symbol of a derivative is defined in the derivative or in the formula") {
  CHECK(undefined_symbols("y = −2 x", "dL/dx = c dL/dz, c the factor of x") ==
        std::set<std::string>{"c", "factor", "z"});
  Formulas formulas;
  const auto run = [&](const OperationCase& operation) {
    const Tape tape(&formulas);
    operation.run(leaves_of(operands_of(operation, DType::float64)));
    for (const auto& [name, formula] : formulas.of) {
      const std::string derivative = formulas.derivative_of.at(name);
      CAPTURE(name);
      CAPTURE(formula);
      CAPTURE(derivative);
      for (const std::string& symbol : undefined_symbols(formula, derivative)) FAIL_CHECK(symbol);
    }
    formulas.of.clear();
  };
  for_every_operation(2, {4}, run);
}

TEST_CASE("the formula of an operation contains the values of its attributes") {
  Formulas formulas;
  const Tensor x = Tensor::full({3, 4}, 0.5, DType::float64).set_requires_grad(true);
  const Tape tape(&formulas);
  scale(x, -2.5);
  CHECK(formulas.of["scale"] == "y = -2.5 x");
  CHECK(formulas.derivative_of["scale"] == "dL/dx = -2.5 dL/dy");
  const Ids ids({2}, {0, 1}), labels({3}, {0, 1, 2});
  embedding(x, ids, std::nullopt, 3.0);
  CHECK(contains(formulas.of["embedding"], "3 · W"));
  CHECK(contains(formulas.derivative_of["embedding"], "3 · Σ"));
  embedding(x, ids);
  CHECK(formulas.of["embedding"] == "yᵢ = W[idᵢ]");
  cross_entropy(x, labels, {});
  CHECK(contains(formulas.of["cross_entropy"], "n = 3"));
  CHECK_FALSE(contains(formulas.of["cross_entropy"], "α"));
  cross_entropy(x, labels, {.label_smoothing = 0.25});
  CHECK(contains(formulas.of["cross_entropy"], "α = 0.25"));
}

TEST_CASE(
    "an observer can request separate linear and cross_entropy operations instead of the fused "
    "operation") {
  const Tensor x = Tensor::full({3, 4}, 0.5, DType::float64).set_requires_grad(true);
  for (const bool splits : {false, true}) {
    Formulas formulas;
    formulas.splits = splits;
    const Tape tape(&formulas);
    const Loss loss = linear_cross_entropy(x, x, Tensor(), Ids({3}, {0, 1, 2}), {});
    CHECK(loss.mean.item() == doctest::Approx(std::log(3.0)));
    CHECK(formulas.of.contains("linear_cross_entropy") == !splits);
    CHECK(formulas.of.contains("linear") == splits);
    CHECK(formulas.of.contains("cross_entropy") == splits);
  }
}
