#include "train/inference/attention_view.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "data/batch.h"
#include "tests/support/contains.h"
#include "tests/train/inference/random_model.h"

namespace tapestry {
namespace {

TEST_CASE("a layer whose weights do not fit the tokens is left out with a note") {
  const Model model = test::random_model(1);
  const Batch batch =
      make_batch({{.source = {4, 5, 6}, .target = {4, 5}}}, std::vector<std::size_t>{0});
  const Tokens sources(4, "s"), targets(3, "t");
  const auto all = attention_weights(model, batch, {.encoder = sources, .decoder = targets});
  CHECK(all.layers.size() == 5);
  CHECK(all.notes.empty());
  const auto some = attention_weights(model, batch, {.encoder = targets, .decoder = targets});
  REQUIRE(some.layers.size() == 2);
  CHECK(some.layers[0].layer == "decoder.layers.0.self_attn");
  CHECK(some.layers[1].layer == "decoder.layers.1.self_attn");
  REQUIRE(some.notes.size() == 3);
  CHECK(some.notes[0] ==
        "layer encoder.layers.0.self_attn is left out: its weights of shape (1, 2, 4, 4) do not "
        "fit the 3 encoder and 3 decoder tokens");
  CHECK(test::contains(some.notes[1], "decoder.layers.0.cross_attn"));
}

}  // namespace
}  // namespace tapestry
