// SPDX-License-Identifier: BSD-3-Clause
#include "autograd/attention_trace.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "autograd/attention_mask.h"
#include "autograd/error.h"
#include "autograd/execution_context.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
#include "tests/support/cases.h"
#include "tests/support/errors.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// x (batch, n, heads * d) -> (batch, heads, n, d).
Tensor split_heads(const Tensor& x, std::size_t heads) {
  const Shape& s = x.shape();
  return permute(reshape(x, {s[0], s[1], heads, s[2] / heads}), {0, 2, 1, 3});
}

double distance(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return difference(values_of(a), values_of(b));
}

}  // namespace

TEST_CASE("a trace has the same steps and gradients as separate operations") {
  Tensor q = random_leaf({2, 3, 4}, 1), k = random_leaf({2, 3, 4}, 2),
         v = random_leaf({2, 3, 6}, 3), g = random_leaf({2, 3, 6}, 4);
  const AttentionTracer tracer;
  {
    const LayerPath here(interned_path("decoder.self_attn"));
    Tape tape;
    tape.backward(
        scaled_dot_product_attention(q, k, v, {.num_heads = 2, .mask = AttentionMask::causal()}),
        g);
  }
  REQUIRE(tracer.traces().size() == 1);
  const AttentionTrace& trace = *tracer.traces().front();
  CHECK(trace.path == "decoder.self_attn");
  CHECK(trace.num_heads == 2);
  CHECK(trace.scale == 1.0 / std::sqrt(2.0));
  CHECK_FALSE(trace.biased.defined());

  // The expected steps, computed with separate operations.
  const Tensor heads_q = split_heads(q, 2), heads_k = split_heads(k, 2),
               heads_v = split_heads(v, 2);
  Tensor products = matmul(heads_q, permute(heads_k, {0, 1, 3, 2}));
  constexpr double masked = -std::numeric_limits<double>::infinity();
  const Tensor mask = Tensor::from({{0, masked, masked}, {0, 0, masked}, {0, 0, 0}}, q.dtype());
  Tensor scores = products.detach().to(q.dtype());
  scores.set_requires_grad(true);
  Tape tape;
  Tensor scaled = scores * trace.scale;
  const Tensor weights = softmax(scaled + mask);
  const Tensor out = matmul(weights, heads_v);
  tape.backward(out, split_heads(g, 2));
  CHECK(distance(trace.products, products) < 1e-14);
  CHECK(distance(trace.scores, scaled) < 1e-14);
  CHECK(distance(trace.masked, scaled + mask) < 1e-14);
  CHECK(distance(trace.weights, weights) < 1e-14);
  CHECK(distance(trace.dscores * trace.scale, scores.grad()) < 1e-14);
  CHECK(distance(trace.dweights, matmul(split_heads(g, 2), permute(heads_v, {0, 1, 3, 2}))) <
        1e-14);
  // The scaled scores are the products times the scale, bit for bit.
  const auto product_values = values_of(trace.products), score_values = values_of(trace.scores);
  for (std::size_t i = 0; i < product_values.size(); ++i) {
    CHECK(score_values[i] == trace.scale * product_values[i]);
  }
}

TEST_CASE("a trace of ALiBi has the scores before and after the distances are subtracted") {
  Tensor x = random_leaf({1, 3, 4}, 1);
  const AttentionTracer tracer;
  const Tape tape;
  scaled_dot_product_attention(x, x, x, {.num_heads = 2, .alibi = true});
  const AttentionTrace& trace = *tracer.traces().front();
  REQUIRE(trace.biased.defined());
  const auto scores = values_of(trace.scores), biased = values_of(trace.biased),
             masked = values_of(trace.masked);
  const double slopes[] = {1.0 / 16, 1.0 / 256};
  for (std::size_t h = 0; h < 2; ++h) {
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) {
        const std::size_t at = (h * 3 + i) * 3 + j;
        const double distance = std::abs(static_cast<double>(i) - static_cast<double>(j));
        CHECK(biased[at] == doctest::Approx(scores[at] - slopes[h] * distance).epsilon(1e-12));
        CHECK(masked[at] == biased[at]);
      }
    }
  }
}

