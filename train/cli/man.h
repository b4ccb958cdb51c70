#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The manual pages, in roff: commands, options and config keys are those of the program.
namespace tapestry {

/// The names of the pages: of tapestry(1), the program, and tapestry-config(5), the config files;
/// of a program with another name NAME(1) and NAME-config(5).
std::vector<std::string> manual_pages();

/// One of manual_pages(). date  of the page, such as 2026-11-23
std::string manual_page(std::string_view name, std::string_view date);

/// A fixed entry of a page, such as an exit code and what it means.
struct ManualEntry {
  std::string_view name, meaning;
};

std::span<const ManualEntry> manual_exit_codes();
std::span<const ManualEntry> manual_environment();  ///< variables that the program reads

}  // namespace tapestry
