#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"

namespace tapestry {

class Diagnostics;  // train/config/error.h
class Domain;       // train/config/domain.h
struct ConfigKind;
struct Origin;  // train/config/reader.h

/// The values of a CustomKey that is a whole number >= 0.
struct CustomInteger {
  std::int64_t initial = 0;                                         ///< the default
  std::int64_t minimum = 0;                                         ///< the smallest value, >= 0
  std::int64_t maximum = std::numeric_limits<std::int64_t>::max();  ///< the largest value
};

/// The values of a CustomKey that is a number.
struct CustomReal {
  double initial = 0.0;                                       ///< the default
  double minimum = -std::numeric_limits<double>::infinity();  ///< the lower end of the interval
  double maximum = std::numeric_limits<double>::infinity();   ///< the upper end of the interval
  bool minimum_is_valid = true;  ///< whether the lower end is in the interval
  bool maximum_is_valid = true;  ///< whether the upper end is in the interval
};

/// The values of a CustomKey that is `true` or `false`.
struct CustomFlag {
  bool initial = false;  ///< the default
};

/// The values of a CustomKey that is a text.
struct CustomText {
  std::string initial{};  ///< the default
};

/// The values of a CustomKey that is one of several words.
struct CustomChoice {
  std::string initial{};               ///< the default, one of `choices`
  std::vector<std::string> choices{};  ///< words of letters, digits, `_`, `-` and `.`
};

/// The values of a CustomKey that is the path of a file. A relative path in a config file starts at
/// the folder of the file, one on the command line at the working directory.
struct CustomPath {
  std::string initial{};  ///< the default; empty for none
};

/// A config key of a model or task outside of this library. Each function makes a key; it is read
/// with Config::custom_value().
///
///     CustomKey::integer("model.read_tokens", {.initial = 4, .minimum = 1, .maximum = 64},
///                        "tokens that the model reads")
///
///   path     "section.key"; the section is data, model, optimizer, schedule or train
///   meaning  one line of help
///   rule     whether a resumed run may change the value
///
/// A mistake in a key, such as a default outside of its range, is reported when its model or task
/// is registered.
class CustomKey {
 public:
  /// A whole number, read as an integer type.
  static CustomKey integer(std::string path, const CustomInteger& values, std::string meaning,
                           ChangeRule rule = ChangeRule::never);
  /// A number, read as a floating-point type.
  static CustomKey real(std::string path, const CustomReal& values, std::string meaning,
                        ChangeRule rule = ChangeRule::never);
  /// `true` or `false`, read as bool.
  static CustomKey flag(std::string path, const CustomFlag& values, std::string meaning,
                        ChangeRule rule = ChangeRule::never);
  /// Any text, read as std::string.
  static CustomKey text(std::string path, const CustomText& values, std::string meaning,
                        ChangeRule rule = ChangeRule::never);
  /// One of several words, read as std::string.
  static CustomKey choice(std::string path, const CustomChoice& values, std::string meaning,
                          ChangeRule rule = ChangeRule::never);
  /// The path of a file, read as std::string.
  static CustomKey file(std::string path, const CustomPath& values, std::string meaning,
                        ChangeRule rule = ChangeRule::never);

  /// "section.key"
  const std::string& path() const { return path_; }
  /// The section.
  std::string_view section() const;
  /// Its name in the section.
  std::string_view key() const;
  /// The valid values.
  const Domain& domain() const { return *domain_; }
  /// The default.
  const CustomValue& initial() const { return initial_; }
  /// One line of help.
  const std::string& meaning() const { return meaning_; }
  /// Whether a resumed run may change the value.
  ChangeRule rule() const { return rule_; }

  /// What is wrong with the definition of the key, such as "the default is 0, expected a whole
  /// number from 1 to 64"; empty if nothing is.
  std::string mistake() const;

 private:
  CustomKey(std::string path, Domain domain, CustomValue initial, std::string meaning,
            ChangeRule rule);

  std::string path_;
  std::shared_ptr<const Domain> domain_;  ///< never null
  CustomValue initial_;
  std::string meaning_;
  ChangeRule rule_;
  std::string mistake_{};  ///< of the values, found when the key was made
};

/// Collects the contradictions that rules find.
class ConfigCheck {
 public:
  /// Keys by path, such as "model.num_heads".
  using Keys = std::initializer_list<std::string_view>;
  /// Where each key was given.
  using Origins = std::map<std::string, Origin, std::less<>>;

  /// A check of a config whose keys were given at `origins`; all arguments must outlive it.
  ///
  /// kind  of the model: contradictions of keys that it does not use are not reported; may be null
  ConfigCheck(const Origins& origins, Diagnostics& errors, const ConfigKind* kind = nullptr)
      : origins_(origins), errors_(errors), kind_(kind) {}

  /// Reports a contradiction between `keys` at the first of them that was given. Reports nothing if
  /// one of their values is invalid, since the intended value is then unknown.
  void refuse(Keys keys, std::string message, std::string hint) const;

 private:
  const Origins& origins_;
  Diagnostics& errors_;
  const ConfigKind* kind_;
};

/// The values of train.best_metric that every kind of model has.
inline constexpr std::string_view common_best_metrics[] = {"loss", "perplexity", "token_accuracy"};

/// A value of `data.task` or `model.kind`, with its keys and rules.
struct ConfigKind {
  std::string_view name;  ///< the value

  /// Keys that are used only with some kinds, including this one, such as "data.num_symbols". A key
  /// that no kind lists is used with all kinds.
  std::vector<std::string_view> keys{};

  /// Keys that exist only for this kind.
  std::vector<CustomKey> custom_keys{};

  /// Entries of Scores::others that validation computes, of which a greater value is better:
  /// columns of metrics.csv and values of train.best_metric, made of a-z, 0-9 and _.
  std::vector<std::string_view> scores{};

  /// Reports values that are valid individually but contradict each other.
  std::function<void(const Config&, const ConfigCheck&)> check = [](const Config&,
                                                                    const ConfigCheck&) {};

  /// The keys of the model section, apart from its own, that this kind uses; all others are refused
  /// unless they have their defaults, and no rule applies to them. nullopt: as `keys` says.
  std::optional<std::vector<std::string>> model_keys{};

  /// Whether this kind of model uses a key of all kinds or one of its own.
  bool uses(std::string_view path) const;
};

}  // namespace tapestry
