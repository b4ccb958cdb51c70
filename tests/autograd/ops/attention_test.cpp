// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/ops/attention.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>
#include <set>
#include <string>

#include "autograd/error.h"
#include "autograd/kernels/attention_tile.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/reductions.h"
#include "autograd/ops/shape_ops.h"
#include "tests/autograd/ops/attend.h"
#include "tests/support/cases.h"
#include "tests/support/gradients.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

std::vector<double> slopes(std::size_t heads) {
  std::vector<double> all;
  for (std::size_t h = 0; h < heads; ++h) all.push_back(kernels::alibi_slope(h, heads));
  return all;
}

/// The bias of the scores of a head: -inf at masked keys, and the distances of ALiBi.
Tensor bias(const AttentionOptions& options, std::size_t head, const Shape& shape) {
  Tensor result = Tensor::full(shape, -inf, DType::float64);
  const std::size_t n_q = shape[1], n_k = shape[2];
  for (std::size_t b = 0; b < shape[0]; ++b) {
    for (std::size_t i = 0; i < n_q; ++i) {
      const auto [first, last] = options.mask.keys(b, i, n_q, n_k);
      const std::uint8_t* const keep = options.mask.keep_row(b, i);
      for (std::size_t j = first; j < last; ++j) {
        if (keep != nullptr && keep[j] == 0) continue;
        const double position = static_cast<double>(i + n_k) - static_cast<double>(n_q);
        const double slope = options.alibi ? slopes(options.num_heads)[head] : 0.0;
        result.mutable_values<double>()[(b * n_q + i) * n_k + j] =
            -slope * std::abs(position - static_cast<double>(j));
      }
    }
  }
  return result;
}

/// Attention composed of small operations on q, k, v and, for additive scores, w.
Tensor composed(const Operands& o, const AttentionOptions& options) {
  const bool additive = o.size() == 4;
  const std::size_t batch = o[0].shape()[0], n_q = o[0].shape()[1], n_k = o[1].shape()[1];
  const std::size_t heads = options.num_heads;
  const std::size_t d = o[0].shape()[2] / heads, d_v = o[2].shape()[2] / heads;
  const double root = 1.0 / std::sqrt(static_cast<double>(d));
  const auto part = [](const Tensor& x, std::size_t h, std::size_t width) {
    return slice(x, -1, static_cast<std::ptrdiff_t>(h * width),
                 static_cast<std::ptrdiff_t>((h + 1) * width));
  };
  std::vector<Tensor> outputs;
  for (std::size_t h = 0; h < heads; ++h) {
    const Tensor q = part(o[0], h, d), k = part(o[1], h, d);
    const Tensor products =
        additive ? sum(tanh(reshape(q, {batch, n_q, 1, d}) + reshape(k, {batch, 1, n_k, d})) *
                           select(o[3], 0, static_cast<std::ptrdiff_t>(h)),
                       {-1})
                 : matmul(q, k, {.transpose_b = true});
    const Tensor scores = products * options.scale.value_or(additive ? 1.0 : root);
    outputs.push_back(
        matmul(softmax(scores + bias(options, h, {batch, n_q, n_k})), part(o[2], h, d_v)));
  }
  return concat(outputs, -1);
}

Tensor fused(const Operands& o, const AttentionOptions& options) {
  return o.size() == 4 ? additive_attention(o[0], o[1], o[2], o[3], options)
                       : scaled_dot_product_attention(o[0], o[1], o[2], options);
}

/// Random operands with heads of width 3 for keys and 2 for values.
Operands random_operands(bool additive, std::size_t batch, std::size_t n_q, std::size_t n_k,
                         std::size_t heads) {
  Operands o{random_leaf({batch, n_q, heads * 3}, 1), random_leaf({batch, n_k, heads * 3}, 2),
             random_leaf({batch, n_k, heads * 2}, 3)};
  if (additive) o.push_back(random_leaf({heads, 3}, 4));
  return o;
}

}  // namespace

