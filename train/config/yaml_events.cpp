#include "train/config/yaml_events.h"

#include <fmt/format.h>

#include <algorithm>

#include "train/config/text.h"

namespace tapestry {
namespace {

constexpr std::size_t deepest_ignored = 32;

bool opens(YamlKind kind) { return kind == YamlKind::list || kind == YamlKind::map; }

/// Length of the quoted text, including quotes, at the start of `line`; 0 if it does not end on
/// that line.
std::size_t quoted_length(std::string_view line) {
  const char quote = line[0];
  for (std::size_t i = 1; i < line.size(); ++i) {
    const bool escapes = quote == '"' ? line[i] == '\\' : line.substr(i, 2) == "''";
    if (escapes) {
      ++i;
    } else if (line[i] == quote) {
      return i + 1;
    }
  }
  return 0;
}

}  // namespace

YamlPosition to_position(const YAML::Mark& mark) {
  return {static_cast<std::size_t>(std::max(0, mark.line)),
          static_cast<std::size_t>(std::max(0, mark.column)), 1};
}

void YamlEvents::OnDocumentStart(const YAML::Mark& mark) {
  if (begun_) {
    report_(to_position(mark), "found a second document, expected one",
            "keep each config in a file of its own");
    throw Stop();
  }
  begun_ = true;
}

void YamlEvents::OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) {
  const YamlPosition position = to_position(mark);
  const bool refused = refuse_decorations(position, "?", anchor);
  take({.kind = YamlKind::nothing, .position = position, .refused = refused});
}

void YamlEvents::OnAlias(const YAML::Mark& mark, YAML::anchor_t) {
  const YamlPosition position = to_position(mark);
  report_(position, "found an alias (*), which a config does not need", "write the value itself");
  take({.kind = YamlKind::nothing, .position = position, .refused = true});
}

void YamlEvents::OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                          const std::string& value) {
  Node node{.kind = YamlKind::value, .position = to_position(mark), .text = value};
  node.refused =
      refuse_decorations(node.position, tag, anchor) || refuse_unclear_text(node, tag == "?");
  const std::string_view rest = rest_of_line(node.position);
  node.position.length = tag == "?" || rest.empty() ? value.size() : quoted_length(rest);
  take(node);
}

void YamlEvents::OnSequenceStart(const YAML::Mark& mark, const std::string& tag,
                                 YAML::anchor_t anchor, YAML::EmitterStyle::value) {
  const YamlPosition position = to_position(mark);
  refuse_decorations(position, tag, anchor);
  take({.kind = YamlKind::list, .position = position});
}

void YamlEvents::OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                            YAML::EmitterStyle::value) {
  const YamlPosition position = to_position(mark);
  refuse_decorations(position, tag, anchor);
  take({.kind = YamlKind::map, .position = position});
}

void YamlEvents::take(const Node& node) {
  if (ignored_depth_ > 0) {
    if (in_list_ && ignored_depth_ == 1) take_item(node);
    if (opens(node.kind)) ++ignored_depth_;
    return stop_if_too_deep();
  }
  switch (expected_) {
    case Expected::root:
      return take_root(node);
    case Expected::section_name:
      section_ = take_name(node);
      expected_ = Expected::section;
      return;
    case Expected::section:
      return take_section(node);
    case Expected::key:
      key_ = take_name(node);
      expected_ = Expected::value;
      return;
    case Expected::value:
      return take_value(node);
  }
}

void YamlEvents::take_root(const Node& node) {
  if (node.kind == YamlKind::map) {
    expected_ = Expected::section_name;
    return;
  }
  if (node.kind == YamlKind::list) ++ignored_depth_;
  if (node.refused || node.kind == YamlKind::nothing) return;
  report_(node.position,
          fmt::format("expected sections such as `model:`, found {}", describe(node.kind)),
          "write `model:` and, indented below it, `d_model: 64`");
}

YamlEvents::Name YamlEvents::take_name(const Node& node) {
  if (opens(node.kind)) ++ignored_depth_;
  if (node.refused) return std::nullopt;
  if (node.kind != YamlKind::value) {
    report_(node.position, fmt::format("expected a key, found {}", describe(node.kind)),
            "write every key as `key: value`");
    return std::nullopt;
  }
  if (node.text == "<<") {
    report_(node.position, "found a merge key (<<), which a config does not need",
            "write the keys themselves");
    return std::nullopt;
  }
  return node;
}

