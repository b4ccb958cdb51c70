// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace tapestry {

/// A byte or character that a config must not contain.
struct BadCharacter {
  std::size_t offset;  ///< byte offset in the text
  std::string name;    ///< `byte 0xff, which is not UTF-8` or `control character U+0000`
  std::string hint = "save the file as UTF-8 text";
};

/// Finds the first byte of `text` that is not UTF-8 or begins a control character (C0, DEL, C1).
///
/// several_lines  whether to allow tabs, line feeds, and carriage returns before line feeds
std::optional<BadCharacter> find_bad_character(std::string_view text, bool several_lines);

/// The number of characters (code points) in the UTF-8 `text`.
std::size_t count_characters(std::string_view text);

/// At most `count` characters of `text`, starting with character `first`.
std::string_view characters(std::string_view text, std::size_t first, std::size_t count);

/// `text` in double quotes for a message. Truncates a long text with `...`.
std::string quoted(std::string_view text);

}  // namespace tapestry
