#include "train/commands/gradcheck_json.h"

#include <nlohmann/json.hpp>

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;  // which writes what is not finite as null

Json shape_to_json(const Shape& shape) {
  Json extents = Json::array();
  for (std::size_t axis = 0; axis < shape.rank(); ++axis) extents.push_back(shape[axis]);
  return extents;
}

Json optional_to_json(const std::optional<std::size_t>& index) {
  return index ? Json(*index) : Json(nullptr);
}

Json count_to_json(const GradcheckCount& count) {
  return {{"checked", count.checked}, {"untold", count.untold}};
}

Json row_to_json(const GradcheckRow& row) {
  return {{"output", row.output},
          {"name", row.name},
          {"shape", shape_to_json(row.shape)},
          {"verdict", name(row.verdict)},
          {"reached", row.reached},
          {"zero", row.zero},
          {"gradient_norm", row.gradient_norm},
          {"worst_relative_error", row.worst_relative_error},
          {"worst_coordinate", optional_to_json(row.worst_coordinate)},
          {"analytic", row.analytic},
          {"numeric", row.numeric},
          {"cosine", row.cosine},
          {"factor", row.factor},
          {"coordinates", count_to_json(row.coordinates)},
          {"directions", count_to_json(row.directions)},
          {"untold_coordinate", optional_to_json(row.untold_coordinate)}};
}

Json fault_to_json(const std::optional<FaultyOperation>& found) {
  if (!found) return nullptr;
  Json inputs = Json::array();
  for (const Shape& shape : found->inputs) inputs.push_back(shape_to_json(shape));
  return {{"operation", found->operation}, {"layer_path", found->layer_path},
          {"index", found->index},         {"recorded", found->recorded},
          {"input", found->input},         {"inputs", inputs},
          {"row", row_to_json(found->row)}};
}

GradcheckVerdict verdict_of(const GradcheckReport& report) {
  for (const auto verdict : {GradcheckVerdict::wrong, GradcheckVerdict::cannot_tell}) {
    if (report.count(verdict) > 0) return verdict;
  }
  return GradcheckVerdict::agrees;
}

}  // namespace

std::string to_json(const GradcheckReport& report, const std::string& model) {
  Json rows = Json::array();
  for (const GradcheckRow& row : report.rows) rows.push_back(row_to_json(row));
  const Json json = {{"model", model},
                     {"verdict", name(verdict_of(report))},
                     {"first_wrong", fault_to_json(report.first_wrong)},
                     {"rows", rows}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

}  // namespace tapestry