void YamlEvents::take_section(const Node& node) {
  const bool entered = section_ && node.kind == YamlKind::map;
  expected_ = entered ? Expected::key : Expected::section_name;
  if (opens(node.kind) && !entered) ++ignored_depth_;
  if (!section_ || node.refused) return;
  if (refuse_repeated(*section_, {}, section_->position)) return;
  sections_.push_back({section_->text, node.kind, section_->position});
}

void YamlEvents::take_value(const Node& node) {
  expected_ = Expected::key;
  in_list_ = false;
  if (opens(node.kind)) ++ignored_depth_;
  if (!key_ || node.refused || refuse_repeated(*section_, key_->text, key_->position)) return;
  const bool somewhere_else = node.kind == YamlKind::nothing;
  entries_.push_back({.section = section_->text,
                      .key = key_->text,
                      .kind = node.kind,
                      .value = node.text,
                      .key_position = key_->position,
                      .value_position = somewhere_else ? key_->position : node.position});
  in_list_ = node.kind == YamlKind::list;
  if (in_list_) entries_.back().items.emplace();
}

void YamlEvents::take_item(const Node& node) {
  auto& items = entries_.back().items;
  if (node.kind != YamlKind::value || node.refused) items.reset();
  if (items) items->push_back(node.text);
}

void YamlEvents::close() {
  if (ignored_depth_ > 0) {
    --ignored_depth_;
    in_list_ = in_list_ && ignored_depth_ > 0;
  } else if (expected_ == Expected::key) {
    expected_ = Expected::section_name;
  }
}

bool YamlEvents::refuse_decorations(const YamlPosition& position, const std::string& tag,
                                    YAML::anchor_t anchor) {
  if (anchor != YAML::NullAnchor) {
    report_(position, "found an anchor (&), which a config does not need",
            "write the value itself where it is used");
    return true;
  }
  // yaml-cpp gives a node without a tag the tag `?`, or `!` if it is quoted.
  const bool tagged = tag != "?" && (tag != "!" || rest_of_line(position).starts_with('!'));
  if (tagged) {
    report_(position, "found a tag (!), which a config does not need", "write the value alone");
    return true;
  }
  return false;
}

bool YamlEvents::refuse_unclear_text(const Node& node, bool plain) {
  const std::string_view rest = rest_of_line(node.position);
  const bool is_quoted = rest.starts_with('"') || rest.starts_with('\'');
  if (!plain && is_quoted && quoted_length(rest) == 0) {
    report_(node.position, "found a quote that is not closed on its line", "close the quote");
    return true;
  }
  const bool on_one_line = plain ? rest.starts_with(node.text) : is_quoted;
  if (!on_one_line) {
    report_(node.position, "found a text over several lines, expected it on one",
            "write it on one line");
    return true;
  }
  if (const auto bad = find_bad_character(node.text, false)) {
    report_(node.position, fmt::format("found {}", bad->name), "remove the escape sequence");
    return true;
  }
  return false;
}

bool YamlEvents::refuse_repeated(const Node& section, const std::string& key,
                                 const YamlPosition& position) {
  const auto [first, is_new] =
      line_of_.try_emplace(std::pair(section.text, key), position.line + 1);
  if (is_new) return false;
  const std::string what = key.empty() ? fmt::format("section `{}`", section.text)
                                       : fmt::format("key `{}` in `{}`", key, section.text);
  report_(position, fmt::format("repeated {}, which is on line {} already", what, first->second),
          "keep one of the two");
  return true;
}

std::string_view YamlEvents::rest_of_line(const YamlPosition& position) const {
  if (position.line >= lines_.size()) return {};
  const std::string_view line = lines_[position.line];
  return line.substr(std::min(position.column, line.size()));
}

void YamlEvents::stop_if_too_deep() const {
  if (ignored_depth_ > deepest_ignored) throw Stop();
}

}  // namespace tapestry
