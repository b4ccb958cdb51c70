#include "train/inference/attention_table.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tapestry {
namespace {

/// Two heads, in which "a" and "château" look at "château" and "b".
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

TEST_CASE("columns and margin are as wide as their tokens have characters, and at least three") {
  CHECK(attention_tables({two_heads()}, {.begin = 1, .end = 2}) ==
        explanation +
            "\ndecoder.layers.0.cross_attn, head 1\n"
            "        château   b\n"
            "      a     100   .\n"
            "château     100   0\n");
}

TEST_CASE("a token with accents is aligned by its characters below and beside longer ones") {
  const LayerAttention layer{.layer = "x",
                             .queries = {"é", "abcd"},
                             .keys = {"é", "b"},
                             .num_heads = 1,
                             .weights = {1.0, 0.0, 0.5, 0.5}};
  CHECK(attention_tables({layer}, {.begin = 0, .end = 1}) == explanation +
                                                                 "\nx, head 0\n"
                                                                 "       é   b\n"
                                                                 "   é 100   .\n"
                                                                 "abcd  50  50\n");
}

TEST_CASE("each head of the range has a table, layer by layer") {
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

TEST_CASE("a token is escaped for the terminal, and its column has the escaped width") {
  const LayerAttention layer{
      .layer = "x", .queries = {"\x1B"}, .keys = {"\x1B"}, .num_heads = 1, .weights = {1.0}};
  CHECK(attention_tables({layer}, {.begin = 0, .end = 1}) ==
        explanation + "\nx, head 0\n     \\x1B\n\\x1B  100\n");
}

TEST_CASE("the JSON of attention has every field, and the weights of the selected heads") {
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

}  // namespace
}  // namespace tapestry
