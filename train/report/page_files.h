#pragma once

#include <span>
#include <string_view>

namespace tapestry {

/// A file of the folder train/report/page as it was when the program was built.
struct PageFile {
  std::string_view name;     ///< "page.css"
  std::string_view content;  ///< its bytes
};

/// All files of the folder (cmake/embed_files.cmake): the template page.html with the marks
/// `/*page.css*/`, `/*script*/` and `/*data*/`, and what takes their places.
std::span<const PageFile> page_files();

}  // namespace tapestry
