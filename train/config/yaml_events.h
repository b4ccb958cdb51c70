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

/// Where yaml-cpp sees something; it counts lines and columns from 0, columns in bytes.
YamlPosition to_position(const YAML::Mark& mark);

/// Turns the events of yaml-cpp's parser into the sections and entries of a YamlDocument, and
/// reports everything that a config must not contain.
///
/// yaml-cpp's tree of nodes is not used: it keeps the first of two equal keys, expands aliases,
/// forgets tags, and is built by recursion to any depth.
class YamlEvents final : public YAML::EventHandler {
 public:
  using Report = std::function<void(const YamlPosition&, std::string message, std::string hint)>;

  /// Thrown out of the parser where it need not read further: at a second document, and at a
  /// nesting that is too deep, whose outermost level has been reported.
  struct Stop {};

  /// `lines` are those of the text, and outlive the object.
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
  /// What the next node is.
  enum class Expected { root, section_name, section, key, value };

  struct Node {
    YamlKind kind;
    YamlPosition position;
    std::string text = {};
    bool refused = false;  ///< already reported: to be skipped without a further word
  };

  /// Of a section or a key; absent if it was refused, and what belongs to it is skipped.
  using Name = std::optional<Node>;

  void take(const Node& node);
  void take_root(const Node& node);
  Name take_name(const Node& node);
  void take_section(const Node& node);
  void take_value(const Node& node);
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
  std::size_t ignored_depth_ = 0;  ///< open lists and maps that are skipped
  Name section_;
  Name key_;
  std::map<std::pair<std::string, std::string>, std::size_t> line_of_;  ///< (section, key), from 1
  std::vector<YamlSection> sections_;
  std::vector<YamlEntry> entries_;
};

}  // namespace tapestry
