// SPDX-License-Identifier: BSD-3-Clause
#include "train/checks/gradients.h"

#include <doctest/doctest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace tapestry {
namespace {

using nlohmann::json;

/// A row whose fields have different values.
GradcheckRow uneven_row() {
  return {.output = "loss",
          .name = "head.weight",
          .shape = {2, 3},
          .has_gradient = false,
          .zero = true,
          .gradient_norm = 1.5,
          .least_norm = 0.125,
          .worst_relative_error = 2.5,
          .worst_coordinate = 4,
          .analytic = 0.25,
          .numeric = -0.5,
          .coordinates = {.checked = 6, .inconclusive = 1},
          .directions = {.checked = 3, .inconclusive = 2},
          .inconclusive_coordinate = 5,
          .cosine = 0.75,
          .factor = 8.0,
          .verdict = GradcheckVerdict::wrong};
}

const json uneven_object = json::parse(R"({
  "output": "loss", "name": "head.weight", "shape": [2, 3], "verdict": "wrong", "has_gradient": false, "reached": false,
  "zero": true, "gradient_norm": 1.5, "least_norm": 0.125, "worst_relative_error": 2.5, "worst_coordinate": 4,
  "analytic": 0.25, "numeric": -0.5, "cosine": 0.75, "factor": 8.0,
  "coordinates": {"checked": 6, "inconclusive": 1}, "directions": {"checked": 3, "inconclusive": 2},
  "inconclusive_coordinate": 5})");

json object_of(const GradcheckReport& report) { return json::parse(to_json(report, "m.yaml")); }

TEST_CASE("every field of a gradcheck row is written to JSON with its value") {
  CHECK(object_of({.rows = {uneven_row()}, .first_wrong = {}}).at("rows") ==
        json::array({uneven_object}));
}

TEST_CASE("missing and non-finite values are null in JSON") {
  GradcheckRow row = uneven_row();
  row.worst_coordinate = row.inconclusive_coordinate = std::nullopt;
  row.worst_relative_error = std::numeric_limits<double>::infinity();
  row.factor = std::numeric_limits<double>::quiet_NaN();
  json expected = uneven_object;
  for (const char* key :
       {"worst_coordinate", "inconclusive_coordinate", "worst_relative_error", "factor"}) {
    expected[key] = nullptr;
  }
  const json object = object_of({.rows = {row}, .first_wrong = {}});
  CHECK(object.at("rows") == json::array({expected}));
  CHECK(object.at("first_wrong").is_null());
  CHECK(object.at("model") == "m.yaml");
}

TEST_CASE("in JSON, the first wrong operation has its place, its inputs and the row of one input") {
  const GradcheckReport report{
      .rows = {},
      .first_wrong = FaultyOperation{.index = 7,
                                     .recorded = 9,
                                     .operation = "mul",
                                     .layer_path = "encoder.norm",
                                     .inputs = {{2}, {}},
                                     .wrong_inputs = {{.input = 1, .row = uneven_row()}}}};
  json expected = json::parse(R"({"operation": "mul", "layer_path": "encoder.norm", "index": 7,
                                  "recorded": 9, "inputs": [[2], []]})");
  expected["wrong_inputs"] = json::array({{{"input", 1}, {"row", uneven_object}}});
  CHECK(object_of(report).at("first_wrong") == expected);
}

TEST_CASE("the verdict is the worst verdict of any row") {
  using enum GradcheckVerdict;
  const auto verdict = [](std::initializer_list<GradcheckVerdict> verdicts) {
    GradcheckReport report{.rows = {}, .first_wrong = {}};
    for (const GradcheckVerdict one : verdicts) {
      report.rows.push_back(uneven_row());
      report.rows.back().verdict = one;
    }
    return object_of(report).at("verdict").get<std::string>();
  };
  CHECK(verdict({agrees, agrees}) == "agrees");
  CHECK(verdict({agrees, too_small}) == "agrees");
  CHECK(verdict({too_small, too_small}) == "too small");
  CHECK(verdict({agrees, inconclusive, agrees}) == "inconclusive");
  CHECK(verdict({agrees, inconclusive, wrong, agrees}) == "wrong");
}

}  // namespace
}  // namespace tapestry
