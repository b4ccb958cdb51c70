#pragma once

#include <nlohmann/json.hpp>
#include <span>

/// Numbers of a recording and of a report as JSON.
namespace tapestry {

/// A number with 6 significant digits; null if it is not finite.
nlohmann::ordered_json json_number(double value);

/// A list of such numbers.
nlohmann::ordered_json json_numbers(std::span<const double> values);

/// The number of a json_number(); NaN for null.
///
/// throws  nlohmann::json::exception for a value of another type
double number_of(const nlohmann::ordered_json& json);

}  // namespace tapestry
