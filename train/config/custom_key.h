#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"

namespace tapestry {

class Domain;  // train/config/domain.h

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

}  // namespace tapestry
