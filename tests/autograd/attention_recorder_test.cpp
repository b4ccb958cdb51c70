#include "autograd/attention_trace.h"

#include <doctest/doctest.h>

#include "autograd/error.h"
#include "autograd/ops/attention.h"
#include "autograd/tape.h"
#include "tests/support/gradients.h"
#include "tests/support/values.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a recorder keeps path and weights of every call of attention, whatever the score") {
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

TEST_CASE("nested attention recorders: only the innermost records, then the outer one again") {
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

TEST_CASE("a recorder changes neither what is computed nor what a tape records") {
  const Tensor x = random_leaf({2, 3, 4}, 1);
  const auto run = [&] {
    Tape tape;
    const Tensor y = scaled_dot_product_attention(x, x, x, {.num_heads = 2});
    CHECK(tape.size() == 1);
    tape.backward(y, y);
    const std::vector results{values_of(y), values_of(x.gradient())};
    Tensor(x).clear_gradient();
    return results;
  };
  const auto alone = run();
  const AttentionRecorder recorder;
  CHECK(run() == alone);
  CHECK_FALSE(recorder.records().at(0).weights.requires_gradient());
}
