#pragma once

#include <string_view>
#include <utility>
#include <vector>

namespace tapestry {

/// What `tapestry config new` asks to write the config of a task with data of the user.
struct TaskQuestions {
  /// A data file.
  struct File {
    std::string_view key;       ///< "data.train_source"
    std::string_view question;  ///< "Training text"
    bool required = true;       ///< whether an empty answer is refused
  };
  /// A whole number of at least 1.
  struct Number {
    std::string_view key;             ///< "data.image_height"
    std::string_view question;        ///< "Height of an image in pixels"
    std::string_view default_answer;  ///< the value of an empty answer
  };

  std::string_view description;   ///< in the list of tasks: "classify sentences"
  std::vector<File> files;        ///< in the order in which they are asked for
  std::vector<Number> numbers{};  ///< asked for after the files
  /// Keys with values that are not asked for, as in YAML: `data.task` and others whose defaults
  /// suit few users; without `model.kind`.
  std::vector<std::pair<std::string_view, std::string_view>> values;
};

}  // namespace tapestry
