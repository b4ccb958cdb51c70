#include "train/report/attention_pattern.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

namespace tapestry {
namespace {

using Weight = std::function<double(std::size_t query, std::size_t key)>;

LayerAttention layer_of(const std::string& path, const Tokens& queries, const Tokens& keys,
                        const std::vector<Weight>& heads) {
  LayerAttention layer{
      .layer = path, .queries = queries, .keys = keys, .num_heads = heads.size(), .weights = {}};
  for (const Weight& weight : heads) {
    for (std::size_t i = 0; i < queries.size(); ++i) {
      for (std::size_t k = 0; k < keys.size(); ++k) layer.weights.push_back(weight(i, k));
    }
  }
  return layer;
}

const Tokens sentence = {"a", "b", "a", "c", "<eos>"};

/// The pattern of a single head.
HeadPattern pattern_of(const LayerAttention& layer) {
  const auto found = head_patterns({{layer}});
  REQUIRE(found.size() == 1);
  return found[0];
}

TEST_CASE("a head is described by the pattern that exceeds chance the most") {
  const auto of = [](const Weight& weight) {
    return pattern_of(layer_of("encoder.layers.0.self_attn", sentence, sentence, {weight}));
  };
  // 0.6 on one key, 0.1 on the four others.
  const auto mostly = [](bool there) { return there ? 0.6 : 0.1; };
  const HeadPattern same = of([&](auto i, auto k) { return mostly(i == k); });
  CHECK(same.pattern == "the same position (diagonal)");
  CHECK(same.share == doctest::Approx(0.6));
  CHECK(same.chance == doctest::Approx(0.2));
  CHECK(same.keys_used == doctest::Approx(std::exp(-0.6 * std::log(0.6) - 0.4 * std::log(0.1))));
  CHECK(of([&](auto i, auto k) { return mostly(k + 1 == i); }).pattern == "the previous position");
  CHECK(of([&](auto i, auto k) { return mostly(k == i + 1); }).pattern == "the next position");
  CHECK(of([&](auto, auto k) { return mostly(k == 0); }).pattern == "the first position");
  CHECK(of([&](auto, auto k) { return mostly(k == 4); }).pattern == "<eos>");
  const HeadPattern even = of([](auto, auto) { return 0.2; });
  CHECK(even.pattern == "no pattern");
  CHECK_FALSE(even.copies.has_value());  // an encoder has no outputs
  CHECK(even.keys_used == doctest::Approx(5.0));
}

TEST_CASE("copying in cross-attention is attention to the source of the next token") {
  const Tokens queries = {"<bos>", "c", "a"},
               keys = {"a", "c", "<eos>"};  // the output is c a <eos>
  const LayerAttention layer =
      layer_of("decoder.layers.1.cross_attn", queries, keys, {[](std::size_t i, std::size_t k) {
                 const std::size_t next = i == 0 ? 1 : i == 1 ? 0 : 2;
                 return k == next ? 0.9 : 0.05;
               }});
  const HeadPattern head = pattern_of(layer);
  CHECK(head.pattern == "the token of the next output (copies)");
  CHECK(head.share == doctest::Approx(0.9));
  CHECK(head.chance == doctest::Approx(1.0 / 3));
  CHECK(head.copies.value() == doctest::Approx(0.9));
}

TEST_CASE("copying is measured also if another pattern is as strong") {
  const Tokens queries = {"<bos>", "a", "b"}, keys = {"a", "b", "<eos>"};
  const HeadPattern head =
      pattern_of(layer_of("decoder.layers.0.cross_attn", queries, keys,
                          {[](std::size_t i, std::size_t k) { return k == i ? 0.8 : 0.1; }}));
  CHECK(head.pattern == "the same position (diagonal)");
  CHECK(head.copies.value() == doctest::Approx(0.8));
  const HeadPattern other =
      pattern_of(layer_of("decoder.layers.0.cross_attn", queries, {"x", "y", "<eos>"},
                          {[](std::size_t i, std::size_t k) { return k == i ? 0.8 : 0.1; }}));
  CHECK_FALSE(other.copies.has_value());  // only <eos> is among the keys
}

TEST_CASE("causal attention: the first query does not count, nor do keys after a query") {
  const Tokens text = {"x", "y", "z", "w"};
  const HeadPattern head = pattern_of(
      layer_of("decoder.layers.0.self_attn", text, text, {[](std::size_t i, std::size_t k) {
                 if (i == 0) return k == 0 ? 1.0 : 0.0;
                 return k > i ? 0.0 : k + 1 == i ? 0.7 : 0.3 / static_cast<double>(i);
               }}));
  CHECK(head.pattern == "the previous position");
  CHECK(head.share == doctest::Approx(0.7));
  CHECK(head.chance == doctest::Approx((1.0 / 2 + 1.0 / 3 + 1.0 / 4) / 3));
  double keys_used = 0.0;  // of the other three queries
  for (const double others : {1.0, 2.0, 3.0}) {
    keys_used += std::exp(-0.7 * std::log(0.7) - 0.3 * std::log(0.3 / others)) / 3;
  }
  CHECK(head.keys_used == doctest::Approx(keys_used));
}

TEST_CASE("a pattern with many keys has no advantage by their number") {
  const Tokens same = {"a", "a", "a", "a"};
  const HeadPattern head =
      pattern_of(layer_of("encoder.layers.0.self_attn", same, same,
                          {[](std::size_t i, std::size_t k) { return k == i ? 0.4 : 0.2; }}));
  CHECK(head.pattern == "the same position (diagonal)");  // 0.4; the others have 0.6
}

TEST_CASE("a pattern is excluded if few queries have a key for it") {
  // Only the first and third token occur twice.
  const HeadPattern head = pattern_of(
      layer_of("encoder.layers.0.self_attn", sentence, sentence, {[](std::size_t i, std::size_t k) {
                 if (i == 0 || i == 2) return k == 2 - i ? 0.9 : 0.025;
                 return 0.2;
               }}));
  CHECK(head.pattern != "other positions of the same token");
  const Tokens pairs = {"a", "b", "b", "a"};
  CHECK(
      pattern_of(layer_of("encoder.layers.0.self_attn", pairs, pairs,
                          {[](std::size_t i, std::size_t k) { return k == 3 - i ? 0.85 : 0.05; }}))
          .pattern == "other positions of the same token");
}

TEST_CASE("heads are sorted by strength, over all queries of all examples") {
  const auto with = [](double share) {
    return [share](std::size_t i, std::size_t k) { return k == i ? share : (1 - share) / 2; };
  };
  const Tokens abc = {"a", "b", "c"}, def = {"d", "e", "f"};
  const std::string path = "encoder.layers.0.self_attn";
  const auto found = head_patterns({{layer_of(path, abc, abc, {with(0.5), with(0.9)})},
                                    {layer_of(path, def, def, {with(0.7), with(0.7)})}});
  REQUIRE(found.size() == 2);
  CHECK(found[0].head == 1);
  CHECK(found[0].share == doctest::Approx(0.8));
  CHECK(found[1].head == 0);
  CHECK(found[1].share == doctest::Approx(0.6));
  CHECK(head_patterns({}).empty());
}

TEST_CASE("the last position is named by its token if that is the same in all examples") {
  const auto last = [](std::size_t, std::size_t k) { return k == 2 ? 0.8 : 0.1; };
  const Tokens one = {"a", "b", "."}, other = {"a", "b", "!"};
  const std::string path = "encoder.layers.0.self_attn";
  CHECK(head_patterns({{layer_of(path, one, one, {last})}, {layer_of(path, one, one, {last})}})[0]
            .pattern == ".");
  CHECK(
      head_patterns({{layer_of(path, one, one, {last})}, {layer_of(path, other, other, {last})}})[0]
          .pattern == "the last position");
}

TEST_CASE("layers are numbered from 1 for people") {
  CHECK(layer_name("decoder.layers.1.cross_attn") == "decoder layer 2, cross-attention");
  CHECK(layer_name("encoder.layers.0.self_attn") == "encoder layer 1, self-attention");
  CHECK(layer_name("layers.11.self_attn") == "layer 12, self-attention");
  for (const char* other : {"mine", "encoder.layers.x.self_attn", "encoder.layers.0.mixer",
                            "players.0.self_attn", "encoder.layers.0", ""}) {
    CHECK(layer_name(other) == other);
  }
}

}  // namespace
}  // namespace tapestry
