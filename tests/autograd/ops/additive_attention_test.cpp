#include "autograd/ops/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

const double undefined = std::numeric_limits<double>::quiet_NaN();
constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// The formula from small operations, which hold (batch, n_q, n_k, d) at once; `bias` is added to
/// the scores of each head.
Tensor composed(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w,
                const Tensor& bias) {
  const std::size_t batch = q.shape()[0], n_q = q.shape()[1], n_k = k.shape()[1];
  const std::size_t heads = w.shape()[0], d = w.shape()[1], d_v = v.shape()[2] / heads;
  std::vector<Tensor> outputs;
  for (std::size_t h = 0; h < heads; ++h) {
    const Tensor queries = reshape(slice(q, -1, h * d, (h + 1) * d), {batch, n_q, 1, d});
    const Tensor keys = reshape(slice(k, -1, h * d, (h + 1) * d), {batch, 1, n_k, d});
    const Tensor scores = sum(tanh(queries + keys) * select(w, 0, static_cast<int>(h)), {-1});
    outputs.push_back(matmul(softmax(scores + bias), slice(v, -1, h * d_v, (h + 1) * d_v)));
  }
  return concat(outputs, -1);
}

struct Results {
  std::vector<double> y, dq, dk, dv, dw;
  bool operator==(const Results&) const = default;
};

/// The value, and the gradients for uneven upstream ones, on leaves with these values.
template <class F>
Results results_of(const F& function, const Tensor& q, const Tensor& k, const Tensor& v,
                   const Tensor& w) {
  const auto leaf = [](const Tensor& x) { return x.copied(x.dtype()).require_gradient(); };
  const Tensor own[] = {leaf(q), leaf(k), leaf(v), leaf(w)};
  Tape tape;
  const Tensor y = function(own[0], own[1], own[2], own[3]);
  tape.backward(y, random_leaf(y.shape(), 77).copied(y.dtype()));
  return {values_of(y), values_of(own[0].gradient()), values_of(own[1].gradient()),
          values_of(own[2].gradient()), values_of(own[3].gradient())};
}

Results fused_results(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& w,
                      const AttentionOptions& options) {
  return results_of([&](const auto&... x) { return additive_attention(x..., options); }, q, k, v,
                    w);
}

void check_close(const Results& a, const Results& b, double tolerance) {
  const auto all_close = [&](const std::vector<double>& x, const std::vector<double>& y) {
    REQUIRE(x.size() == y.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(x[i] == doctest::Approx(y[i]).epsilon(tolerance).scale(1.0));
    }
  };
  all_close(a.y, b.y), all_close(a.dq, b.dq), all_close(a.dk, b.dk);
  all_close(a.dv, b.dv), all_close(a.dw, b.dw);
}

bool zeros(const std::vector<double>& x, std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i) {
    if (x[i] != 0.0) return false;
  }
  return true;
}

}  // namespace

TEST_CASE("scores w tanh(q + k) of 0 and ln 3 give the weights 1/4 and 3/4") {
  for (const DType dtype : dtypes) {
    const Tensor q = Tensor::from({1, 1, 1}, {0.25}, dtype);
    const Tensor k = Tensor::from({1, 2, 1}, {-0.25, std::atanh(0.5) - 0.25}, dtype);
    const Tensor v = Tensor::from({1, 2, 1}, {10, 20}, dtype);
    const Tensor w = Tensor::from({1, 1}, {2 * std::log(3.0)}, dtype);
    check_values(additive_attention_weights(q, k, w), {0.25, 0.75}, tolerance(dtype));
    check_values(additive_attention(q, k, v, w), {17.5}, tolerance(dtype));
    const double root = std::sqrt(3.0);
    check_values(additive_attention_weights(q, k, w, {.scale = 0.5}),
                 {1 / (1 + root), root / (1 + root)}, tolerance(dtype));
  }
}

