// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "train/config/config.h"
#include "train/config/domain.h"
#include "train/config/error.h"
#include "train/config/keys.h"

namespace tapestry {

struct ConfigKind;
struct Origin;  // see train/config/reader.h

/// A config key of a custom model or task, read with Config::custom_value().
///
///     CustomKey("model.read_tokens", 4, between(1, 64), "tokens that the model reads")
///
///   path     "section.key"; the section is data, model, optimizer, schedule or train
///   initial  the default: an integer, a floating-point number, a bool or a string
///   domain   the valid values: at_least() or between() for whole numbers >= 0, a RealNumber,
///            Flag(), Text(), OneOf for a list of words, or FilePath(). Relative paths in a
///            config file are resolved against the folder of the file, on the command line against
///            the working directory.
///   meaning  one line of help
///   rule     whether a resumed run may change the value
///
/// An error in the definition, such as a default outside the domain, is reported when the model or
/// task is registered.
class CustomKey {
 public:
  /// initial  the default, with the type of the domain's values
  template <class T>
  CustomKey(std::string path, const T& initial, const Domain& domain, std::string meaning,
            ChangeRule rule = ChangeRule::never)
      : path_(std::move(path)),
        initial_(to_value(initial, domain)),
        domain_(domain),
        meaning_(std::move(meaning)),
        rule_(rule) {}

  /// The path of the key, "section.key".
  const std::string& path() const { return path_; }
  /// The part of path() before the dot.
  std::string_view section() const;
  /// The part of path() after the dot.
  std::string_view key() const;
  /// The valid values.
  const Domain& domain() const { return domain_; }
  /// The default.
  const CustomValue& initial() const { return initial_; }
  /// One line of help.
  const std::string& meaning() const { return meaning_; }
  /// Whether a resumed run may change the value.
  ChangeRule rule() const { return rule_; }

  /// The error in the definition of the key, such as "the default is 0, expected a whole number
  /// from 1 to 64"; empty if it is valid.
  std::string definition_error() const;

 private:
  template <class T>
  static CustomValue to_value(const T& value, const Domain& domain) {
    if constexpr (!std::is_arithmetic_v<T>) {
      return std::string(value);
    } else if constexpr (std::is_same_v<T, bool>) {
      return value;
    } else {
      const auto number = static_cast<double>(value);
      if (domain.is<RealNumber>() || number < 0) return number;
      return static_cast<std::uint64_t>(value);
    }
  }

  std::string path_;
  CustomValue initial_;
  Domain domain_;
  std::string meaning_;
  ChangeRule rule_;
};

/// Reports contradictions between keys.
class ConfigCheck {
 public:
  /// Keys by path, such as "model.num_heads".
  using Keys = std::initializer_list<std::string_view>;
  /// Where each key was set, by path.
  using Origins = std::map<std::string, Origin, std::less<>>;

  /// All arguments must outlive the object.
  ///
  /// origins  where each key was set
  /// errors   receives the errors
  /// kind     kind of the model, or null. Contradictions between keys that the kind does not use
  ///          are not reported.
  ConfigCheck(const Origins& origins, Diagnostics& errors, const ConfigKind* kind = nullptr)
      : origins_(origins), errors_(errors), kind_(kind) {}

  /// Reports a contradiction between `keys`, at the place of the first key that was set. Reports
  /// nothing if one of the keys has an invalid value, since the intended value is unknown.
  void reject(Keys keys, std::string message, std::string hint) const;

  /// Calls reject() for a data file that is not set, unless files_required is false.
  void reject_missing_file(Keys keys, std::string message, std::string hint) const {
    if (files_required) reject(keys, std::move(message), std::move(hint));
  }

  /// Whether a key was set, even if its value is invalid.
  bool is_set(std::string_view key) const;

  bool files_required = true;  ///< false for explaining a config without its data files

 private:
  const Origins& origins_;
  Diagnostics& errors_;
  const ConfigKind* kind_;
};

/// A value of `data.task` or `model.kind`, with its keys and rules.
struct ConfigKind {
  std::string_view name;  ///< the value

  /// Keys that this kind uses and some other kinds do not use, such as "data.num_symbols". All
  /// kinds use the keys that no kind lists.
  std::vector<std::string_view> keys{};

  /// Keys that exist only for this kind.
  std::vector<CustomKey> custom_keys{};

  /// Entries of Scores::others that validation computes; greater values are better. Their names are
  /// columns of metrics.csv and values of train.best_metric. Names consist of a-z, 0-9 and _.
  std::vector<std::string_view> scores{};

  /// Reports values that are valid individually but contradict each other.
  std::function<void(const Config&, const ConfigCheck&)> check = [](const Config&,
                                                                    const ConfigCheck&) {};

  /// The keys of section model, except custom keys, that this kind uses. Other keys are rejected
  /// unless they have their defaults, and no rule applies to them. If nullopt, `keys` determines
  /// the used keys.
  std::optional<std::vector<std::string>> model_keys{};

  /// Whether this kind of model uses a built-in or custom key.
  bool uses(std::string_view path) const;
};

/// The values of train.best_metric that a kind of model allows: loss, perplexity, token_accuracy
/// and `kind.scores`.
std::vector<std::string> best_metrics_of(const ConfigKind& kind);

}  // namespace tapestry
