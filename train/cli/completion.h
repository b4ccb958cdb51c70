#pragma once

#include <string>
#include <string_view>
#include <vector>

/// What a shell offers for an incomplete command line, and the scripts that ask for it.
namespace tapestry {

struct Candidate {
  std::string word;
  std::string description;  ///< one line; may be empty

  bool operator==(const Candidate&) const = default;
};

/// Where a path may be completed.
enum class PathPlace {
  nowhere,
  word,         ///< the word is a path
  after_equals  ///< the part of the word after `=` is a path
};

/// All candidates for the last word, of which the shell selects those that match what was typed.
struct Completions {
  std::vector<Candidate> candidates{};
  PathPlace paths = PathPlace::nowhere;
  std::vector<std::string>
      extensions{};  ///< of the files to offer besides folders; empty: all files
};

/// Completes the last of the words of a command line, which may be empty; the name of the program
/// is not one of them.
Completions complete(const std::vector<std::string>& words);

/// What `tapestry completion SHELL -- WORDS` prints: a line for each candidate, its word, a tab and
/// its description; then `:paths EXTENSION ...` or `:value-paths EXTENSION ...`, if paths may be
/// completed.
std::string to_lines(const Completions& completions);

inline const std::vector<std::string> completion_shells{"bash", "zsh", "fish"};

/// The script that makes a shell complete command lines of the program.
std::string completion_script(std::string_view shell);

}  // namespace tapestry