TEST_CASE("additive attention equals its composition, values and gradients") {
  const Tensor q = random_leaf({2, 3, 10}, 1);
  const Tensor k = random_leaf({2, 21, 10}, 2);
  const Tensor v = random_leaf({2, 21, 6}, 3);
  const Tensor w = random_leaf({2, 5}, 4);
  std::vector<double> hidden(2 * 21, 0.0);
  for (std::size_t j = 18; j < 21; ++j) hidden[21 + j] = minus_infinity;
  const Tensor bias = Tensor::from({2, 1, 21}, hidden, DType::float64);
  const auto plain = results_of([&](const auto&... x) { return composed(x..., bias); }, q, k, v, w);
  check_close(fused_results(q, k, v, w, {.num_heads = 2, .mask = AttentionMask::padding({21, 18})}),
              plain, 1e-12);
}

TEST_CASE("additive attention of several tiles equals its composition for each head and sentence") {
  const std::size_t lengths[][2] = {{70, 66}, {70, 20}};  // weights computed again, and kept
  for (const auto& n : lengths) {
    const std::size_t n_q = n[0], n_k = n[1];
    CAPTURE(n_k);
    const Tensor q = random_leaf({2, n_q, 6}, 1), k = random_leaf({2, n_k, 6}, 2);
    const Tensor v = random_leaf({2, n_k, 4}, 3), w = random_leaf({2, 3}, 4);
    std::vector<double> hidden(2 * n_k, 0.0);
    for (std::size_t j = 11; j < n_k; ++j) hidden[n_k + j] = minus_infinity;
    const Tensor bias = Tensor::from({2, 1, n_k}, hidden, DType::float64);
    const auto plain =
        results_of([&](const auto&... x) { return composed(x..., bias); }, q, k, v, w);
    const AttentionMask mask = AttentionMask::padding({static_cast<std::int32_t>(n_k), 11});
    check_close(fused_results(q, k, v, w, {.num_heads = 2, .mask = mask}), plain, 1e-11);
  }
}

TEST_CASE("any two of the operands of additive attention may be one tensor") {
  const Tensor x = random_leaf({2, 3, 4}, 1), other = random_leaf({2, 3, 4}, 2);
  const Tensor w = random_leaf({2, 2}, 3);
  const auto run = [&](const Tensor& q, const Tensor& k, const Tensor& v) {
    return [=] { return additive_attention(q, k, v, w, {.num_heads = 2}); };
  };
  CHECK(gradient_error(run(x, x, other), {x, other, w}) < 1e-6);
  CHECK(gradient_error(run(x, other, x), {x, other, w}) < 1e-6);
  CHECK(gradient_error(run(other, x, x), {x, other, w}) < 1e-6);
}

TEST_CASE("sequences longer than a tile give the values and gradients of the composed form") {
  const Tensor q = random_leaf({1, 150, 3}, 1);
  const Tensor v = random_leaf({1, 150, 2}, 2);
  const Tensor w = random_leaf({1, 3}, 3);
  std::vector<double> hidden(150 * 150, minus_infinity);
  for (std::size_t i = 0; i < 150; ++i) {
    for (std::size_t j = i < 40 ? 0 : i - 40; j <= i; ++j) hidden[i * 150 + j] = 0.0;
  }
  const Tensor bias = Tensor::from({1, 150, 150}, hidden, DType::float64);
  const auto plain = results_of([&](const auto&... x) { return composed(x..., bias); }, q, q, v, w);
  const AttentionMask mask = AttentionMask::causal() & AttentionMask::window(40);
  check_close(fused_results(q, q, v, w, {.mask = mask}), plain, 1e-11);
}

