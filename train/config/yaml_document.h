#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/error.h"

namespace tapestry {

/// A range within one line of a YAML text.
struct YamlPosition {
  std::size_t line = 0;    ///< from 0
  std::size_t column = 0;  ///< in bytes, from 0
  std::size_t length = 1;  ///< in bytes
};

/// What follows a key.
enum class YamlKind {
  value,    ///< a text on one line
  nothing,  ///< the end of the line
  list,     ///< a list, of any style
  map       ///< a map, of any style
};

/// For a message: `a value`, `nothing`, `a list`, `a map`.
std::string_view describe(YamlKind kind);

/// A top-level key.
struct YamlSection {
  std::string name;       ///< the key
  YamlKind kind;          ///< map for a valid section
  YamlPosition position;  ///< of the key
};

/// A key in a section.
struct YamlEntry {
  std::string section;          ///< name of the section
  std::string key;              ///< name in the section
  YamlKind kind;                ///< value for a valid entry
  std::string value;            ///< as text, quotes resolved; empty for other kinds
  YamlPosition key_position;    ///< of the key
  YamlPosition value_position;  ///< of the value; of the key if there is none
  /// The items of a list, quotes resolved; nullopt if it has items that are not texts on one line.
  std::optional<std::vector<std::string>> items{};
};

/// The subset of YAML that configs use, as a flat list: sections, and in each section keys with one
/// value, each a text on one line, or a list of such texts.
///
/// Anchors, aliases, merge keys, tags, second documents, keys that are not text and values over
/// several lines are refused. Aliases are never expanded and nesting is limited to a few levels, so
/// that reading takes time and memory linear in the length of the text.
class YamlDocument {
 public:
  /// The length of the longest line in bytes; longer ones are refused.
  static constexpr std::size_t longest_line = 4096;

  /// Reads `text`; `name` is the file name in error messages. Errors are added to `problems`; the
  /// document then holds the parts that could be read.
  YamlDocument(std::string name, std::string_view text, ProblemList& problems);

  /// The file name in error messages.
  const std::string& name() const { return name_; }
  /// The sections in file order.
  const std::vector<YamlSection>& sections() const { return sections_; }
  /// The keys of all sections in file order.
  const std::vector<YamlEntry>& entries() const { return entries_; }

  /// A position with the file name and the source line, for messages.
  Place place(const YamlPosition& position) const;

 private:
  bool check_lines(ProblemList& problems) const;
  bool check_characters(std::string_view text, ProblemList& problems) const;
  void collect(std::string_view text, ProblemList& problems);

  std::string name_;
  std::vector<std::string> lines_;
  std::vector<YamlSection> sections_;
  std::vector<YamlEntry> entries_;
};

}  // namespace tapestry
