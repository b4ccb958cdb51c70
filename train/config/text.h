#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tapestry {

/// A byte or character that has no place in a config.
struct BadCharacter {
  std::size_t offset;  ///< in bytes
  std::string name;    ///< `byte 0xff, which is not UTF-8` or `control character U+0000`
  std::string hint = "save the file as UTF-8 text";
};

/// The first byte of `text` that is not UTF-8 or begins a control character (C0, DEL, C1). Tab,
/// line feed and a carriage return in front of one pass if `several_lines`.
std::optional<BadCharacter> find_bad_character(std::string_view text, bool several_lines);

/// How many characters (code points) the UTF-8 `text` has.
std::size_t count_characters(std::string_view text);

/// At most `count` characters of `text`, from the character `first` on.
std::string_view characters(std::string_view text, std::size_t first, std::size_t count);

/// `text` in double quotes for a message, its end replaced by `...` if it is long.
std::string quoted(std::string_view text);

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
