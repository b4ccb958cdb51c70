#include "train/report/model_diagram.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tapestry {
namespace {

ModelSummary translation_model(bool has_source_embedding) {
  std::vector<ParameterShape> shapes{{.name = "target_embedding.weight", .shape = {9, 4}}};
  if (has_source_embedding) shapes.push_back({.name = "source_embedding.weight", .shape = {7, 4}});
  for (const char* layer : {"encoder.layers.0.", "encoder.layers.1."}) {
    for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"}) {
      const std::string module = layer + std::string("self_attn.") + name;
      shapes.push_back({.name = module + ".weight", .shape = {4, 4}});
      shapes.push_back({.name = module + ".bias", .shape = {4}});
    }
  }
  shapes.push_back({.name = "encoder.norm.weight", .shape = {4}});
  shapes.push_back({.name = "decoder.layers.0.cross_attn.q_proj.weight", .shape = {4, 4}});
  shapes.push_back({.name = "decoder.norm.weight", .shape = {4}});
  if (has_source_embedding) shapes.push_back({.name = "output.weight", .shape = {9, 4}});
  shapes.push_back({.name = "output.bias", .shape = {9}});
  return summarize(shapes);
}

Config small_config(const std::string& kind) {
  Config config;
  config.model_kind = kind;
  config.model.d_model = 4;
  return config;
}

std::vector<std::string> titles(const std::vector<DiagramBlock>& blocks) {
  std::vector<std::string> all;
  for (const DiagramBlock& block : blocks) all.push_back(block.title);
  return all;
}

const DiagramBlock& find_block(const std::vector<DiagramBlock>& blocks, const std::string& title) {
  const auto found = std::ranges::find(blocks, title, &DiagramBlock::title);
  REQUIRE(found != blocks.end());
  return *found;
}

TEST_CASE("a diagram has the encoder before the decoder that reads it") {
  const auto blocks = model_diagram(translation_model(true), small_config("seq2seq"));
  CHECK(titles(blocks) == std::vector<std::string>{"source_embedding", "encoder.layers.0-1",
                                                   "encoder.norm", "target_embedding",
                                                   "decoder.layers.0", "decoder.norm", "output"});
  for (const DiagramBlock& block : blocks) {
    CHECK(block.of_encoder == (block.title[0] == 's' || block.title[0] == 'e'));
    CHECK(block.reads_encoder == (block.title == "decoder.layers.0"));
  }
}

TEST_CASE("a diagram names shapes of tensors, with their number, and of outputs") {
  const auto blocks = model_diagram(translation_model(true), small_config("seq2seq"));
  const DiagramBlock& layers = find_block(blocks, "encoder.layers.0-1");
  CHECK(layers.count == 2);
  CHECK(layers.parameters == 4 * (4 * 4 + 4));
  REQUIRE(layers.modules.size() == 1);
  CHECK(layers.modules[0].name == "self_attn");
  CHECK(layers.modules[0].parameters == layers.parameters);
  CHECK(layers.modules[0].shapes == std::vector<std::string>{"4 x (4, 4)", "4 x (4)"});
  CHECK(layers.output == "(B, S, 4)");
  CHECK(find_block(blocks, "decoder.norm").output == "(B, T, 4)");
  CHECK(find_block(blocks, "output").output == "(B, T, 9)");
  CHECK(find_block(blocks, "output").note.empty());
}

TEST_CASE("a diagram shows embeddings that are tied") {
  Config config = small_config("seq2seq");
  config.model.tie_embeddings = TiedEmbeddings::all;
  const auto blocks = model_diagram(translation_model(false), config);
  CHECK(blocks.front().title == "source_embedding");
  CHECK(blocks.front().note == "weight of target_embedding");
  CHECK(blocks.front().parameters == 0);
  CHECK(find_block(blocks, "output").note == "weight of target_embedding");
  CHECK(find_block(blocks, "output").output == "(B, T, 9)");
}

TEST_CASE("a model with pooling computes one row of logits for each example") {
  const std::vector<ParameterShape> shapes{{.name = "embedding.weight", .shape = {7, 4}},
                                           {.name = "encoder.norm.weight", .shape = {4}},
                                           {.name = "head.weight", .shape = {2, 4}}};
  const auto pooled = model_diagram(summarize(shapes), small_config("classifier"));
  CHECK(pooled[1].output == "(B, L, 4)");
  CHECK(pooled[2].output == "(B, 2)");
  CHECK_FALSE(pooled[1].of_encoder);
  const auto of_tokens = model_diagram(summarize(shapes), small_config("tagger"));
  CHECK(of_tokens[2].output == "(B, L, 2)");
}

TEST_CASE("the class token is added to the patches of an image") {
  const std::vector<ParameterShape> shapes{{.name = "patches.projection.weight", .shape = {4, 9}},
                                           {.name = "patches.class_token", .shape = {1, 1, 4}},
                                           {.name = "head.weight", .shape = {2, 4}}};
  const auto blocks = model_diagram(summarize(shapes), small_config("vision_transformer"));
  REQUIRE(blocks.size() == 3);
  CHECK(blocks[0].output == "(B, P, 4)");
  CHECK(blocks[1].output == "(B, L, 4)");
  CHECK(blocks[2].output == "(B, 2)");
}

TEST_CASE("a diagram of another model has no outputs") {
  const std::vector<ParameterShape> shapes{{.name = "experts.weight", .shape = {2, 3, 4}},
                                           {.name = "output.weight", .shape = {2, 4}}};
  const auto blocks = model_diagram(summarize(shapes), small_config("mixture"));
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].output.empty());
  CHECK(blocks[1].output.empty());
  CHECK(blocks[0].modules[0].name.empty());
}

TEST_CASE("the page gets the blocks of a diagram") {
  const auto json = diagram_json(model_diagram(translation_model(true), small_config("seq2seq")));
  REQUIRE(json.size() == 7);
  CHECK(json[1]["title"] == "encoder.layers.0-1");
  CHECK(json[1]["count"] == 2);
  CHECK(json[1]["modules"][0]["shapes"][0] == "4 x (4, 4)");
  CHECK(json[1]["of_encoder"] == true);
  CHECK(json[4]["reads_encoder"] == true);
}

}  // namespace
}  // namespace tapestry
