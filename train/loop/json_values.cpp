#include "train/loop/json_values.h"

#include <fmt/format.h>

#include <cmath>

#include "data/io/number.h"

namespace tapestry {

using Json = nlohmann::ordered_json;

Json json_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return parse_number<double>(fmt::format("{:.6g}", value)).value();
}

Json json_numbers(std::span<const double> values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(json_number(value));
  return list;
}

double number_of(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

}  // namespace tapestry