TEST_CASE("the gradients of additive attention agree with differences under every mask") {
  const AttentionMask masks[] = {
      AttentionMask(), AttentionMask::causal(), AttentionMask::padding({2, 0}),
      AttentionMask::window(1), AttentionMask::keep(1, 5, 5, {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1,
                                                              1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 1, 0})};
  for (const AttentionMask& mask : masks) {
    const std::size_t batch = &mask == &masks[4] ? 1 : 2;
    const Tensor q = random_leaf({batch, 5, 4}, 1);
    const Tensor k = random_leaf({batch, 5, 4}, 2);
    const Tensor v = random_leaf({batch, 5, 6}, 3);
    const Tensor w = random_leaf({2, 2}, 4);
    for (const double rate : {0.0, 0.4}) {
      const AttentionOptions options{
          .num_heads = 2, .mask = mask, .dropout = rate, .random = RandomStream(5)};
      CHECK(gradient_error([&] { return additive_attention(q, k, v, w, options); }, {q, k, v, w}) <
            1e-6);
    }
  }
}

TEST_CASE("a scale multiplies additive scores, in the gradients too") {
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const Tensor w = random_leaf({2, 2}, 2);
  const AttentionOptions options{.num_heads = 2, .scale = 0.3};
  CHECK(gradient_error([&] { return additive_attention(x, x, x, w, options); }, {x, w}) < 1e-6);
}

TEST_CASE("additive attention computes only the gradients that are required") {
  const Tensor x = random_leaf({2, 3, 4}, 1), w = random_leaf({2, 2}, 2);
  const Tensor fixed = random_leaf({2, 3, 4}, 3).copied(DType::float64);
  const Tensor fixed_w = w.copied(DType::float64);
  const AttentionOptions options{.num_heads = 2};
  const auto run = [&](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& weight) {
    return [=] { return additive_attention(q, k, v, weight, options); };
  };
  CHECK(gradient_error(run(x, fixed, fixed, fixed_w), {x}) < 1e-6);
  CHECK(gradient_error(run(fixed, x, fixed, fixed_w), {x}) < 1e-6);
  CHECK(gradient_error(run(fixed, fixed, x, fixed_w), {x}) < 1e-6);
  CHECK(gradient_error(run(fixed, fixed, fixed, w), {w}) < 1e-6);
}

TEST_CASE("additive attention: a query that may attend to no key gives 0 with zero gradient") {
  const Tensor q = random_leaf({2, 2, 4}, 1);
  const Tensor k = random_leaf({2, 3, 4}, 2);
  const Tensor w = random_leaf({2, 2}, 3);
  const Results results =
      fused_results(q, k, k, w, {.num_heads = 2, .mask = AttentionMask::padding({0, 3})});
  CHECK(zeros(results.y, 0, 8));
  CHECK(zeros(results.dq, 0, 8));
  CHECK(zeros(results.dk, 0, 12));
  CHECK_FALSE(zeros(results.y, 8, 16));
  const Results nothing =
      fused_results(q, k, k, w, {.num_heads = 2, .mask = AttentionMask::padding({0, 0})});
  CHECK(zeros(nothing.dw, 0, 4));
}

TEST_CASE("additive attention: NaN and infinity at masked keys change no value and no gradient") {
  constexpr std::size_t n_q = 70, n_k = 67;  // more than one tile
  std::vector<std::uint8_t> keep(n_q * n_k, 1);
  for (std::size_t i = 0; i < n_q; ++i) keep[i * n_k + n_k - 1] = 0;
  const auto with_last_row = [](const Tensor& x, double value) {
    auto values = values_of(x);
    std::fill(values.end() - 4, values.end(), value);
    return Tensor::from(x.shape(), values, x.dtype());
  };
  for (const DType dtype : dtypes) {
    const Tensor q = random_leaf({1, n_q, 4}, 1).copied(dtype);
    const Tensor k = with_last_row(random_leaf({1, n_k, 4}, 2).copied(dtype), 0.0);
    const Tensor w = random_leaf({2, 2}, 3).copied(dtype);
    for (const AttentionMask& mask :
         {AttentionMask::padding({n_k - 1}), AttentionMask::keep(1, n_q, n_k, keep)}) {
      const AttentionOptions options{
          .num_heads = 2, .mask = mask, .dropout = 0.3, .random = RandomStream(5)};
      const Results expected = fused_results(q, k, k, w, options);
      for (const double hidden : {undefined, minus_infinity, -minus_infinity}) {
        const Tensor bad = with_last_row(k, hidden);
        check_close(fused_results(q, bad, bad, w, options), expected, 1e-5);
      }
    }
  }
}

