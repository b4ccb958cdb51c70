#pragma once

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/mark.h>

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "train/config/yaml_document.h"

namespace tapestry {

/// The position of a yaml-cpp mark. yaml-cpp counts lines and columns from 0, columns in bytes.
YamlPosition to_position(const YAML::Mark& mark);

/// Turns the events of yaml-cpp's parser into the sections and entries of a YamlDocument, and
/// reports everything that a config must not contain.
///
/// yaml-cpp's node tree is not used: it keeps the first of two equal keys, expands aliases, drops
/// tags, and is built by unbounded recursion.
class YamlEvents final : public YAML::EventHandler {
 public:
  using Report = std::function<void(const YamlPosition&, std::string message, std::string hint)>;

  /// Thrown through the parser to end parsing: at a second document, and at nesting that is too
  /// deep, whose outermost level has been reported.
  struct Stop {};

  /// `lines` are the lines of the text; they must outlive the object.
  YamlEvents(std::span<const std::string> lines, Report report)
      : lines_(lines), report_(std::move(report)) {}

  std::vector<YamlSection> take_sections() { return std::move(sections_); }
  std::vector<YamlEntry> take_entries() { return std::move(entries_); }

  void OnDocumentStart(const YAML::Mark& mark) override;
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override;
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override;
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override;
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override;
  void OnMapEnd() override { close(); }

 private:
  /// The kind of node expected next.
  enum class Expected { root, section_name, section, key, value };

  struct Node {
    YamlKind kind;
    YamlPosition position;
    std::string text = {};
    bool refused = false;  ///< already reported; skipped without another message
  };

  /// The name of a section or a key; nullopt if it was refused, and its contents are skipped.
  using Name = std::optional<Node>;

  void take(const Node& node);
  void take_root(const Node& node);
  Name take_name(const Node& node);
  void take_section(const Node& node);
  void take_value(const Node& node);
  void take_item(const Node& node);
  void close();

  bool refuse_decorations(const YamlPosition& position, const std::string& tag,
                          YAML::anchor_t anchor);
  bool refuse_unclear_text(const Node& node, bool plain);
  bool refuse_repeated(const Node& section, const std::string& key, const YamlPosition& position);
  std::string_view rest_of_line(const YamlPosition& position) const;
  void stop_if_too_deep() const;

  std::span<const std::string> lines_;
  Report report_;
  bool begun_ = false;
  Expected expected_ = Expected::root;
  std::size_t ignored_depth_ = 0;  ///< number of open lists and maps that are skipped
  bool in_list_ = false;           ///< the outermost of them is the value of the last entry
  Name section_;
  Name key_;
  std::map<std::pair<std::string, std::string>, std::size_t> line_of_;  ///< (section, key), from 1
  std::vector<YamlSection> sections_;
  std::vector<YamlEntry> entries_;
};

}  // namespace tapestry
