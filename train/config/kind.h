#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"
#include "train/config/custom_key.h"

namespace tapestry {

class ProblemList;  // train/config/error.h
struct ConfigKind;
struct Origin;  // train/config/reader.h

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
  ConfigCheck(const Origins& origins, ProblemList& problems, const ConfigKind* kind = nullptr)
      : origins_(origins), problems_(problems), kind_(kind) {}

  /// Reports a contradiction between `keys` at the first of them that was given. Reports nothing if
  /// one of their values is invalid, since the intended value is then unknown.
  void refuse(Keys keys, std::string message, std::string hint) const;

 private:
  const Origins& origins_;
  ProblemList& problems_;
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
