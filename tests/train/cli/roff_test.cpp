#include "train/cli/roff.h"

#include <doctest/doctest.h>

#include <string>

namespace tapestry::roff {
namespace {

/// What a page adds to its title.
std::string added(auto&& add) {
  Page page("a", 1, "2026-11-23", "a 1", "manual");
  const std::size_t title = page.text().size();
  add(page);
  return page.text().substr(title);
}

TEST_CASE("characters that roff interprets are escaped") {
  CHECK(literal("a-b\\n 'x' \"y\" `z` ^~") ==
        "a\\-b\\en \\(aqx\\(aq \\(dqy\\(dq \\(gaz\\(ga \\(ha\\(ti");
}

TEST_CASE("characters outside of ASCII are written as code points") {
  CHECK(literal("é q·k Xᵀ 𝄞") == "\\[u00E9] q\\[u00B7]k X\\[u1D40] \\[u1D11E]");
}

TEST_CASE("text in backquotes is bold") {
  CHECK(escaped("use `--all` or `x`") == "use \\fB\\-\\-all\\fR or \\fBx\\fR");
  CHECK(escaped("a ` alone") == "a \\(ga alone");
  CHECK(escaped("`a` b ` c") == "\\fBa\\fR b \\(ga c");
}

TEST_CASE("a page begins with its title") {
  CHECK(Page("a-config", 5, "2026-11-23", "a \"1\"", "manual").text() ==
        ".TH A\\-CONFIG 5 2026-11-23 \"a \\(dq1\\(dq\" \"manual\"\n");
}

TEST_CASE("paragraphs are filled, and a line never begins with a control character") {
  CHECK(added([](Page& page) { page.paragraph(".a\nb  c"); }) == ".PP\n\\&.a b c\n");
  const std::string word(39, 'x');
  CHECK(added([&](Page& page) { page.paragraph(word + " " + word + " y .z"); }) ==
        ".PP\n" + word + " " + word + "\ny .z\n");
  CHECK(added([&](Page& page) { page.paragraph(word + " " + word + "x .z"); }) ==
        ".PP\n" + word + "\n" + word + "x .z\n");
  CHECK(added([&](Page& page) { page.paragraph(word + word + " .z"); }) ==
        ".PP\n" + word + word + "\n\\&.z\n");
}

TEST_CASE("no paragraph begins directly behind a title") {
  CHECK(added([](Page& page) {
          page.section("FILES");
          page.line("a");
          page.line("b");
          page.subsection("c-d");
          page.paragraph("e");
          page.paragraph("f");
          page.section("G");
          page.lines("h");
        }) == ".SH FILES\na\n.br\nb\n.SS c\\-d\ne\n.PP\nf\n.SH G\n.nf\nh\n.fi\n");
}

TEST_CASE("items have a tag, and may have more paragraphs") {
  CHECK(added([](Page& page) {
          page.section("A");
          page.item("--b", "`c`");
          page.more("d");
          page.paragraph("e");
        }) == ".SH A\n.TP\n\\fB\\-\\-b\\fR\n\\fBc\\fR\n.IP\nd\n.PP\ne\n");
}

TEST_CASE("lines stay as they are") {
  CHECK(added([](Page& page) { page.lines("  a `b`\n.c"); }) ==
        ".PP\n.nf\n  a \\(gab\\(ga\n\\&.c\n.fi\n");
}

}  // namespace
}  // namespace tapestry::roff