TEST_CASE("attention gives hand-worked weights and values") {
  std::vector<double> keys(128, 1.0);
  for (std::size_t i = 64; i < 128; ++i) keys[i] = 96.0 / 112.0;
  const double e2 = std::exp(2.0), root3 = std::sqrt(3.0), root2 = std::sqrt(2.0);
  const double a = std::exp(root2 / 2) / (1 + std::exp(root2 / 2));  // softmax of 1.41 and 0.71
  const Tensor unit = exact({1, 2, 2}, {1, 0, 0, 1});
  const Tensor two_keys = exact({1, 2, 1}, {0, ln3});
  const auto weights = [](const AttentionOptions& options) {
    return [=](const Operands& o) { return attention_weights(o[0], o[1], options); };
  };
  const auto additive_weights = [](const AttentionOptions& options) {
    return [=](const Operands& o) { return additive_attention_weights(o[0], o[1], o[2], options); };
  };
  const double atanh_half = std::atanh(0.5);
  const Operands additive{exact({1, 1, 1}, {0.25}), exact({1, 2, 1}, {-0.25, atanh_half - 0.25}),
                          exact({1, 1}, {2 * ln3})};
  check_worked({
      worked("scores 112 and 96 with d_k = 64 are 14 and 12",
             {Tensor::full({1, 1, 64}, 112.0 / 64.0, DType::float64), exact({1, 2, 64}, keys)},
             weights({}), exact({1, 1, 1, 2}, {e2 / (1 + e2), 1 / (1 + e2)})),
      worked(
          "queries (1,2) and (1,1) over unit keys and values",
          {exact({1, 2, 2}, {1, 2, 1, 1}), unit, unit},
          [](const Operands& o) { return scaled_dot_product_attention(o[0], o[1], o[2]); },
          exact({1, 2, 2}, {1 - a, a, 0.5, 0.5})),
      worked("a given scale", {exact({1, 1, 1}, {2}), two_keys}, weights({.scale = 0.5}),
             exact({1, 1, 1, 2}, {0.25, 0.75})),
      worked("a scale of 0", {exact({1, 1, 1}, {2}), two_keys}, weights({.scale = 0.0}),
             exact({1, 1, 1, 2}, {0.5, 0.5})),
      // The scores w tanh(q + k) of the two keys are 0 and ln 3.
      worked("additive scores", additive, additive_weights({}), exact({1, 1, 1, 2}, {0.25, 0.75})),
      worked("scaled additive scores", additive, additive_weights({.scale = 0.5}),
             exact({1, 1, 1, 2}, {1 / (1 + root3), root3 / (1 + root3)})),
  });
}

TEST_CASE("attention and its gradients are equal to a composition of small operations") {
  struct Case {
    std::size_t n_q, n_k;
    AttentionOptions options;
  };
  const AttentionMask window = AttentionMask::causal() & AttentionMask::window(40);
  std::vector<std::uint8_t> keep(2 * 5 * 5, 1);
  for (std::size_t i = 0; i < keep.size(); i += 3) keep[i] = 0;
  std::fill_n(keep.begin() + 10, 5, std::uint8_t{0});
  const Case cases[] = {
      {3, 5, {}},
      {5, 5, {.num_heads = 2, .mask = AttentionMask::causal()}},
      {4, 2, {.num_heads = 2, .mask = AttentionMask::causal()}},  // 2 queries precede all keys
      {4, 2, {.num_heads = 2, .mask = AttentionMask::window(0)}},
      {5, 5, {.num_heads = 2, .mask = AttentionMask::keep(2, 5, 5, keep)}},
      {5, 5, {.num_heads = 2, .mask = AttentionMask::padding({0, 3}), .scale = 0.3}},
      {2, 21, {.num_heads = 3, .mask = AttentionMask::padding({21, 18}), .alibi = true}},
      // Several tiles: with weights that backward recomputes, with saved weights, and with a first
      // tile without keys.
      {130,
       70,
       {.num_heads = 2, .mask = AttentionMask::padding({70, 63}) & AttentionMask::window(50)}},
      {130, 20, {.num_heads = 2, .mask = AttentionMask::padding({20, 13})}},
      {130, 20, {.num_heads = 2, .mask = AttentionMask::window(30), .alibi = true}},
      {150, 150, {.mask = window, .alibi = true}},
      {150, 150, {}},
  };
  for (const Case& c : cases) {
    for (const bool additive : {false, true}) {
      CAPTURE(additive);
      CAPTURE(c.n_q);
      CAPTURE(c.n_k);
      const Operands o = random_operands(additive, 2, c.n_q, c.n_k, c.options.num_heads);
      const auto run = [&](auto f) {
        return results_of([&](const Operands& p) { return f(p, c.options); }, o);
      };
      CHECK(difference(run(fused), run(composed)) < 1e-11);
    }
  }
}

