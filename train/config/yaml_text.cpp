// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/yaml_text.h"

#include <fmt/format.h>
#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "train/base/program.h"
#include "train/config/config.h"
#include "train/config/load.h"
#include "train/config/text.h"

namespace tapestry {
namespace {

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.emplace_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

bool is_blank_or_comment(std::string_view line) {
  const std::size_t first = line.find_first_not_of(" \t");
  return first == std::string_view::npos || line[first] == '#';
}

/// An error in a line, such as a tab in the indentation.
struct LineError {
  std::size_t column;  ///< byte offset in the line
  std::string message;
  std::string hint;
};

std::optional<LineError> find_line_error(std::string_view line) {
  constexpr std::size_t max_length = YamlText::max_line_length;
  if (line.size() > max_length) {
    return LineError{max_length,
                     fmt::format("line of {} bytes, expected at most {}", line.size(), max_length),
                     "check that this file is meant to be a config"};
  }
  if (const std::size_t at = line.find(byte_order_mark); at != std::string_view::npos) {
    return LineError{at, "found a byte order mark, which is valid only at the start of a file",
                     "remove it with: sed 's/\\xEF\\xBB\\xBF//g'"};
  }
  const std::size_t indented = line.find_first_not_of(' ');
  if (!is_blank_or_comment(line) && line[indented] == '\t') {
    return LineError{indented, "found a tab in the indentation, expected spaces",
                     "indent with spaces; YAML does not allow tabs"};
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> with_colon_and_space(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == line.npos) return std::nullopt;
  line = line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
  const std::size_t end =
      std::min(line.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), line.size());
  const std::string_view key = line.substr(0, end);
  std::string_view rest = line.substr(end);
  const std::size_t sign = rest.find_first_not_of(' ');
  const bool has_equals = sign != rest.npos && rest[sign] == '=';
  const bool has_colon = rest.starts_with(':');
  if (has_colon || has_equals) rest.remove_prefix(has_equals ? sign + 1 : 1);
  const bool has_space = rest.empty() || rest.starts_with(' ');
  if (key.empty() || (!has_equals && has_colon == has_space)) return std::nullopt;
  const std::size_t value = std::min(rest.find_first_not_of(' '), rest.size());
  return fmt::format("{}:{}{}", key, value < rest.size() ? " " : "", rest.substr(value));
}

namespace {

std::size_t line_of(const YAML::Mark& mark) {
  return static_cast<std::size_t>(std::max(0, mark.line));
}

/// The index of the line that lacks a colon or the space after it. yaml-cpp often reports the error
/// one line late. Returns the reported line if neither line has this error.
std::size_t find_wrong_line(std::size_t found, const std::vector<std::string>& lines) {
  std::size_t searched = 0;
  for (std::size_t i = std::min(found + 1, lines.size()); i > 0 && searched < 2; --i) {
    if (is_blank_or_comment(lines[i - 1])) continue;
    ++searched;
    if (with_colon_and_space(lines[i - 1])) return i - 1;
  }
  return std::min(found, lines.size());
}

constexpr const char* backslash_hint =
    "put the text in single quotes: in double quotes, a backslash begins an escape sequence";

/// Whether a text in double quotes has a backslash, as in "C:\\Users".
bool has_escape_in_quotes(std::string_view text) {
  const std::size_t quote = text.find('"');
  return quote != text.npos && text.find('\\', quote) != text.npos;
}

/// The hint for a section and its key on one line, such as `data: task: copy`; empty for other
/// lines.
std::string hint_for_section_line(std::string_view line) {
  const std::size_t section = line.find(": ");
  if (section == line.npos || line.substr(0, section).find_first_of(" '\"{[#") != line.npos)
    return "";
  const std::size_t begin = line.find_first_not_of(' ', section + 1);
  const std::size_t key = line.find(": ", section + 1);
  if (key == line.npos || line.substr(begin, key - begin).find_first_of(" '\"{[#") != line.npos) {
    return "";
  }
  return fmt::format("write `{}` indented below `{}:`", escaped(line.substr(begin)),
                     escaped(line.substr(0, section)));
}

/// A line `key: value`, `section:` or `section: &anchor`.
struct KeyLine {
  std::size_t indentation;  ///< in spaces
  std::string key;
  bool has_value;
};

/// The key of a line; nullopt for other lines, such as list entries.
std::optional<KeyLine> read_key_line(std::string_view line) {
  line = line.substr(0, line.find(" #"));
  const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
  const std::size_t end = line.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_", begin);
  if (end == line.npos || end == begin || line[end] != ':') return std::nullopt;
  const std::size_t value = line.find_first_not_of(' ', end + 1);
  const bool is_anchor = value != line.npos && line[value] == '&' &&
                         line.find_first_not_of(' ', line.find(' ', value)) == line.npos;
  return KeyLine{begin, std::string(line.substr(begin, end - begin)),
                 value != line.npos && !is_anchor};
}

/// The hint for a key whose indentation matches no key above it; empty if the indentation is right.
std::string hint_for_indentation(std::size_t wrong, const std::vector<std::string>& lines) {
  const auto found = read_key_line(lines[wrong]);
  std::size_t nearest = wrong;  // the line with a key above
  for (std::size_t i = wrong; found && i-- > 0;) {
    if (is_blank_or_comment(lines[i])) continue;
    const auto above = read_key_line(lines[i]);
    if (!above || above->indentation == found->indentation) return "";
    if (nearest == wrong) nearest = i;
    if (above->indentation < found->indentation) {
      if (nearest == i && !above->has_value) return "";
      break;
    }
  }
  if (nearest == wrong) return "";
  return fmt::format("indent `{}` and `{}` in line {} equally: they have {} and {} spaces",
                     found->key, read_key_line(lines[nearest])->key, nearest + 1,
                     found->indentation, read_key_line(lines[nearest])->indentation);
}

std::string hint_for(const YAML::Exception& error, const std::vector<std::string>& lines) {
  const bool starts_with_a_symbol =
      error.msg == YAML::ErrorMsg::UNKNOWN_TOKEN || error.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR;
  if (starts_with_a_symbol) return "put the value in double quotes if it is meant as text";
  for (const auto& [kind, bracket] : {std::pair("map", '}'), std::pair("sequence", ']')}) {
    if (error.msg.find(fmt::format("end of {} flow not found", kind)) != std::string::npos) {
      return fmt::format("separate the entries with commas, and close the {} with `{}`",
                         bracket == '}' ? "section" : "list", bracket);
    }
  }
  const std::size_t found = line_of(error.mark);  // the line of the error or the next line
  for (const std::size_t each : {found, found - 1}) {
    if (each < lines.size() && has_escape_in_quotes(lines[each])) return backslash_hint;
  }
  if (found < lines.size()) {
    if (std::string hint = hint_for_section_line(lines[found]); !hint.empty()) return hint;
    if (std::string hint = hint_for_indentation(found, lines); !hint.empty()) return hint;
  }
  const std::size_t line = find_wrong_line(line_of(error.mark), lines);
  const auto valid = line < lines.size() ? with_colon_and_space(lines[line]) : std::nullopt;
  if (valid) return fmt::format("write `{}` in line {}", escaped(*valid), line + 1);
  return "write every key as `key: value`, indented like the keys around it";
}

/// Whether a line begins with `mark`, `---` or `...`, which separate documents.
bool is_mark(std::string_view line, std::string_view mark) {
  return line.starts_with(mark) && (line.size() == mark.size() || line[mark.size()] == ' ');
}

/// The index of the line where a second document begins. Does not use YAML::LoadAll(), which can
/// return empty documents forever, for example at a comma outside of lists.
std::optional<std::size_t> second_document(const std::vector<std::string>& lines) {
  bool has_begun = false, has_ended = false;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const std::string& line = lines[i];
    if (is_blank_or_comment(line) || line.starts_with('%')) continue;
    if (is_mark(line, "...")) {
      has_ended = true;
      continue;
    }
    if (has_ended || (has_begun && is_mark(line, "---"))) return i;
    has_begun = true;
  }
  return std::nullopt;
}

bool is_quoted(std::string_view written) {
  return written.starts_with('"') || written.starts_with('\'');
}

/// The length of the quoted text at the start of `written`, including the quotes; 0 if the quote is
/// not closed.
std::size_t quoted_length(std::string_view written) {
  const char quote = written[0];
  for (std::size_t i = 1; i < written.size(); ++i) {
    const bool escapes = quote == '"' ? written[i] == '\\' : written.substr(i, 2) == "''";
    if (escapes) {
      ++i;
    } else if (written[i] == quote) {
      return i + 1;
    }
  }
  return 0;
}

}  // namespace

std::string_view describe(const YAML::Node& node) {
  if (node.IsScalar()) return "a value";
  if (node.IsSequence()) return "a list";
  return node.IsMap() ? "a map" : "nothing";
}

YamlText::YamlText(std::string name, std::string_view text, Diagnostics& errors)
    : name_(std::move(name)), errors_(errors) {
  if (text.size() > max_config_size) {
    errors_.add({.file = name_}, fmt::format("is larger than {} bytes", max_config_size),
                "check that this file is meant to be a config");
    return;
  }
  if (const OtherEncoding* encoding = detect_other_encoding(text)) {
    errors_.add({.file = name_}, fmt::format("found {}, expected UTF-8", encoding->name),
                fmt::format("convert it with: iconv -f {} -t UTF-8", encoding->family));
    return;
  }
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  lines_ = split_lines(text);
  if (check_characters(text) && check_lines()) set_root(parse(std::string(text)));
}

bool YamlText::check_characters(std::string_view text) {
  const std::optional<BadCharacter> bad = find_bad_character(text, true);
  if (!bad) return true;
  const std::string_view before = text.substr(0, bad->offset);
  const std::string_view line = before.substr(before.rfind('\n') + 1);
  const auto breaks = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  errors_.add({.file = name_,
               .line = breaks + 1,
               .column = count_characters(line) + 1,
               .source_line = fmt::format("{}?", line)},
              fmt::format("found {}", bad->name), bad->hint);
  return false;
}

bool YamlText::check_lines() {
  bool good = true;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    auto bad = find_line_error(lines_[i]);
    if (!bad) continue;
    errors_.add(place(i, bad->column), std::move(bad->message), std::move(bad->hint));
    good = false;
  }
  return good;
}

