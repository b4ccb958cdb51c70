// SPDX-License-Identifier: BSD-3-Clause
#include "train/models/model_summary.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

namespace tapestry {
namespace {

std::vector<ParameterShape> small_model() {
  std::vector<ParameterShape> shapes{{"embedding.weight", {24, 8}}};
  for (const char* layer : {"0", "1", "2"}) {
    const std::string path = std::string("encoder.layers.") + layer;
    shapes.push_back({path + ".attn.weight", {8, 8}});
    shapes.push_back({path + ".norm.weight", {8}});
  }
  shapes.push_back({"encoder.norm.weight", {8}});
  shapes.push_back({"encoder.norm.bias", {8}});
  shapes.push_back({"scale", {}});
  return shapes;
}

TEST_CASE("a summary groups equal layers of a stack and counts every value") {
  const ModelSummary summary = summarize(small_model());
  CHECK(to_line(summary) == "embedding 192; encoder.layers 3 x 72; encoder.norm 16; scale 1");
  CHECK(summary.parameters == 192 + 3 * 72 + 16 + 1);
  CHECK(summary.tensors == 10);
  REQUIRE(summary.blocks.size() == 4);
  CHECK(summary.blocks[1].path == "encoder.layers.0-2");
  CHECK(summary.blocks[1].tensors.size() == 2);
  CHECK(summary.blocks[1].tensors[0].name == "attn.weight");
}

TEST_CASE("layers that differ in shape, name or freezing are separate blocks") {
  for (int difference : {0, 1, 2}) {
    CAPTURE(difference);
    std::vector<ParameterShape> shapes = small_model();
    ParameterShape& last = shapes[6];  // encoder.layers.2.norm.weight
    if (difference == 0) last.shape = {9};
    if (difference == 1) last.name = "encoder.layers.2.norm.scale";
    if (difference == 2) last.frozen = true;
    const ModelSummary summary = summarize(shapes);
    REQUIRE(summary.blocks.size() == 5);
    CHECK(summary.blocks[1].path == "encoder.layers.0-1");
    CHECK(summary.blocks[1].count == 2);
    CHECK(summary.blocks[2].path == "encoder.layers.2");
  }
}

TEST_CASE("equal layers of different stacks are not grouped") {
  const ModelSummary summary = summarize(
      std::vector<ParameterShape>{{"a.0.w", {2}}, {"a.1.w", {2}}, {"b.0.w", {2}}, {"b.1.w", {2}}});
  CHECK(to_line(summary) == "a 2 x 2; b 2 x 2");
}

TEST_CASE("a table has the shape of every tensor, the totals and the frozen parameters") {
  std::vector<ParameterShape> shapes = small_model();
  CHECK(to_table(summarize(shapes))
            .ends_with("total: 425 parameters in 10 tensors, all trainable\n"));
  shapes[0].frozen = true;
  const ModelSummary summary = summarize(shapes);
  CHECK(to_line(summary).ends_with("scale 1 (233 trainable, 192 frozen)"));
  const std::string table = to_table(summary);
  CHECK(table.find("\nembedding ") != std::string::npos);
  CHECK(table.find("  (24, 8)  frozen\n") != std::string::npos);
  CHECK(table.find("encoder.layers.0-2      3             72\n") != std::string::npos);
  CHECK(table.ends_with("total: 425 parameters in 10 tensors, 233 trainable, 192 frozen\n"));
}

}  // namespace
}  // namespace tapestry
