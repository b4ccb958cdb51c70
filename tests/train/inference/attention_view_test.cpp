// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/attention_view.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "data/batch.h"
#include "tests/support/contains.h"
#include "tests/train/inference/random_model.h"

namespace tapestry {
namespace {

/// Two heads; the queries "a" and "château" attend to "château" and "b".
LayerAttention two_heads() {
  return {.layer = "decoder.layers.0.cross_attn",
          .queries = {"a", "château"},
          .keys = {"château", "b"},
          .num_heads = 2,
          .weights = {0.5, 0.5, 0.125, 0.875,  //
                      1.0, 0.0, 0.996, 0.004}};
}

const std::string explanation =
    "rows: queries; columns: keys; weights in per cent; `.`: exactly 0 (masked)\n";

TEST_CASE(
    "columns and margin are as wide as their escaped tokens, and at least three characters wide") {
  const auto table = [](const LayerAttention& layer, std::size_t head) {
    const std::string text = attention_tables({layer}, {.begin = head, .end = head + 1});
    REQUIRE(text.starts_with(explanation));
    return text.substr(explanation.size());
  };
  CHECK(table(two_heads(), 1) ==
        "\ndecoder.layers.0.cross_attn, head 1\n"
        "        château   b\n"
        "      a     100   .\n"
        "château     100   0\n");
  CHECK(table({.layer = "x",
               .queries = {"é", "abcd"},
               .keys = {"é", "b"},
               .num_heads = 1,
               .weights = {1.0, 0.0, 0.5, 0.5}},
              0) ==
        "\nx, head 0\n"
        "       é   b\n"
        "   é 100   .\n"
        "abcd  50  50\n");
  CHECK(
      table({.layer = "x", .queries = {"\x1B"}, .keys = {"\x1B"}, .num_heads = 1, .weights = {1.0}},
            0) == "\nx, head 0\n     \\x1B\n\\x1B  100\n");
}

TEST_CASE("each selected head has a table, in the order of the layers") {
  LayerAttention other = two_heads();
  other.layer = "decoder.layers.1.cross_attn";
  const std::string tables =
      attention_tables({two_heads(), other}, {.begin = 0, .end = 2}).substr(explanation.size());
  std::string headings;
  for (std::size_t at = tables.find("\ndecoder"); at != std::string::npos;
       at = tables.find("\ndecoder", at + 1)) {
    headings += tables.substr(at, tables.find('\n', at + 1) - at);
  }
  CHECK(headings ==
        "\ndecoder.layers.0.cross_attn, head 0\ndecoder.layers.0.cross_attn, head 1"
        "\ndecoder.layers.1.cross_attn, head 0\ndecoder.layers.1.cross_attn, head 1");
}

TEST_CASE("the JSON output of attention has every field, and the weights of the selected heads") {
  const std::string begin =
      R"({"model":"m.yaml","example":"test 1","layers":[{"layer":"decoder.layers.0.cross_attn",)"
      R"("queries":["a","château"],"keys":["château","b"],"heads":[)";
  const std::string first = R"({"head":0,"weights":[[0.5,0.5],[0.125,0.875]]})";
  const std::string second = R"({"head":1,"weights":[[1.0,0.0],[0.996,0.004]]})";
  CHECK(attention_json({two_heads()}, {.begin = 0, .end = 2}, "m.yaml", "test 1") ==
        begin + first + "," + second + "]}]}");
  CHECK(attention_json({two_heads()}, {.begin = 1, .end = 2}, "m.yaml", "test 1") ==
        begin + second + "]}]}");
}

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
  CHECK(test::contains(some.notes[0], "encoder.layers.0.self_attn is left out"));
  CHECK(test::contains(some.notes[0], "(1, 2, 4, 4)"));
  CHECK(test::contains(some.notes[1], "decoder.layers.0.cross_attn"));
}

}  // namespace
}  // namespace tapestry
