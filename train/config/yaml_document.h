#pragma once

#include <cstddef>
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
enum class YamlKind { value, nothing, list, map };

/// For a message: `a value`, `nothing`, `a list`, `a map`.
std::string_view describe(YamlKind kind);

/// A top-level key.
struct YamlSection {
  std::string name;
  YamlKind kind;  ///< map for a valid section
  YamlPosition position;
};

/// A key in a section.
struct YamlEntry {
  std::string section;
  std::string key;
  YamlKind kind;      ///< value for a valid entry
  std::string value;  ///< as text, quotes resolved; empty for other kinds
  YamlPosition key_position;
  YamlPosition value_position;
};

/// The subset of YAML that configs use, as a flat list: sections, and in each section keys with one
/// value, each a text on one line.
///
/// Anchors, aliases, merge keys, tags, second documents, keys that are not text and values over
/// several lines are refused. Aliases are never expanded and nesting is limited to a few levels, so
/// that reading takes time and memory linear in the length of the text.
class YamlDocument {
 public:
  /// Lines longer than this are refused.
  static constexpr std::size_t kLongestLine = 4096;  // bytes

  /// Reads `text`; `name` is the file name in error messages. Errors are added to `problems`; the
  /// document then holds the parts that could be read.
  YamlDocument(std::string name, std::string_view text, ProblemList& problems);

  const std::string& name() const { return name_; }
  const std::vector<YamlSection>& sections() const { return sections_; }
  const std::vector<YamlEntry>& entries() const { return entries_; }

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
