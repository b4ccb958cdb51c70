#include "train/config/yaml_document.h"

#include <fmt/format.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>

#include "data/io/text_file.h"
#include "data/io/utf8.h"
#include "train/config/config.h"
#include "train/config/text.h"
#include "train/config/yaml_events.h"

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

std::optional<std::size_t> tab_in_indentation(std::string_view line) {
  const std::size_t tab = line.find_first_not_of(' ');
  const bool found = tab != std::string_view::npos && line[tab] == '\t';
  return found && !is_blank_or_comment(line) ? std::optional(tab) : std::nullopt;
}

/// Something that a line must not contain.
struct LineProblem {
  std::size_t column;  ///< in bytes, from 0
  std::string message;
  std::string hint;
};

std::optional<LineProblem> find_line_problem(std::string_view line) {
  constexpr std::size_t longest = YamlDocument::longest_line;
  if (line.size() > longest) {
    return LineProblem{longest,
                       fmt::format("line of {} bytes, expected at most {}", line.size(), longest),
                       "check that this file is meant to be a config"};
  }
  if (const std::size_t at = line.find(byte_order_mark); at != std::string_view::npos) {
    return LineProblem{at, "found a byte order mark, which belongs at the front of a file",
                       "remove it, with: sed 's/\\xEF\\xBB\\xBF//g'"};
  }
  if (const auto tab = tab_in_indentation(line)) {
    return LineProblem{*tab, "found a tab in the indentation, expected spaces",
                       "indent with spaces; YAML does not allow tabs"};
  }
  return std::nullopt;
}

/// For a line such as `d_model:128` or `d_model 128`, its valid form; nullopt for other lines.
std::optional<std::string> with_colon_and_space(std::string_view line) {
  line = line.substr(0, line.find('#'));
  const std::size_t begin = line.find_first_not_of(' ');
  if (begin == line.npos) return std::nullopt;
  line = line.substr(begin, line.find_last_not_of(' ') + 1 - begin);
  const std::size_t end =
      std::min(line.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"), line.size());
  const std::string_view key = line.substr(0, end);
  std::string_view rest = line.substr(end);
  const bool has_colon = rest.starts_with(':');
  if (has_colon) rest.remove_prefix(1);
  const bool has_space = rest.empty() || rest.starts_with(' ');
  if (key.empty() || has_colon == has_space) return std::nullopt;
  const std::size_t value = std::min(rest.find_first_not_of(' '), rest.size());
  return fmt::format("{}:{}{}", key, value < rest.size() ? " " : "", rest.substr(value));
}

/// yaml-cpp often finds the mistake of a line in the next one.
std::string hint_for(const YAML::Exception& error, const std::vector<std::string>& lines) {
  const bool starts_with_a_symbol =
      error.msg == YAML::ErrorMsg::UNKNOWN_TOKEN || error.msg == YAML::ErrorMsg::UNKNOWN_ANCHOR;
  if (starts_with_a_symbol) return "put the value in double quotes if it is meant as text";
  const auto found = static_cast<std::size_t>(std::max(error.mark.line, 0));
  std::size_t searched = 0;
  for (std::size_t i = std::min(found + 1, lines.size()); i > 0 && searched < 2; --i) {
    if (is_blank_or_comment(lines[i - 1])) continue;
    ++searched;
    if (const auto valid = with_colon_and_space(lines[i - 1])) {
      return fmt::format("write `{}` in line {}", escaped(*valid), i);
    }
  }
  return "write every key as `key: value`, indented like the keys around it";
}

}  // namespace

std::string_view describe(YamlKind kind) {
  switch (kind) {
    case YamlKind::value:
      return "a value";
    case YamlKind::nothing:
      return "nothing";
    case YamlKind::list:
      return "a list";
    case YamlKind::map:
      break;
  }
  return "a map";
}

YamlDocument::YamlDocument(std::string name, std::string_view text, ProblemList& problems)
    : name_(std::move(name)) {
  if (text.size() > largest_config) {
    problems.add({.file = name_}, fmt::format("is larger than {} bytes", largest_config),
                 "check that this file is meant to be a config");
    return;
  }
  if (const OtherEncoding* encoding = detect_other_encoding(text)) {
    problems.add({.file = name_}, fmt::format("found {}, expected UTF-8", encoding->name),
                 fmt::format("convert it, with: iconv -f {} -t UTF-8", encoding->family));
    return;
  }
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  lines_ = split_lines(text);
  if (!check_characters(text, problems) || !check_lines(problems)) return;
  collect(text, problems);
}

Place YamlDocument::place(const YamlPosition& position) const {
  Place place{.file = name_};
  if (lines_.empty()) return place;
  // yaml-cpp reports an unexpected end of the text at a position after the last line.
  const std::size_t index = std::min(position.line, lines_.size() - 1);
  const std::string_view line = lines_[index];
  const std::size_t column = index == position.line ? position.column : line.size();
  const std::string_view before = line.substr(0, column);
  const std::string_view underlined = line.substr(before.size(), position.length);
  place.line = index + 1;
  place.column = count_characters(before) + 1;
  place.length = std::max<std::size_t>(1, count_characters(underlined));
  place.source_line = line;
  return place;
}

bool YamlDocument::check_characters(std::string_view text, ProblemList& problems) const {
  const std::optional<BadCharacter> bad = find_bad_character(text, true);
  if (!bad) return true;
  const std::string_view before = text.substr(0, bad->offset);
  const std::string_view line = before.substr(before.rfind('\n') + 1);
  const auto breaks = static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n'));
  problems.add({.file = name_,
                .line = breaks + 1,
                .column = count_characters(line) + 1,
                .source_line = fmt::format("{}?", line)},
               fmt::format("found {}", bad->name), bad->hint);
  return false;
}

bool YamlDocument::check_lines(ProblemList& problems) const {
  bool good = true;
  for (std::size_t i = 0; i < lines_.size(); ++i) {
    auto bad = find_line_problem(lines_[i]);
    if (!bad) continue;
    problems.add(place({i, bad->column, 1}), std::move(bad->message), std::move(bad->hint));
    good = false;
  }
  return good;
}

void YamlDocument::collect(std::string_view text, ProblemList& problems) {
  std::istringstream stream{std::string(text)};
  YamlEvents events(lines_,
                    [&](const YamlPosition& position, std::string message, std::string hint) {
                      problems.add(place(position), std::move(message), std::move(hint));
                    });
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(events)) continue;
  } catch (const YAML::Exception& error) {
    problems.add(place(to_position(error.mark)),
                 fmt::format("not valid YAML: {}", escaped(error.msg)), hint_for(error, lines_));
  } catch (const YamlEvents::Stop&) {
    // The reason has already been reported.
  }
  sections_ = events.take_sections();
  entries_ = events.take_entries();
  if (sections_.empty() && problems.empty()) {
    problems.add({.file = name_}, "is empty, expected sections such as `model:`",
                 "start from configs/copy.yaml");
  }
}

}  // namespace tapestry