YAML::Node YamlText::parse(const std::string& text) {
  std::size_t line = 0;
  try {
    if (const auto second = second_document(lines_)) {
      errors_.add(place(*second, 0), "found a second document, expected one document",
                  "keep each config in a separate file");
    }
    return YAML::Load(text);
  } catch (const YAML::DeepRecursion& error) {
    line = line_of(error.mark);
    errors_.add(place(line, 0), "lists or maps are nested too deeply",
                "write every key as `key: value`");
  } catch (const YAML::Exception& error) {
    line = line_of(error.mark);
    errors_.add(place(line, static_cast<std::size_t>(std::max(0, error.mark.column))),
                fmt::format("not valid YAML: {}", escaped(error.msg)), hint_for(error, lines_));
  }
  try {
    std::string before;
    const std::size_t end = find_wrong_line(line, lines_);
    for (std::size_t i = 0; i < end; ++i) before += lines_[i] + "\n";
    return YAML::Load(before);
  } catch (const YAML::Exception&) {
    return {};  // the error was already reported
  }
}

void YamlText::set_root(const YAML::Node& first) {
  if (first.IsMap() && first.size() > 0) {
    root_ = first;
  } else if (!errors_.empty()) {
    return;  // an error was already reported
  } else if (first.IsMap() || first.IsNull()) {
    errors_.add({.file = name_}, "is empty, expected sections such as `model:`",
                fmt::format("`{} config new FILE` writes a config for your data", program_name()));
  } else {
    report(first, fmt::format("expected sections such as `model:`, found {}", describe(first)),
           "write `model:` and, indented below it, `d_model: 64`");
  }
}