TEST_CASE("the attention weights times the values equal the output, even over many tiles") {
  const Tensor x = random_leaf({1, 150, 2}, 1), v = random_leaf({1, 150, 2}, 2);
  const AttentionMask mask = AttentionMask::window(8);
  const Tensor weights = attention_weights(x, x, {.mask = mask});
  const Tensor y = matmul(reshape(weights, {150, 150}), reshape(v, {150, 2}));
  check_values(attend(x, x, v, mask), values_of(y), 1e-9);
}

TEST_CASE(
    "ALiBi slopes equal the slopes of the paper and, for any number of heads, of the reference "
    "code") {
  CHECK(slopes(1) == std::vector<double>{std::exp2(-8)});
  CHECK(slopes(8) ==
        std::vector<double>{1. / 2, 1. / 4, 1. / 8, 1. / 16, 1. / 32, 1. / 64, 1. / 128, 1. / 256});
  CHECK(slopes(16)[0] == doctest::Approx(std::exp2(-0.5)).epsilon(1e-15));
  CHECK(slopes(16)[15] == std::exp2(-8));
  // get_slopes(n) of the reference implementation.
  CHECK(slopes(3) == std::vector<double>{std::exp2(-4), std::exp2(-8), std::exp2(-2)});
  CHECK(slopes(6) == std::vector<double>{std::exp2(-2), std::exp2(-4), std::exp2(-6), std::exp2(-8),
                                         std::exp2(-1), std::exp2(-3)});
}

TEST_CASE("the gradients of attention with dropout of the weights agree with finite differences") {
  struct Case {
    std::size_t n_q, n_k;
    AttentionMask mask;
  };
  // Few weights; enough weights that backward recomputes them; several tiles of saved weights.
  const Case cases[] = {{3, 4, AttentionMask::padding({0, 4})},
                        {3, 90, AttentionMask()},
                        {70, 20, AttentionMask::padding({20, 9})}};
  for (const Case& c : cases) {
    for (const bool additive : {false, true}) {
      CAPTURE(c.n_k);
      const AttentionOptions options{.num_heads = 2,
                                     .mask = c.mask,
                                     .alibi = additive,
                                     .dropout = 0.4,
                                     .random = RandomStream(5)};
      const Operands o = random_operands(additive, 2, c.n_q, c.n_k, 2);
      const auto f = [&] { return fused(o, options); };
      CHECK((additive ? gradient_error(f, {o[0], o[1], o[2], o[3]})
                      : gradient_error(f, {o[0], o[1], o[2]})) < 1e-6);
      CHECK(values_of(fused(o, options)) == values_of(fused(o, options)));
    }
  }
}

TEST_CASE("attention dropout keeps the mean at rates near 1, and backward drops the same weights") {
  // All weights are 1 / n and all values 1: an output is the sum of its kept weights.
  constexpr std::size_t batch = 4, n = 1024, heads = 4;
  constexpr auto count = static_cast<double>(batch * heads * n * n);
  const Tensor q = zeros({batch, n, heads});
  const auto scales = [](const Tensor& x) {  // sum of the scales of the kept weights
    const std::vector<double> values = values_of(x);
    return std::accumulate(values.begin(), values.end(), 0.0) * static_cast<double>(n);
  };
  for (const double rate : {0.999, 0.99999}) {
    CAPTURE(rate);
    const Tensor v = Tensor::full({batch, n, heads}, 1.0, DType::float32).set_requires_grad(true);
    Tape tape;
    const Tensor y = scaled_dot_product_attention(
        q, q, v, {.num_heads = heads, .dropout = rate, .random = RandomStream(5)});
    tape.backward(y, Tensor::full(y.shape(), 1.0, DType::float32));
    const double sigma = std::sqrt(count * rate * (1.0 - rate)) / (1.0 - rate);
    CHECK(std::abs(scales(y) - count) < 4.0 * sigma);
    CHECK(scales(v.grad()) == doctest::Approx(scales(y)).epsilon(1e-4));
  }
}

