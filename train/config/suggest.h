#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tapestry {

/// How many insertions, deletions, replacements and swaps of two neighbours turn `a` into `b`, no
/// part being edited twice (optimal string alignment). Letter case does not count, and `-` equals
/// `_`: these are told apart by the parser but rarely by a hand.
///
/// Takes time in proportion to |a| |b|.
std::size_t edit_distance(std::string_view a, std::string_view b);

/// The candidate that a user who typed `word` probably meant: the one at the smallest edit
/// distance, the first of several, if at most a third of the word (but always one edit) differs.
/// Words longer than 64 bytes have none.
std::optional<std::string> closest(std::string_view word, std::span<const std::string> candidates);

}  // namespace tapestry
