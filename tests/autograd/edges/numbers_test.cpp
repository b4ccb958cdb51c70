// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "autograd/attention_mask.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/indexing.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/losses.h"
#include "autograd/ops/norms.h"
#include "autograd/ops/reductions.h"
#include "tests/autograd/edges/every_operation.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::test;

/// Tests every operation with NaN or an infinity in one element of one operand: at every position
/// in a vector of up to 16 elements, in rows with and without a tail.
namespace {

constexpr std::size_t row_lengths[] = {5, 16, 19, 35};

/// A comparison with NaN is false, and a target of NaN is rejected.
bool takes_nan(const std::string& name, std::size_t which) {
  if (name == "topk") return false;  // NaN is the largest, so that other elements move
  return name != "where" && !(name == "binary_cross_entropy_with_logits" && which == 1);
}

/// Operations whose gradient is dL/dy where they choose a value and 0 elsewhere, independent of the
/// value.
constexpr const char* piecewise_linear[] = {"abs",
                                            "clamp",
                                            "relu",
                                            "relu_dropout",
                                            "maximum",
                                            "max of the middle",
                                            "min of the middle",
                                            "max of the rows",
                                            "minimum of equal shapes",
                                            "sign"};

/// Operations whose results depend on the first operand through a product with 0 or the softmax of
/// one score: NaN changes the results, other numbers do not.
constexpr const char* constant_for_numbers[] = {"attention", "attention with dropout",
                                                "attention with linear biases",
                                                "additive_attention", "rotary"};

bool is_in(std::span<const char* const> names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

/// The operands, with this value at position `at` of operand `which`.
Operands with_value(const Operands& operands, std::size_t which, std::size_t at, double value) {
  Operands changed;
  for (const Tensor& x : operands) changed.push_back(x.detach().clone());
  dispatch(operands[which].dtype(),
           [&]<class T>() { changed[which].mutable_values<T>()[at] = static_cast<T>(value); });
  return changed;
}

/// All values, then all gradients, in one array.
struct Flat {
  std::vector<double> all;
  std::size_t values;  ///< number of values
};

Flat flat_results(const OperationCase& operation, const Operands& operands) {
  const Results results = results_of(operation.run, operands);
  Flat flat{results.y, results.y.size()};
  for (const auto& gradient : results.gradients) {
    flat.all.insert(flat.all.end(), gradient.begin(), gradient.end());
  }
  return flat;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// 'f' for finite, 'n' for NaN, '+' and '-' for infinities.
char value_class(double value) {
  if (std::isnan(value)) return 'n';
  if (std::isfinite(value)) return 'f';
  return value > 0.0 ? '+' : '-';
}

/// Calls use(operation, operands, which, at) for each position of each operand.
template <class Use>
void for_each_position(DType dtype, const Use& use) {
  for (const std::size_t n : row_lengths) {
    for (const OperationCase& operation : every_operation(2, n)) {
      const Operands operands = operands_of(operation, dtype);
      for (std::size_t which = 0; which < operands.size(); ++which) {
        const std::size_t size = operands[which].size();
        for (std::size_t at = 0; at < size; ++at) {
          if (at >= 36 && at + 1 < size) continue;
          INFO(operation.name << " of rows of " << n << ", operand " << which << ", position "
                              << at);
          use(operation, operands, which, at);
        }
      }
    }
  }
}

/// Describes values that are not NaN although they depend on the element, and values that changed
/// although they do not depend on it. A value depends on the element if changing the element
/// changes the value.
std::string faults_of_nan(const OperationCase& operation, const Operands& operands,
                          std::size_t which, std::size_t at) {
  const Flat before = flat_results(operation, operands);
  std::vector<bool> depends(before.all.size(), false);
  const double start = values_of(operands[which])[at];
  for (const double step : {0.25, 0.7, 2.0, 9.0, -0.6, -2.5, -9.0}) {
    if (operation.positive && start + step <= 0.0) continue;
    const Flat moved = flat_results(operation, with_value(operands, which, at, start + step));
    for (std::size_t i = 0; i < depends.size(); ++i) {
      depends[i] = depends[i] || !same(moved.all[i], before.all[i]);
    }
  }
  const Flat found = flat_results(operation, with_value(operands, which, at, not_a_number));
  const bool unchanged_by_numbers = which == 0 && is_in(constant_for_numbers, operation.name);
  std::string faults;
  for (std::size_t i = 0; i < depends.size(); ++i) {
    const bool value = i < before.values;
    const bool may_keep = !value && is_in(piecewise_linear, operation.name);
    const bool right = depends[i] ? std::isnan(found.all[i]) || may_keep
                                  : unchanged_by_numbers || same(found.all[i], before.all[i]);
    if (right) continue;
    faults += (value ? "value " : "gradient ") + std::to_string(value ? i : i - before.values) +
              " is " + std::to_string(found.all[i]) +
              (depends[i] ? "; " : ", but does not depend on the element; ");
    if (faults.size() > 200) break;
  }
  return faults;
}

}  // namespace

TEST_CASE("NaN propagates to all values and gradients that depend on it and to no others") {
  for (const DType dtype : dtypes) {
    for_each_position(
        dtype, [](const auto& operation, const auto& operands, std::size_t which, std::size_t at) {
          if (!takes_nan(operation.name, which)) return;
          CHECK(faults_of_nan(operation, operands, which, at) == "");
        });
  }
}

TEST_CASE(
    "infinities give NaN, infinite and finite results at the same positions in both precisions") {
  for_each_position(DType::float64, [](const auto& operation, const auto& /*operands*/,
                                       std::size_t which, std::size_t at) {
    const auto kinds = [&](DType dtype, double value) {
      const Operands x = with_value(operands_of(operation, dtype), which, at, value);
      std::string text;
      for (const double v : flat_results(operation, x).all) text += value_class(v);
      return text;
    };
    for (const double value : {inf, -inf}) {
      CAPTURE(value);
      CHECK(kinds(DType::float32, value) == kinds(DType::float64, value));
    }
  });
}

TEST_CASE("element-wise operations return their limits for infinities, at every position") {
  for (const DType dtype : dtypes) {
    for (const OperationCase& operation : every_elementwise_operation({35})) {
      const Limits& limits = operation.at_infinity;
      CAPTURE(operation.name);
      const Operands operands = operands_of(operation, dtype);
      const std::vector<double> dy = values_of(upstream_of(operation.run(operands)));
      for (std::size_t at = 0; at < 35; ++at) {
        CAPTURE(at);
        for (const std::size_t side : {0, 1}) {
          const Results found =
              results_of(operation.run, with_value(operands, 0, at, side == 0 ? inf : -inf));
          const double slope = limits.slope[side];
          const double gradient = slope == 0.0 ? 0.0 : slope * dy[at];
          CAPTURE(found.y[at]);
          CAPTURE(found.gradients[0][at]);
          CHECK(same(static_cast<float>(found.y[at]), static_cast<float>(limits.value[side])));
          CHECK(same(static_cast<float>(found.gradients[0][at]), static_cast<float>(gradient)));
        }
      }
    }
  }
}

TEST_CASE("a masked key has gradient 0 where other keys, values or queries are infinite or NaN") {
  constexpr std::size_t queries = 3, keys = 6, width = 4, masked = 4;
  std::vector<std::uint8_t> keep(queries * keys, 1);
  for (std::size_t q = 0; q < queries; ++q) keep[q * keys + masked] = keep[q * keys + 5] = 0;
  const AttentionMask masks[] = {AttentionMask::padding({masked}),
                                 AttentionMask::keep(1, queries, keys, keep)};
  for (const DType dtype : dtypes) {
    for (const AttentionMask& mask : masks) {
      for (const bool additive : {false, true}) {
        for (const double value : {inf, -inf, not_a_number}) {
          CAPTURE(additive);
          CAPTURE(value);
          const OperationCase attention{
              "attention",
              {{1, queries, width}, {1, keys, width}, {1, keys, width}, {1, width}},
              [&](const Operands& o) {
                return additive ? additive_attention(o[0], o[1], o[2], o[3], {.mask = mask})
                                : scaled_dot_product_attention(o[0], o[1], o[2], {.mask = mask});
              }};
          for (const std::size_t which : {0, 1, 2}) {
            CAPTURE(which);
            const Operands x = with_value(operands_of(attention, dtype), which, 1, value);
            const Results found = results_of(attention.run, x);
            for (std::size_t i = 0; i < keys * width; ++i) {
              CAPTURE(i);
              const bool is_masked = i >= masked * width;
              if (!is_masked && !std::isnan(value)) continue;  // tanh(inf) has slope 0
              CHECK((found.gradients[1][i] == 0.0) == is_masked);
              CHECK((found.gradients[2][i] == 0.0) == is_masked);
            }
          }
        }
      }
    }
  }
}

namespace {

/// The smallest normal number of a type, and its smallest subnormal number.
double least_normal(DType dtype) {
  return dispatch(dtype,
                  []<class T>() { return static_cast<double>(std::numeric_limits<T>::min()); });
}
double least(DType dtype) {
  return dispatch(
      dtype, []<class T>() { return static_cast<double>(std::numeric_limits<T>::denorm_min()); });
}

Tensor filled(const Shape& shape, double value, DType dtype) {
  return Tensor::full(shape, value, dtype);
}

/// The operation's value at x, in a full vector and in a tail.
double value_at(const OperationCase& operation, double x, DType dtype) {
  const auto y = values_of(operation.run({filled({35}, x, dtype)}));
  CHECK(y.front() == y.back());
  return y.front();
}

OperationCase elementwise(const std::string& name) {
  for (const OperationCase& operation : every_elementwise_operation({35})) {
    if (operation.name == name) return operation;
  }
  FAIL("there is no operation " << name);
  return {};
}

}  // namespace

TEST_CASE("operations that are near the identity at 0 keep subnormal numbers") {
  for (const DType dtype : dtypes) {
    for (const double x : {least_normal(dtype) / 4, -least_normal(dtype) / 4}) {
      CHECK(value_at(elementwise("neg"), x, dtype) == -x);
      CHECK(value_at(elementwise("scale"), x, dtype) == -2.5 * x);
      CHECK(value_at(elementwise("relu"), x, dtype) == std::max(x, 0.0));
      CHECK(value_at(elementwise("tanh"), x, dtype) == x);
      CHECK(value_at(elementwise("gelu"), x, dtype) == x / 2);
      CHECK(value_at(elementwise("gelu_tanh"), x, dtype) == x / 2);
      CHECK(value_at(elementwise("sigmoid"), x, dtype) == 0.5);
      CHECK(value_at(elementwise("exp"), x, dtype) == 1.0);
      CHECK(value_at(elementwise("square"), x, dtype) == 0.0);
      CHECK(value_at(elementwise("pow 3"), x, dtype) == 0.0);
    }
  }
}

TEST_CASE("sqrt, log and div are as accurate for subnormal numbers as for normal numbers") {
  for (const DType dtype : dtypes) {
    const double x = least_normal(dtype) / 16;
    CHECK(values_of(sqrt(filled({35}, 4 * x, dtype))) == std::vector<double>(35, std::sqrt(4 * x)));
    CHECK(values_of(div(filled({35}, x, dtype), filled({}, 0.5, dtype))) ==
          std::vector<double>(35, 2 * x));
    check_values(div(filled({35}, x, dtype), filled({35}, x / 2, dtype)),
                 std::vector<double>(35, 2.0));
    check_values(log(filled({35}, x, dtype)), std::vector<double>(35, std::log(x)), 1e-6);
  }
}

TEST_CASE("exp underflows gradually to 0 through the subnormal numbers") {
  for (const DType dtype : dtypes) {
    const double edge = std::log(least_normal(dtype));
    for (double x = edge - 40; x < edge + 1; x += 0.125) {
      CAPTURE(x);
      const double rounded = filled({}, x, dtype).item();
      const double y = exp(filled({}, x, dtype)).item();
      CHECK(std::abs(y - std::exp(rounded)) <= 1.01 * least_normal(dtype));
      CHECK(y >= 0.0);
    }
  }
}

TEST_CASE("gradients of quotients of subnormal numbers are correct where the check is conclusive") {
  for (const DType dtype : dtypes) {
    const double x = least_normal(dtype) / 16;
    const Tensor a = filled({35}, x, dtype).set_requires_grad(true);
    const Tensor b = filled({35}, 2.0, dtype).set_requires_grad(true);
    Tape tape;
    tape.backward(div(a, b), filled({35}, 1.0, dtype));
    check_values(a.grad(), std::vector<double>(35, 0.5));
    CHECK(values_of(b.grad())[0] == -x / 4);
    CHECK(values_of(b.grad())[34] == -x / 4);
  }
}

TEST_CASE("softmax and its gradient are correct for subnormal weights") {
  for (const DType dtype : dtypes) {
    const double far = std::log(least_normal(dtype)) - 2;  // e^far is subnormal
    const Tensor x = Tensor::from({2}, {0.0, far}, dtype).set_requires_grad(true);
    Tape tape;
    const Tensor y = softmax(x);
    CHECK(values_of(y)[0] == 1.0);
    CHECK(std::abs(values_of(y)[1] - std::exp(far)) <= least_normal(dtype));
    tape.backward(y, Tensor::from({2}, {1.0, 3.0}, dtype));
    CHECK(std::abs(values_of(x.grad())[0]) <= 4 * least_normal(dtype));
    CHECK(std::abs(values_of(x.grad())[1]) <= 4 * least_normal(dtype));
  }
}

TEST_CASE("sums, products, lookups and attention do not flush subnormal numbers to 0") {
  for (const DType dtype : dtypes) {
    const double tiny = least_normal(dtype) / 64;
    CHECK(sum(filled({40}, tiny, dtype)).item() == 40 * tiny);
    CHECK(values_of(sum(filled({5, 40}, tiny, dtype), {0}))[39] == 5 * tiny);
    CHECK(values_of(linear(filled({3, 20}, tiny, dtype), filled({4, 20}, 1.0, dtype)))[11] ==
          20 * tiny);
    CHECK(values_of(embedding(filled({2, 35}, tiny, dtype), Ids{{1}}))[34] == tiny);
    const Tensor zeros = filled({1, 4, 8}, 0.0, dtype);
    CHECK(values_of(scaled_dot_product_attention(zeros, zeros,
                                                 filled({1, 4, 8}, tiny, dtype)))[0] == tiny);
  }
}

TEST_CASE("no thread of a kernel flushes subnormal numbers to 0") {
  const Threads count(4);
  for (const DType dtype : dtypes) {
    const double x = least(dtype);
    const std::size_t n = 200003;
    CHECK(values_of(elementwise("neg").run({filled({n}, x, dtype)})) == std::vector<double>(n, -x));
  }
}
