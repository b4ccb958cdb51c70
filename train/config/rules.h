#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/reader.h"

namespace tapestry {

/// Where rules report what they find.
class ConfigCheck {
 public:
  using Keys = std::initializer_list<std::string_view>;

  ConfigCheck(const Origins& origins, ProblemList& problems)
      : origins_(origins), problems_(problems) {}

  /// Reports a contradiction between `keys` at the first of them that was given, unless the value
  /// of one of them is bad: then it is not known what the user wants.
  void refuse(Keys keys, std::string message, std::string hint) const;

 private:
  const Origins& origins_;
  ProblemList& problems_;
};

/// Reports values that are fine each by itself but contradict one another, and values of keys that
/// the chosen task, optimiser or schedule does not use.
void check_rules(const Config& config, const Origins& origins, ProblemList& problems);

}  // namespace tapestry