TEST_CASE("additive attention with saturated and infinite sums has scores +-w, finite gradients") {
  for (const DType dtype : dtypes) {
    const Tensor q = Tensor::from({1, 1, 1}, {0}, dtype);
    const Tensor k = Tensor::from({1, 3, 1}, {1e4, -1e4, -minus_infinity}, dtype);
    const Tensor v = Tensor::from({1, 3, 1}, {1, 2, 3}, dtype);
    const Tensor w = Tensor::from({1, 1}, {0.5}, dtype);
    const double e = std::exp(1.0);
    const Results results = fused_results(q, k, v, w, {});
    CHECK(results.y[0] == doctest::Approx((4 * e + 2) / (2 * e + 1)));
    CHECK(zeros(results.dq, 0, 1));
    CHECK(zeros(results.dk, 0, 3));
    CHECK(std::isfinite(results.dw[0]));
  }
}

TEST_CASE("additive attention has the same bits on any number of threads") {
  const Tensor x = random_leaf({3, 100, 8}, 1).copied(DType::float32);
  const Tensor w = random_leaf({2, 4}, 2).copied(DType::float32);
  CHECK(same_on_any_number_of_threads([&] {
    return fused_results(x, x, x, w, {.num_heads = 2, .dropout = 0.1, .random = RandomStream(1)});
  }));
}

TEST_CASE("additive attention refuses shapes that do not fit, with the expected shape") {
  const auto of = [](const Shape& shape) { return Tensor::zeros(shape, DType::float32); };
  CHECK_THROWS_WITH_AS(
      additive_attention(of({2, 3, 4}), of({2, 3, 4}), of({2, 3, 4}), of({4}), {.num_heads = 2}),
      "additive_attention: w has shape (4), expected (2, 2) (q is (2, 3, 4), 2 heads)", ShapeError);
  CHECK_THROWS_WITH_AS(
      additive_attention(of({2, 3, 4}), of({1, 3, 4}), of({2, 3, 4}), of({1, 4})),
      "additive_attention: q has shape (2, 3, 4) and k (1, 3, 4), expected equal first and last "
      "axes",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      additive_attention(of({2, 3, 4}), of({2, 3, 4}), of({2, 2, 4}), of({1, 4})),
      "additive_attention: k has shape (2, 3, 4) and v (2, 2, 4), expected equal first two axes",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      additive_attention(of({2, 3, 4}), of({2, 5, 3}), of({2, 5, 4}), of({2, 2}), {.num_heads = 2}),
      "additive_attention: k has shape (2, 5, 3), expected (batch, length, 2 heads * width)",
      ShapeError);
  CHECK_THROWS_WITH_AS(
      additive_attention(of({2, 3, 4}), of({2, 5, 4}), of({2, 5, 3}), of({2, 2}), {.num_heads = 2}),
      "additive_attention: v has shape (2, 5, 3), expected (batch, length, 2 heads * width)",
      ShapeError);
  for (const Shape& w : {Shape{2, 3}, Shape{1, 2}, Shape{2, 2, 1}}) {
    CHECK_THROWS_AS(
        additive_attention_weights(of({2, 3, 4}), of({2, 3, 4}), of(w), {.num_heads = 2}),
        ShapeError);
  }
  CHECK_THROWS_AS(additive_attention_weights(of({2, 3, 4}), of({2, 3, 4}),
                                             Tensor::zeros({1, 4}, DType::float64)),
                  DTypeError);
}
