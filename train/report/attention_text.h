#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tapestry {

/// The characters of levels in weights_to_text(): printable ASCII without those that JSON or HTML
/// escapes, and without `~`.
std::string_view level_characters();

/// Attention weights as a short text. A weight w has the character
///
///     level_characters()[round(sqrt(w) * n)]
///
/// for n + 1 characters, so that small weights, which differ most, have the finer levels; level 0
/// only for weights of exactly 0 (masked). Weights outside of [0, 1] become the nearest one, NaN
/// becomes 0. `~` and the character of level k repeat the character before it k + 1 times.
///
/// returns  printable ASCII; the error of a weight is at most 0.012
std::string weights_to_text(std::span<const double> weights);

/// The weights of a text, up to rounding; for tests. The page has the same function.
std::vector<double> weights_from_text(std::string_view text);

}  // namespace tapestry