TEST_CASE("attention dropout differs for each query, head, sentence and length") {
  constexpr std::size_t batch = 2, n_q = 130, n_k = 32, heads = 2, short_length = 16;
  // The values of every head are the unit matrix, so its output is the weights after dropout.
  std::vector<double> units(batch * n_k * heads * n_k, 0.0);
  for (std::size_t i = 0; i < batch * n_k * heads; ++i) units[i * n_k + i / heads % n_k] = 1.0;
  const Tensor v = Tensor::from({batch, n_k, heads * n_k}, units, DType::float32);
  const auto dropped = [&](const AttentionMask& mask) {
    return values_of(scaled_dot_product_attention(
        zeros({batch, n_q, heads}), zeros({batch, n_k, heads}), v,
        {.num_heads = heads, .mask = mask, .dropout = 0.5, .random = RandomStream(1)}));
  };
  const auto y = dropped({});
  std::set<std::vector<double>> rows;
  for (auto row = y.begin(); row != y.end(); row += n_k) rows.emplace(row, row + n_k);
  CHECK(rows.size() == batch * n_q * heads);
  // The dropped weights, in the order of the random numbers.
  const auto shorter = dropped(AttentionMask::padding({n_k, short_length}));
  std::string of_long, of_short;
  for (std::size_t query = 0; query < n_q; ++query) {
    for (std::size_t key = 0; key < n_k; ++key) {
      of_long += shorter[query * heads * n_k + key] == 0.0 ? '-' : '+';
      const bool is_dropped = shorter[(n_q + query) * heads * n_k + key] == 0.0;
      if (key < short_length) of_short += is_dropped ? '-' : '+';
    }
  }
  CHECK(of_long.find(of_short.substr(0, 4 * short_length)) == std::string::npos);
}

TEST_CASE(
    "attention at dropout 0 is bit-identical to attention without dropout; at dropout 1 it is 0") {
  for (const DType dtype : dtypes) {
    const Tensor x = random_leaf({2, 5, 4}, 1).detach().to(dtype);
    const auto with = [&](double rate, const RandomStream& random) {
      return attention_results(x, x, x, {.num_heads = 2, .dropout = rate, .random = random});
    };
    const auto plain = with(0.0, {});
    CHECK(with(0.0, RandomStream(5)) == plain);
    CHECK(with(0.7, RandomStream()) == plain);
    const std::vector<double> zero(40, 0.0);
    CHECK(with(1.0, RandomStream(5)) == Results{zero, {zero, zero, zero}});
  }
}