std::vector<YamlEntry> YamlText::entries(const std::string& section, const YAML::Node& map) {
  Collected collected{.section = section};
  collect(map, collected);
  return std::move(collected.entries);
}

void YamlText::collect(const YAML::Node& map, Collected& collected) {
  std::map<std::string, std::size_t> first_lines;  // lines from 1; yaml-cpp keeps repeated keys
  std::vector<YAML::Node> merged;
  for (const auto& pair : map) {
    const YAML::Node& key = pair.first;
    const YAML::Node& value = pair.second;
    if (!check_key(key)) continue;
    const std::string& name = key.Scalar();
    const auto [first, is_new] = first_lines.try_emplace(name, line_of(key.Mark()) + 1);
    if (!is_new) {
      const std::string what = collected.section.empty()
                                   ? fmt::format("section `{}`", name)
                                   : fmt::format("key `{}` in `{}`", name, collected.section);
      report(key, fmt::format("repeated {}, first on line {}", what, first->second),
             "keep one of the two");
    }
    if (is_new && name == "<<") {
      merged = maps_to_merge(key, value);
      continue;
    }
    // The keys of a repeated section are also checked.
    const bool section_again = !is_new && collected.section.empty();
    if (collected.keys.insert(name).second || section_again) {
      YamlEntry entry{name, value, place(key), place_of_value(key, value)};
      if (check_value(entry)) collected.entries.push_back(std::move(entry));
    }
  }
  for (const YAML::Node& each : merged) collect(each, collected);
}

std::vector<YAML::Node> YamlText::maps_to_merge(const YAML::Node& key, const YAML::Node& value) {
  std::vector<YAML::Node> maps;
  if (value.IsSequence()) {
    for (const YAML::Node& each : value) maps.push_back(each);
  } else {
    maps.push_back(value);
  }
  const auto is_map = [](const YAML::Node& node) { return node.IsMap(); };
  if (!std::ranges::all_of(maps, is_map)) {
    report(key, fmt::format("expected a map or a list of maps to merge, found {}", describe(value)),
           "write `<<: *NAME`, with an anchor &NAME on a map");
    return {};
  }
  merged_maps_ += maps.size();
  if (merged_maps_ <= max_merged_maps) return maps;
  report(
      key,
      fmt::format("found more than {} merged maps, or a map that merges itself", max_merged_maps),
      "write the keys themselves");
  return {};
}

