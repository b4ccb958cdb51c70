// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/norms.h"
#include "autograd/random.h"
#include "tests/autograd/edges/every_operation.h"

using namespace tapestry;
using namespace tapestry::test;

/// Tests that gradients of every operation accumulate over uses, operands, tapes and rows.
namespace {

std::vector<double> plus(std::vector<double> a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

/// Checks that operands `first` and `second` may be the same tensor.
void check_sharing(const OperationCase& operation, std::size_t first, std::size_t second) {
  Operands operands = operands_of(operation, DType::float64);
  operands[second] = operands[first];
  const Results apart = results_of(operation.run, operands);

  Operands leaves = leaves_of(operands);
  leaves[second] = leaves[first];
  Tape tape;
  const Tensor y = operation.run(leaves);
  tape.backward(y, upstream_of(y));
  CHECK(values_of(y) == apart.y);
  CHECK(difference(values_of(leaves[first].grad()),
                   plus(apart.gradients[first], apart.gradients[second])) < 1e-12);
}

/// Runs the operation on copies of the leaves and returns a copy of the result. The result and the
/// copied leaves are destroyed on return.
Tensor copy_of_result(const OperationCase& operation, const Operands& leaves) {
  Operands copies;
  for (const Tensor& leaf : leaves) copies.push_back(scale(leaf, 1.0));
  return scale(operation.run(copies), 1.0);
}

/// Fills the blocks that the pool would use next for tensors of these sizes with NaN.
void scribble(const Operands& like) {
  Operands taken;
  for (const Tensor& x : like) {
    for (int block = 0; block < 4; ++block) {
      taken.push_back(Tensor::full(x.shape(), not_a_number, x.dtype()));
    }
  }
}

/// Results of every operation on small operands.
std::vector<Results> all_results() {
  std::vector<Results> results;
  for (const OperationCase& operation : every_operation(3, 9)) {
    results.push_back(results_of(operation, DType::float32));
  }
  return results;
}

}  // namespace

TEST_CASE("gradients of every operation are added to an existing gradient") {
  for_every_operation(3, {1, 5, 19}, [](const OperationCase& operation) {
    const Operands leaves = leaves_of(operands_of(operation, DType::float64));
    for (int pass = 0; pass < 2; ++pass) {  // two uses on each of two tapes
      Tape tape;
      const Tensor y = operation.run(leaves) + operation.run(leaves);
      tape.backward(y, upstream_of(y));
    }
    std::vector<std::vector<double>> expected = results_of(operation, DType::float64).gradients;
    for (std::size_t i = 0; i < leaves.size(); ++i) {
      for (double& g : expected[i]) g *= 4.0;
      CHECK(difference(values_of(leaves[i].grad()), expected[i]) < 1e-12);
    }
  });
}

TEST_CASE("a tensor used as two operands of an operation gets the gradients of both") {
  std::size_t pairs = 0;
  for_every_operation(3, {1, 5, 19}, [&](const OperationCase& operation) {
    for (std::size_t j = 1; j < operation.shapes.size(); ++j) {
      for (std::size_t i = 0; i < j; ++i) {
        if (operation.shapes[i] != operation.shapes[j]) continue;
        check_sharing(operation, i, j);
        ++pairs;
      }
    }
  });
  CHECK(pairs >= 30);
}

TEST_CASE("the gradient of an operand does not depend on which other operands require gradients") {
  for_every_operation(3, {1, 5, 19}, [](const OperationCase& operation) {
    const Operands operands = operands_of(operation, DType::float64);
    const Results all = results_of(operation, DType::float64);
    for (std::size_t only = 0; only < operands.size(); ++only) {
      Operands mixed = operands;
      mixed[only] = operands[only].detach().to(DType::float64).set_requires_grad(true);
      Tape tape;
      const Tensor y = operation.run(mixed);
      tape.backward(y, upstream_of(y));
      for (std::size_t i = 0; i < mixed.size(); ++i) {
        CHECK(gradient_values(mixed)[i] == (i == only ? all.gradients[i] : std::vector<double>()));
      }
    }
  });
}

TEST_CASE("every operation keeps what backward needs after its operands and result are destroyed") {
  for_every_operation(3, {1, 9, 40}, [](const OperationCase& operation) {
    const Operands leaves = leaves_of(operands_of(operation, DType::float64));
    Tape tape;
    const Tensor y = copy_of_result(operation, leaves);
    scribble(leaves);
    scribble({y});
    tape.backward(y, upstream_of(y));
    CHECK(gradient_values(leaves) == results_of(operation, DType::float64).gradients);
  });
}

TEST_CASE("the results of every operation outlive the tape that recorded them") {
  for_every_operation(3, {9}, [](const OperationCase& operation) {
    const Operands operands = operands_of(operation, DType::float64);
    std::optional<Tape> tape(std::in_place);
    const Tensor y = operation.run(leaves_of(operands));
    tape.reset();
    scribble(operands);
    CHECK(values_of(y) == results_of(operation, DType::float64).y);
  });
}

TEST_CASE(
    "every operation gives the same results on two threads with separate tapes as on one thread") {
  const std::vector<Results> alone = all_results();
  std::vector<std::size_t> wrong(2, 0);
  const auto work = [&](std::size_t thread) {
    for (int repeat = 0; repeat < 10; ++repeat) wrong[thread] += all_results() != alone;
  };
  std::thread first(work, 0), second(work, 1);
  first.join();
  second.join();
  CHECK(wrong == std::vector<std::size_t>{0, 0});
}

/// Tests row-wise operations on enough rows to be divided into pieces and blocks. Each range of
/// rows must have the same results as a separate call with only these rows, which needs one piece
/// and one block.
namespace {

constexpr std::size_t many_rows = 200, row_length = 90, rows_of_part = 16;
static_assert(many_rows * row_length > kernels::elements_per_piece);
static_assert(rows_of_part * 4 * row_length < kernels::elements_per_piece);

/// Operations whose results depend on the position of a row or on several rows.
constexpr const char* exceptions[] = {"dropout",
                                      "dropout at rate 1",
                                      "dropout_add",
                                      "residual_add",
                                      "relu_dropout",
                                      "attention with dropout",
                                      "embedding",
                                      "cross_entropy",
                                      "cross_entropy, smoothed",
                                      "linear_cross_entropy",
                                      "mean_squared_error",
                                      "binary_cross_entropy_with_logits",
                                      "batch_norm",
                                      "matmul, transposed",
                                      "concat of equal shapes",
                                      "permute",
                                      "permute, last axis kept",
                                      "transpose",
                                      "reshape",
                                      "sum of the ends",
                                      "sum",
                                      "sum_to_shape"};

bool works_by_rows(const OperationCase& operation) {
  return std::ranges::find(exceptions, operation.name) == std::end(exceptions);
}

bool has_rows(const Tensor& x) { return x.rank() > 0 && x.shape()[0] == many_rows; }

/// Rows [begin, end) of x.
Tensor part_of(const Tensor& x, std::size_t begin, std::size_t end) {
  const std::size_t width = x.size() / x.shape()[0];
  const auto values = values_of(x);
  Shape shape = x.shape();
  shape[0] = end - begin;
  return Tensor::from(
      shape,
      std::vector<double>(values.begin() + static_cast<std::ptrdiff_t>(begin * width),
                          values.begin() + static_cast<std::ptrdiff_t>(end * width)),
      x.dtype());
}

struct Run {
  Operands leaves;
  Tensor y;
};

/// Runs the operation and backward on leaves whose gradients start as ones.
Run run(const OperationCase& operation, const Operands& operands, const Tensor& dy) {
  Run result{.leaves = leaves_of(operands), .y = {}};
  for (const Tensor& leaf : result.leaves) {
    leaf.slot()->add(Tensor::full(leaf.shape(), 1.0, leaf.dtype()));
  }
  Tape tape;
  result.y = operation.run(result.leaves);
  tape.backward(result.y, dy);
  return result;
}

/// Checks an operation on every range of rows. Also checks that the contributions of the ranges to
/// the gradients of operands without rows add up.
void check_parts(const OperationCase& operation) {
  const Operands operands = operands_of(operation, DType::float64);
  const Tensor dy = upstream_of(operation.run(operands));
  const Run whole = run(operation, operands, dy);
  std::vector<std::vector<double>> sums;
  for (const Tensor& x : operands) sums.emplace_back(x.size(), 1.0);
  double worst = 0.0;
  for (std::size_t begin = 0; begin < many_rows; begin += rows_of_part) {
    const std::size_t end = std::min(many_rows, begin + rows_of_part);
    const auto own = [&](const Tensor& x) { return has_rows(x) ? part_of(x, begin, end) : x; };
    Operands parts;
    for (const Tensor& x : operands) parts.push_back(own(x));
    const Run alone = run(operation, parts, own(dy));
    worst = std::max(worst, difference(values_of(own(whole.y)), values_of(alone.y)));
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto gradient = values_of(alone.leaves[i].grad());
      if (has_rows(operands[i])) {
        worst = std::max(worst, difference(values_of(own(whole.leaves[i].grad())), gradient));
      } else {
        for (std::size_t j = 0; j < gradient.size(); ++j) sums[i][j] += gradient[j] - 1.0;
      }
    }
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (has_rows(operands[i])) continue;
    worst = std::max(worst, difference(values_of(whole.leaves[i].grad()), sums[i]));
  }
  CHECK(worst < 1e-11);
}

}  // namespace