TEST_CASE("a trace of additive scores has their products, or NaN where no product is computed") {
  Tensor x = random_leaf({1, 40, 2}, 1), w = random_leaf({1, 2}, 2);
  const AttentionTracer tracer;
  Tape tape;
  const Tensor y = additive_attention(
      x, x, x, w, {.mask = AttentionMask::window(1) & AttentionMask::causal(), .scale = 0.5});
  tape.backward(y, y);
  const AttentionTrace& trace = *tracer.traces().front();
  CHECK(trace.scale == 0.5);
  const auto values = values_of(x), weight = values_of(w);
  const auto products = values_of(trace.products), scores = values_of(trace.scores);
  for (std::size_t i = 1; i < 40; ++i) {
    const std::size_t at = i * 40 + i - 1;
    double expected = 0.0;
    for (std::size_t c = 0; c < 2; ++c) {
      expected += weight[c] * std::tanh(values[2 * i + c] + values[2 * (i - 1) + c]);
    }
    CHECK(products[at] == doctest::Approx(expected).epsilon(1e-12));
    CHECK(scores[at] == 0.5 * products[at]);
  }
  CHECK(std::isnan(products[39]));
  CHECK(std::isnan(scores[39]));
  CHECK(values_of(trace.masked)[39] == -std::numeric_limits<double>::infinity());
  CHECK(values_of(trace.weights)[39] == 0.0);
  CHECK(values_of(trace.dscores)[39] == 0.0);
}

TEST_CASE("keys that no query may attend to have NaN products, weight 0 and score gradient 0") {
  Tensor x = random_leaf({2, 3, 2}, 1);
  const AttentionTracer tracer;
  Tape tape;
  const Tensor y = scaled_dot_product_attention(x, x, x, {.mask = AttentionMask::padding({0, 2})});
  tape.backward(y, y);
  const AttentionTrace& trace = *tracer.traces().front();
  const auto products = values_of(trace.products), masked = values_of(trace.masked),
             weights = values_of(trace.weights), dweights = values_of(trace.dweights),
             dscores = values_of(trace.dscores);
  for (std::size_t at = 0; at < 9; ++at) {  // the sentence is empty
    CHECK(std::isnan(products[at]));
    CHECK(masked[at] == -std::numeric_limits<double>::infinity());
    CHECK(weights[at] == 0.0);
    CHECK(std::isnan(dweights[at]));
    CHECK(dscores[at] == 0.0);
  }
  CHECK(std::isfinite(products[9]));
  CHECK(std::isfinite(dweights[9]));
  CHECK(dscores[9] != 0.0);
  CHECK(std::isnan(products[11]));
}

TEST_CASE("an attention tracer does not change results and traces only recorded calls") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = random_leaf({2, 70, 8}, 1).detach().to(dtype).set_requires_grad(true);
    const AttentionOptions options{.num_heads = 2,
                                   .mask = AttentionMask::causal(),
                                   .alibi = true,
                                   .dropout = 0.3,
                                   .random = RandomStream(1)};
    const auto run = [&] {
      Tape tape;
      const Tensor y = scaled_dot_product_attention(x, x, x, options);
      CHECK(tape.size() == 1);
      tape.backward(y, y);
      const std::vector results{values_of(y), values_of(x.grad())};
      Tensor(x).zero_grad();
      return results;
    };
    const auto plain = run();
    CHECK(execution_context().attention_tracer == nullptr);
    const AttentionTracer tracer;
    CHECK(run() == plain);
    CHECK(tracer.traces().size() == 1);
    scaled_dot_product_attention(x, x, x, options);
    CHECK(tracer.traces().size() == 1);
    {
      const AttentionTracer inner;
      run();
      CHECK(inner.traces().size() == 1);
    }
    CHECK(execution_context().attention_tracer == &tracer);
    CHECK(tracer.traces().size() == 1);
  }
}

TEST_CASE(
    "a recorder keeps the path and weights of every attention call, for every kind of score") {
  const Tensor x = random_leaf({2, 3, 4}, 1), w = random_leaf({2, 2}, 2);
  const AttentionOptions options{
      .num_heads = 2, .mask = AttentionMask::causal(), .dropout = 0.9, .random = RandomStream(1)};
  const AttentionRecorder recorder;
  {
    const std::string path = "encoder.self_attn";
    const LayerPath here(interned_path(path));
    scaled_dot_product_attention(x, x, x, options);
  }
  additive_attention(x, x, x, w, options);
  REQUIRE(recorder.records().size() == 2);
  CHECK(recorder.records()[0].path == "encoder.self_attn");
  CHECK(recorder.records()[1].path.empty());
  const Tensor weights = recorder.records()[0].weights;
  CHECK(weights.shape() == Shape{2, 2, 3, 3});
  CHECK(values_of(weights) == values_of(attention_weights(x, x, options)));
  CHECK(values_of(recorder.records()[1].weights) ==
        values_of(additive_attention_weights(x, x, w, options)));
}

TEST_CASE("an attention recorder records nothing while a nested recorder is active") {
  const Tensor x = random_leaf({1, 2, 2}, 1);
  CHECK(execution_context().attention_recorder == nullptr);
  {
    const AttentionRecorder outer;
    {
      const AttentionRecorder inner;
      scaled_dot_product_attention(x, x, x);
      CHECK(inner.records().size() == 1);
    }
    CHECK(outer.records().empty());
    scaled_dot_product_attention(x, x, x);
    CHECK(outer.records().size() == 1);
  }
  CHECK(execution_context().attention_recorder == nullptr);
}

