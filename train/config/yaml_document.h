#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/error.h"

namespace tapestry {

/// A part of one line of a YAML text.
struct YamlPosition {
  std::size_t line = 0;    ///< from 0
  std::size_t column = 0;  ///< in bytes, from 0
  std::size_t length = 1;  ///< in bytes
};

/// What stands to the right of a key.
enum class YamlKind { value, nothing, list, map };

/// For a message: `a value`, `nothing`, `a list`, `a map`.
std::string_view describe(YamlKind kind);

/// A key of the outermost map.
struct YamlSection {
  std::string name;
  YamlKind kind;  ///< map for a proper section
  YamlPosition position;
};

/// A key one level further in.
struct YamlEntry {
  std::string section;
  std::string key;
  YamlKind kind;      ///< value for a proper entry
  std::string value;  ///< as text, quotes resolved; empty for the other kinds
  YamlPosition key_position;
  YamlPosition value_position;
};

/// The small part of YAML that a config needs, as a flat list: sections, and in them keys with a
/// value each, every value a text on one line.
///
/// Anchors, aliases, merge keys, tags, second documents, keys that are no text and values over
/// several lines are refused. Nothing is ever expanded, and nothing deeper than a few levels is
/// read, so that a text can cost no more than its length.
class YamlDocument {
 public:
  /// Lines longer than this are refused.
  static constexpr std::size_t kLongestLine = 4096;  // bytes

  /// Reads `text`; `name` stands in the place of every problem. What is wrong is added to
  /// `problems`, and the document then holds what could be read.
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