TEST_CASE("every range of many rows has the same values and gradients as in a separate call") {
  std::size_t checked = 0;
  for (const OperationCase& operation : every_operation(many_rows, row_length)) {
    if (!works_by_rows(operation)) continue;
    CAPTURE(operation.name);
    check_parts(operation);
    ++checked;
  }
  CHECK(checked > 40);
}

/// Compares float32 gradients that are sums over very many rows with float64, for the same
/// operands.
namespace {

constexpr std::size_t very_many = 200'000, width = 5;

/// Values of mean `mean` and standard deviation 0.58, exact in float32.
Tensor uneven(const Shape& shape, double mean, const char* name) {
  const RandomStream random = RandomStream(7).named(name);
  std::vector<double> values(shape.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(static_cast<float>(mean + 2.0 * random.uniform(i) - 1.0));
  }
  return Tensor::from(shape, values, DType::float64);
}

struct Sum {
  std::string name;
  std::vector<Tensor> operands;
  std::function<Tensor(const std::vector<Tensor>&)> run;
  /// The largest errors allowed for dL/dy with mean 0, and for dL/dy with a nonzero mean. PyTorch
  /// 2.13 has errors of 3e-6 to 4e-5 for norms of such operands, and of 1e-5 for linear.
  double without_mean = 6e-7, with_mean = 6e-7;
};

/// The gradients of the operands that do not have `very_many` rows, in operand order.
std::vector<std::vector<double>> summed_gradients(const Sum& sum, double mean, DType dtype) {
  std::vector<Tensor> leaves;
  for (const Tensor& operand : sum.operands) {
    leaves.push_back(operand.detach().to(dtype));
    if (operand.shape()[0] != very_many) leaves.back().set_requires_grad(true);
  }
  Tape tape;
  const Tensor y = sum.run(leaves);
  tape.backward(y, uneven(y.shape(), mean, "dy").detach().to(dtype));
  std::vector<std::vector<double>> gradients;
  for (const Tensor& leaf : leaves) {
    if (leaf.grad().defined()) gradients.push_back(values_of(leaf.grad()));
  }
  return gradients;
}

/// The largest error of the gradients, relative to their largest value.
double worst_error(const Sum& sum, double mean) {
  const auto single = summed_gradients(sum, mean, DType::float32);
  const auto exact = summed_gradients(sum, mean, DType::float64);
  double worst = 0.0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    double largest = 0.0, difference = 0.0;
    for (std::size_t j = 0; j < exact[i].size(); ++j) {
      largest = std::max(largest, std::abs(exact[i][j]));
      difference = std::max(difference, std::abs(single[i][j] - exact[i][j]));
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

std::vector<Sum> sums() {
  const Tensor x = uneven({very_many, width}, 0.0, "x");
  const Tensor weight = Tensor::ones({width}, DType::float64),
               bias = Tensor::zeros({width}, DType::float64);
  Ids labels = Ids::zeros({very_many});
  for (std::size_t i = 0; i < very_many; ++i) labels[i] = static_cast<std::int32_t>(i * i % 7);

  return {
      {"layer_norm",
       {x, weight, bias},
       [](const Operands& o) { return layer_norm(o[0], o[1], o[2]); }},
      {"rms_norm", {x, weight}, [](const Operands& o) { return rms_norm(o[0], o[1]); }},
      {"batch_norm",
       {x, weight, bias},
       [](const Operands& o) { return batch_norm(o[0], o[1], o[2], 1e-5); },
       6e-7,
       2e-5},
      {"linear",
       {x, uneven({3, width}, 0.0, "weight"), Tensor::zeros({3}, DType::float64)},
       [](const Operands& o) { return linear(o[0], o[1], o[2]); },
       2e-6,
       2e-6},
      {"add", {x, bias}, [](const Operands& o) { return o[0] + o[1]; }},
      {"mul", {x, weight}, [](const Operands& o) { return o[0] * o[1]; }},
      {"linear_cross_entropy",
       {x, uneven({7, width}, 0.0, "weight"), Tensor::zeros({7}, DType::float64)},
       [=](const Operands& o) { return linear_cross_entropy(o[0], o[1], o[2], labels, {}).mean; },
       2e-6,
       2e-6},
  };
}

}  // namespace

TEST_CASE("float32 gradients summed over very many rows are accurate to a few rounding errors") {
  for (const Sum& sum : sums()) {
    for (const double mean : {0.0, 1.5}) {
      CAPTURE(sum.name);
      CAPTURE(mean);
      CHECK(worst_error(sum, mean) < (mean == 0.0 ? sum.without_mean : sum.with_mean));
    }
  }
}