TEST_CASE("a recorder changes neither results nor the records of a tape") {
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const auto run = [&] {
    Tape tape;
    const Tensor y = scaled_dot_product_attention(x, x, x, {.num_heads = 2});
    CHECK(tape.size() == 1);
    tape.backward(y, y);
    const std::vector results{values_of(y), values_of(x.grad())};
    Tensor(x).zero_grad();
    return results;
  };
  const auto alone = run();
  const AttentionRecorder recorder;
  CHECK(run() == alone);
  CHECK_FALSE(recorder.records().at(0).weights.requires_grad());
}

namespace {

/// Checks that mask.keys() lets query i of sentence b attend to keys [first, last), for n_q queries
/// and n_k keys.
void check_keys(const AttentionMask& mask, std::size_t b, std::size_t i, std::size_t n_q,
                std::size_t n_k, AttentionMask::Range expected) {
  const auto [first, last] = mask.keys(b, i, n_q, n_k);
  CHECK(first == expected.first);
  CHECK(last == expected.last);
}

}  // namespace

TEST_CASE("two padding masks combined keep the shorter length of each sentence, in either order") {
  const AttentionMask a = AttentionMask::padding({2, 5, 3});
  const AttentionMask b = AttentionMask::padding({4, 1, 3});
  for (const AttentionMask& both : {a & b, b & a}) {
    check_keys(both, 0, 0, 5, 5, {0, 2});
    check_keys(both, 1, 0, 5, 5, {0, 1});
    check_keys(both, 2, 0, 5, 5, {0, 3});
  }
}

TEST_CASE("a mask combined with an empty mask is unchanged, in either order") {
  const AttentionMask none;
  const std::vector<std::uint8_t> keep = {1, 0, 0, 1};
  const AttentionMask mask = AttentionMask::causal() & AttentionMask::window(0) &
                             AttentionMask::padding({2}) & AttentionMask::keep(1, 2, 2, keep);
  for (const AttentionMask& both : {none & mask, mask & none}) {
    check_keys(both, 0, 0, 2, 2, {0, 1});
    check_keys(both, 0, 1, 2, 2, {1, 2});
    REQUIRE(both.keep_row(0, 1) != nullptr);
    CHECK(both.keep_row(0, 1)[0] == 0);
    CHECK(both.keep_row(0, 1)[1] == 1);
  }
  CHECK((none & none).keep_row(0, 0) == nullptr);
}

TEST_CASE(
    "a padding length above the number of keys is rejected once the number of keys is known") {
  const AttentionMask mask = AttentionMask::padding({3, 4});
  CHECK_NOTHROW(mask.require_fitting("op", 2, 5, 4));
  check_error<ValueError>("op:|1|4|3", [&] { mask.require_fitting("op", 2, 5, 3); });
}

TEST_CASE("a mask rejects negative lengths, naming their position, and a wrong number of entries") {
  CHECK_NOTHROW(AttentionMask::padding({3, 0}));
  check_error<ValueError>("attention mask:|-2|2", [&] { AttentionMask::padding({3, 0, -2}); });
  for (const std::size_t size : {23, 25}) {
    CHECK_THROWS_AS(AttentionMask::keep(2, 3, 4, std::vector<std::uint8_t>(size, 1)), ShapeError);
  }
  check_error<ShapeError>("attention mask:|1|(2, 3, 4)|24",
                          [&] { AttentionMask::keep(2, 3, 4, {1}); });
}

TEST_CASE(
    "wrong extents of a keep-mask and wrong numbers of lengths are rejected, even in combined "
    "masks") {
  const auto keep = [](std::size_t batch, std::size_t n_q, std::size_t n_k) {
    return AttentionMask::keep(batch, n_q, n_k, std::vector<std::uint8_t>(batch * n_q * n_k, 1));
  };
  const AttentionMask mask = keep(2, 3, 4);
  CHECK_NOTHROW(mask.require_fitting("op", 2, 3, 4));
  check_error<ShapeError>("op:|(2, 3, 4)|(1, 3, 4)", [&] { mask.require_fitting("op", 1, 3, 4); });
  check_error<ShapeError>("op:|(2, 3, 4)|(2, 5, 4)", [&] { mask.require_fitting("op", 2, 5, 4); });
  check_error<ShapeError>("op:|(2, 3, 4)|(2, 3, 6)", [&] { mask.require_fitting("op", 2, 3, 6); });
  check_error<ShapeError>("attention mask:|(2, 4, 3)|(2, 3, 4)", [&] { mask& keep(2, 4, 3); });
  check_error<ShapeError>("attention mask:|2|3", [&] {
    AttentionMask::padding({1, 2, 3}) & AttentionMask::padding({1, 2});
  });
}
