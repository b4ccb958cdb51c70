#include "train/recording/json_values.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

namespace tapestry {

using Json = nlohmann::ordered_json;

Json json_number(double value) {
  if (!std::isfinite(value)) return nullptr;
  return std::strtod(fmt::format("{:.6g}", value).c_str(), nullptr);
}

Json json_numbers(std::span<const double> values) {
  Json list = Json::array();
  for (const double value : values) list.push_back(json_number(value));
  return list;
}

}  // namespace tapestry