bool YamlText::check_key(const YAML::Node& key) {
  if (key.IsScalar()) return check_scalar(key, place(key));
  report(key, fmt::format("expected a key, found {}", describe(key)),
         "write every key as `key: value`");
  return false;
}

bool YamlText::check_value(const YamlEntry& entry) {
  const YAML::Node& value = entry.value;
  if (!check_scalar(value, entry.value_place)) return false;
  const auto check_item = [&](const YAML::Node& item) { return check_scalar(item, place(item)); };
  return !value.IsSequence() || std::all_of(value.begin(), value.end(), check_item);
}

bool YamlText::check_scalar(const YAML::Node& scalar, const Place& place) {
  // yaml-cpp sets the tag of a node without a tag to `?`, or to `!` if the node is quoted.
  const std::string& tag = scalar.Tag();
  const std::string_view line = written(scalar);
  const auto reject = [&](std::string message, std::string hint) {
    errors_.add(place, std::move(message), std::move(hint));
    return false;
  };
  if (!tag.empty() && tag != "?" && tag != "!") {
    return reject("found a tag (!), which a config does not need", "write only the value");
  }
  if (!scalar.IsScalar()) return true;
  if (tag == "!" && is_quoted(line) && quoted_length(line) == 0) {
    return reject("found a quote that is not closed on its line", "close the quote");
  }
  const auto bad = find_bad_character(scalar.Scalar(), false);
  if (!bad) return true;
  if (tag == "!" && line.starts_with('"') && has_escape_in_quotes(line)) {
    return reject(fmt::format("found {}", bad->name), backslash_hint);
  }
  const bool breaks = scalar.Scalar()[bad->offset] == '\n';
  return breaks ? reject("found a text that extends over several lines, expected one line",
                         "write it on one line")
                : reject(fmt::format("found {}", bad->name), "remove the escape sequence");
}

void YamlText::report(const YAML::Node& node, std::string message, std::string hint) {
  errors_.add(place(node), std::move(message), std::move(hint));
}

std::string_view YamlText::written(const YAML::Node& node) const {
  const YAML::Mark mark = node.Mark();
  if (line_of(mark) >= lines_.size()) return {};
  std::string_view rest = lines_[line_of(mark)];
  rest.remove_prefix(std::min(static_cast<std::size_t>(std::max(0, mark.column)), rest.size()));
  if (!rest.starts_with('&')) return rest;
  rest.remove_prefix(std::min(rest.find(' '), rest.size()));
  rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
  return rest;
}

Place YamlText::place(const YAML::Node& node) const {
  const std::string_view rest = written(node);
  std::size_t length = 1;
  if (is_quoted(rest)) {
    length = quoted_length(rest);
  } else if (node.IsScalar() && rest.starts_with(node.Scalar())) {
    length = node.Scalar().size();
  }
  const std::size_t line = line_of(node.Mark());
  return place(line, line < lines_.size() ? lines_[line].size() - rest.size() : 0, length);
}

Place YamlText::place_of_value(const YAML::Node& key, const YAML::Node& value) const {
  if (value.IsNull()) return place(key);
  // For an alias, yaml-cpp returns the node of the anchor.
  const bool is_alias = value.Mark().pos < key.Mark().pos;
  if (!is_alias) return place(value);
  const std::string_view rest = written(key);
  const std::size_t star = rest.find('*', key.Scalar().size());
  if (star == rest.npos) return place(key);
  const std::size_t length = std::min(rest.find_first_of(" ,}", star), rest.size()) - star;
  const std::size_t line = line_of(key.Mark());
  return place(line, lines_[line].size() - rest.size() + star, length);
}

Place YamlText::place(std::size_t line, std::size_t column, std::size_t length) const {
  Place place{.file = name_};
  if (lines_.empty()) return place;
  // yaml-cpp reports an unexpected end of the text at a position after the last line.
  const std::size_t index = std::min(line, lines_.size() - 1);
  const std::string_view text = lines_[index];
  const std::string_view before = text.substr(0, index == line ? column : text.size());
  place.line = index + 1;
  place.column = count_characters(before) + 1;
  place.length = std::max<std::size_t>(1, count_characters(text.substr(before.size(), length)));
  place.source_line = text;
  return place;
}

}  // namespace tapestry
