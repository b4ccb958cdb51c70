#pragma once

#include <string>
#include <string_view>

/// Text in roff, the language of manual pages, with the macros of man(7).
namespace tapestry::roff {

/// `text` such that it is printed as it is: escapes what roff interprets, and characters outside of
/// ASCII, which must be UTF-8. Parts in backquotes become bold and lose the quotes.
std::string escaped(std::string_view text);

/// The same, in which backquotes have no meaning.
std::string literal(std::string_view text);

/// A page that begins with its title, such as ("tapestry", 1).
class Page {
 public:
  /// date  of the page, such as 2026-11-23
  Page(std::string_view name, int section, std::string_view date, std::string_view source,
       std::string_view manual);

  void section(std::string_view title);                    ///< title of a section, in upper case
  void subsection(std::string_view title);                 ///< title of a part of a section
  void paragraph(std::string_view text);                   ///< a paragraph of `text`, see escaped()
  void line(std::string_view text);                        ///< the same on a line of its own
  void item(std::string_view tag, std::string_view text);  ///< an indented text behind a bold tag
  void more(std::string_view text);                        ///< a paragraph more of an item
  void lines(std::string_view text);                       ///< lines that stay as they are

  const std::string& text() const { return text_; }

 private:
  void fill(std::string_view text);
  void separate(std::string_view macro);

  std::string text_;
  bool at_heading_ = false;  ///< a title was added last; no paragraph begins directly behind it
};

}  // namespace tapestry::roff
