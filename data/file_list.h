// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tapestry {

/// The names of files, in order. A single name converts to a list of one name, an empty name to an
/// empty list.
class FileList {
 public:
  FileList() = default;
  /// Not explicit, because most lists have one name.
  FileList(std::string name) {
    if (!name.empty()) names_.push_back(std::move(name));
  }
  /// A list of one name.
  FileList(const char* name) : FileList(std::string(name)) {}
  /// A list of these names, which must not be empty.
  FileList(std::vector<std::string> names) : names_(std::move(names)) {}

  /// The names.
  const std::vector<std::string>& names() const { return names_; }
  std::vector<std::string>& names() { return names_; }  ///< \overload
  /// Whether the list is empty.
  bool empty() const { return names_.empty(); }
  /// Makes the list empty.
  void clear() { names_.clear(); }

  friend bool operator==(const FileList&, const FileList&) = default;

 private:
  std::vector<std::string> names_;
};

/// The files of a corpus with one text per part; relative paths are resolved against the folder of
/// the config.
struct TextFiles {
  FileList train_text{};          ///< the training set
  std::string validation_text{};  ///< the validation set; may be empty
  std::string test_text{};        ///< the test set; may be empty
};

}  // namespace tapestry
