#include "autograd/attention_trace.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/error.h"
#include "autograd/ops/activations.h"
#include "autograd/ops/attention.h"
#include "autograd/ops/elementwise.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/tape.h"
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

/// The greatest difference of two tensors; infinities of one sign are equal, NaN is never.
double difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  const auto x = values_of(a), y = values_of(b);
  double greatest = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (x[i] == y[i]) continue;
    const double d = std::abs(x[i] - y[i]);
    greatest = std::isnan(d) ? std::numeric_limits<double>::infinity() : std::max(greatest, d);
  }
  return greatest;
}

}  // namespace

TEST_CASE("a trace has the steps of a call and their gradients, as separate operations have them") {
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

  // The same from separate operations.
  const Tensor heads_q = split_heads(q, 2), heads_k = split_heads(k, 2),
               heads_v = split_heads(v, 2);
  Tensor products = matmul(heads_q, permute(heads_k, {0, 1, 3, 2}));
  constexpr double masked = -std::numeric_limits<double>::infinity();
  const Tensor mask = Tensor::from({{0, masked, masked}, {0, 0, masked}, {0, 0, 0}}, q.dtype());
  Tensor scores = products.copied(q.dtype());
  scores.require_gradient();
  Tape tape;
  Tensor scaled = scores * trace.scale;
  const Tensor weights = softmax(scaled + mask);
  const Tensor out = matmul(weights, heads_v);
  tape.backward(out, split_heads(g, 2));
  CHECK(difference(trace.products, products) < 1e-14);
  CHECK(difference(trace.scores, scaled) < 1e-14);
  CHECK(difference(trace.masked, scaled + mask) < 1e-14);
  CHECK(difference(trace.weights, weights) < 1e-14);
  CHECK(difference(trace.dscores * trace.scale, scores.gradient()) < 1e-14);
  CHECK(difference(trace.dweights, matmul(split_heads(g, 2), permute(heads_v, {0, 1, 3, 2}))) <
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

TEST_CASE("a trace of additive scores has their products, and NaN where none was computed") {
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

TEST_CASE("keys that no query may attend to are NaN, masked, and without weight and gradient") {
  Tensor x = random_leaf({2, 3, 2}, 1);
  const AttentionTracer tracer;
  Tape tape;
  const Tensor y = scaled_dot_product_attention(x, x, x, {.mask = AttentionMask::padding({0, 2})});
  tape.backward(y, y);
  const AttentionTrace& trace = *tracer.traces().front();
  const auto products = values_of(trace.products), masked = values_of(trace.masked),
             weights = values_of(trace.weights), dweights = values_of(trace.dweights),
             dscores = values_of(trace.dscores);
  for (std::size_t at = 0; at < 9; ++at) {  // an empty sentence
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

TEST_CASE("an attention tracer changes no bit of a call and traces recorded calls only") {
  for (const DType dtype : {DType::float32, DType::float64}) {
    const Tensor x = random_leaf({2, 70, 8}, 1).copied(dtype).require_gradient();
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
      const std::vector results{values_of(y), values_of(x.gradient())};
      Tensor(x).clear_gradient();
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