TEST_CASE("attention rejects shapes that do not fit") {
  const auto call = [](const Shape& q, const Shape& k, const Shape& v,
                       const AttentionOptions& options = {}) {
    return [=] { scaled_dot_product_attention(zeros(q), zeros(k), zeros(v), options); };
  };
  const AttentionOptions two{.num_heads = 2};
  const std::string name = "scaled_dot_product_attention: ";
  check_error<ShapeError>(name + "q|(2, 3, 5)|num_heads = 2",
                          call({2, 3, 5}, {2, 3, 5}, {2, 3, 5}, two));
  check_error<ShapeError>(name + "k|(2, 5, 3)|num_heads = 2",
                          call({2, 3, 4}, {2, 5, 3}, {2, 5, 4}, two));
  check_error<ShapeError>(name + "v|(2, 5, 9)|num_heads = 2",
                          call({2, 3, 4}, {2, 5, 4}, {2, 5, 9}, two));
  check_error<ShapeError>("num_heads = 0", call({2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {.num_heads = 0}));
  for (const Shape& q : {Shape{3, 4}, Shape{1, 2, 3, 4}, Shape{2, 3, 0}}) {
    check_error<ShapeError>(name + "q", call(q, {2, 3, 4}, {2, 3, 4}));
  }
  check_error<ShapeError>("q|(2, 3, 4)|k (2, 5, 6)|last", call({2, 3, 4}, {2, 5, 6}, {2, 5, 4}));
  check_error<ShapeError>("q|(2, 3, 4)|k (1, 3, 4)|first", call({2, 3, 4}, {1, 3, 4}, {2, 3, 4}));
  check_error<ShapeError>("k|(2, 5, 4)|v (1, 5, 4)|two axes",
                          call({2, 3, 4}, {2, 5, 4}, {1, 5, 4}));
  check_error<ShapeError>("k|(2, 3, 4)|v (2, 2, 4)|two axes",
                          call({2, 3, 4}, {2, 3, 4}, {2, 2, 4}));
  check_error<ShapeError>(
      name + "the padding mask|1 lengths|2",
      call({2, 3, 4}, {2, 3, 4}, {2, 3, 4}, {.mask = AttentionMask::padding({1})}));
  check_error<ShapeError>(
      name + "the keep-mask|(1, 1, 1)|(1, 2, 3)",
      call({1, 2, 4}, {1, 3, 4}, {1, 3, 4}, {.mask = AttentionMask::keep(1, 1, 1, {1})}));
  for (const double dropout : {1.5, -0.1, not_a_number}) {
    check_error<ValueError>(name + "dropout|0 to 1",
                            call({1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {.dropout = dropout}));
  }
  const auto additive = [](const Shape& k, const Shape& v, const Shape& w) {
    return [=] {
      additive_attention(zeros({2, 3, 4}), zeros(k), zeros(v), zeros(w), {.num_heads = 2});
    };
  };
  check_error<ShapeError>("additive_attention: w|(4)|(2, 2)|(2, 3, 4), 2 heads",
                          additive({2, 3, 4}, {2, 3, 4}, {4}));
  check_error<ShapeError>("additive_attention: q|k (1, 3, 4)",
                          additive({1, 3, 4}, {2, 3, 4}, {2, 2}));
  check_error<ShapeError>("additive_attention: k|v (2, 2, 4)",
                          additive({2, 3, 4}, {2, 2, 4}, {2, 2}));
  for (const Shape& w : {Shape{2, 3}, Shape{1, 2}, Shape{2, 2, 1}}) {
    check_error<ShapeError>("additive_attention: w", [&] {
      additive_attention_weights(zeros({2, 3, 4}), zeros({2, 3, 4}), zeros(w), {.num_heads = 2});
    });
  }
}

TEST_CASE("rotary rotates each pair of adjacent elements by the position times base^(-2i / d)") {
  const double c = std::cos(0.1), s = std::sin(0.1), c2 = std::cos(0.2), s2 = std::sin(0.2);
  const Tensor x = exact({1, 3, 4}, {1, 0, 0, 2, 1, 0, 0, 2, 1, 0, 0, 2});
  const Tensor y = exact({1, 3, 4}, {1, 0, 0, 2,                               //
                                     std::cos(1), std::sin(1), -2 * s, 2 * c,  //
                                     std::cos(2), std::sin(2), -2 * s2, 2 * c2});
  check_worked({worked(
      "angles of 1 and of 1/10", {x}, [](const Operands& o) { return rotary(o[0], {.base = 100}); },
      y)});
  for (const double m : {65535.0, 40007.0, -3.0, -65535.0}) {
    check_values(
        rotary(exact({1, 1, 2}, {1, 0}), {.first_position = static_cast<std::ptrdiff_t>(m)}),
        {std::cos(m), std::sin(m)}, 1e-13);
  }
}

TEST_CASE("rotary is bit-identical for a token at position p with every start position") {
  const Tensor x = random_leaf({1, 40, 6}, 1);
  const Tensor whole = rotary(x);
  for (const std::ptrdiff_t first : {1, 15, 16, 21}) {
    CHECK(values_of(rotary(slice(x, 1, first, 40), {.first_position = first})) ==
          values_of(slice(whole, 1, first, 40)));
  }
  for (const std::size_t d : {2, 6, 16, 22}) {
    const Tensor heads = random_leaf({2, 3, 2 * d}, 1);
    CHECK(gradient_error([&] { return rotary(heads, {.num_heads = 2, .first_position = 5}); },
                         {heads}) < 1e-6);
  }
}

TEST_CASE("rotary rejects odd widths and inputs without the axes of heads and positions") {
  check_error<ShapeError>("rotary: x|(1, 2, 6)|2 heads * even width", [] {
    rotary(zeros({1, 2, 6}), {.num_heads = 2});
  });
  check_error<ShapeError>("rotary", [] { rotary(zeros({2, 4})); });
  check_error<ShapeError>("rotary", [] { rotary(zeros({1, 2, 0})); });
  check_error<ShapeError>("rotary", [] { rotary(zeros({1, 2, 4}), {.num_heads = 0}); });
  for (const double base : {0.0, not_a_number}) {
    check_error<ValueError>("rotary: base|> 0", [&] { rotary(zeros({1, 2, 4}), {.base = base}); });
  }
}
