#include "train/config/yaml_document.h"

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <vector>

#include "train/config/config.h"

namespace tapestry {
namespace {

using namespace std::string_literals;

/// Everything that is wrong with `text`, or nothing.
std::string problems_of(std::string_view text) {
  ProblemList problems;
  try {
    const YamlDocument document("x", text, problems);
    problems.throw_if_any();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

YamlDocument read(std::string_view text) {
  ProblemList problems;
  YamlDocument document("x", text, problems);
  problems.throw_if_any();
  return document;
}

}  // namespace

TEST_CASE("a document is a list of sections and of their keys, in order") {
  const YamlDocument document = read("model:\n  d_model: 64\n  norm: pre\ndata: {task: copy}\n");
  CHECK(document.name() == "x");
  REQUIRE(document.sections().size() == 2);
  CHECK(document.sections()[0].name == "model");
  CHECK(document.sections()[0].kind == YamlKind::map);
  CHECK(document.sections()[1].name == "data");
  REQUIRE(document.entries().size() == 3);
  CHECK(document.entries()[0].section == "model");
  CHECK(document.entries()[0].key == "d_model");
  CHECK(document.entries()[0].value == "64");
  CHECK(document.entries()[1].key == "norm");
  CHECK(document.entries()[2].section == "data");
  CHECK(document.entries()[2].value == "copy");
}

TEST_CASE("keys and values have their line and column, in characters from 1") {
  const YamlDocument document = read("# ä\nmodel: {é: \"ü\\\"b\", c: 12}\n");
  const Place key = document.place(document.entries()[0].key_position);
  CHECK(key.line == 2);
  CHECK(key.column == 9);
  CHECK(key.length == 1);
  CHECK(key.source_line == "model: {é: \"ü\\\"b\", c: 12}");
  const Place value = document.place(document.entries()[0].value_position);
  CHECK(value.column == 12);
  CHECK(value.length == 6);  // "ü\"b" with its quotes
  const Place number = document.place(document.entries()[1].value_position);
  CHECK(number.column == 23);
  CHECK(number.length == 2);
}

TEST_CASE("values are text, whatever their form") {
  const YamlDocument document = read(
      "a:\n  b: 010\n  c: .nan\n  d: 'it''s'\n  e: \"q\\\"\\u00e9\"\n  f: x # no\n  g: \"\"\n");
  CHECK(document.entries()[0].value == "010");
  CHECK(document.entries()[1].value == ".nan");
  CHECK(document.entries()[2].value == "it's");
  CHECK(document.entries()[3].value == "q\"é");
  CHECK(document.entries()[4].value == "x");
  CHECK(document.entries()[5].kind == YamlKind::value);
  CHECK(document.entries()[5].value.empty());
}

TEST_CASE("a missing value, a list and a map are kept as such") {
  const YamlDocument document =
      read("a:\n  b:\n  c: ~\n  d: [1, [2]]\n  e: {f: {g: 1}}\n  h: 1\ni:\n");
  REQUIRE(document.entries().size() == 5);
  CHECK(document.entries()[0].kind == YamlKind::nothing);
  CHECK(document.place(document.entries()[0].value_position).line == 2);
  CHECK(document.entries()[1].kind == YamlKind::nothing);
  CHECK(document.entries()[2].kind == YamlKind::list);
  CHECK(document.entries()[3].kind == YamlKind::map);
  CHECK(document.entries()[4].value == "1");
  CHECK(document.sections()[1].kind == YamlKind::nothing);
  CHECK(read("a: 1\nb: [c]\n").sections()[0].kind == YamlKind::value);
  CHECK(read("a: 1\nb: [c]\n").sections()[1].kind == YamlKind::list);
}

TEST_CASE("the items of a list are texts, otherwise it has none") {
  const YamlDocument document = read(
      "a:\n  b: [1, \"x, y\"]\n  c:\n    - d\n    - 'e'\n  f: []\n  g: [1, [2], 3]\n"
      "  h: [1, {i: 2}]\n  j: [~]\n  k: 4\n");
  using Items = std::vector<std::string>;
  REQUIRE(document.entries().size() == 7);
  CHECK(document.entries()[0].items == Items{"1", "x, y"});
  CHECK(document.entries()[1].items == Items{"d", "e"});
  CHECK(document.entries()[2].items == Items{});
  for (const std::size_t nested : {3, 4, 5, 6}) CHECK_FALSE(document.entries()[nested].items);
  CHECK(document.entries()[6].value == "4");
}

TEST_CASE("kinds have names") {
  CHECK(describe(YamlKind::value) == "a value");
  CHECK(describe(YamlKind::nothing) == "nothing");
  CHECK(describe(YamlKind::list) == "a list");
  CHECK(describe(YamlKind::map) == "a map");
}

TEST_CASE("a byte order mark, Windows line ends and document marks are accepted") {
  const YamlDocument document = read("\xEF\xBB\xBF---\r\nmodel:\r\n  d_model: 64\r\n...\r\n");
  REQUIRE(document.entries().size() == 1);
  CHECK(document.entries()[0].value == "64");
  CHECK(document.place(document.entries()[0].key_position).source_line == "  d_model: 64");
}

TEST_CASE("a text without a section is refused") {
  const std::string empty =
      "x: is empty, expected sections such as `model:`\nhint: start from configs/copy.yaml";
  CHECK(problems_of("") == empty);
  CHECK(problems_of("# only a comment\n\n") == empty);
  CHECK(problems_of("---\n...\n") == empty);
  CHECK(problems_of("{}") == empty);
  CHECK(problems_of("d_model\n") ==
        "x:1:1: expected sections such as `model:`, found a value\n"
        "    d_model\n"
        "    ^~~~~~~\n"
        "hint: write `model:` and, indented below it, `d_model: 64`");
  CHECK(problems_of("- d_model: 64\n- [1]\n") ==
        "x:1:1: expected sections such as `model:`, found a list\n"
        "    - d_model: 64\n"
        "    ^\n"
        "hint: write `model:` and, indented below it, `d_model: 64`");
}

TEST_CASE("a repeated key or section is refused with the line of the first") {
  CHECK(problems_of("model:\n  norm: pre\n  d_ff: 1\n  norm: post\n") ==
        "x:4:3: repeated key `norm` in `model`, which is on line 2 already\n"
        "    norm: post\n"
        "    ^~~~\n"
        "hint: keep one of the two");
  CHECK(problems_of("model:\n  norm: pre\nmodel:\n  d_ff: 1\n") ==
        "x:3:1: repeated section `model`, which is on line 1 already\n"
        "    model:\n"
        "    ^~~~~\n"
        "hint: keep one of the two");
}

TEST_CASE("anchors, aliases, merge keys and tags are refused") {
  CHECK(problems_of("a:\n  b: &c 1\n") ==
        "x:2:6: found an anchor (&), which a config does not need\n"
        "    b: &c 1\n"
        "       ^\n"
        "hint: write the value itself where it is used");
  CHECK(problems_of("a: &c\n  b: 1\nd: *c\n") ==
        "x:1:4: found an anchor (&), which a config does not need\n"
        "    a: &c\n"
        "       ^\n"
        "hint: write the value itself where it is used\n"
        "x:3:4: found an alias (*), which a config does not need\n"
        "    d: *c\n"
        "       ^\n"
        "hint: write the value itself");
  CHECK(problems_of("a:\n  <<: {b: 1}\n") ==
        "x:2:3: found a merge key (<<), which a config does not need\n"
        "    <<: {b: 1}\n"
        "    ^~\n"
        "hint: write the keys themselves");
  CHECK(problems_of("a:\n  b: !!int 3\n") ==
        "x:2:6: found a tag (!), which a config does not need\n"
        "    b: !!int 3\n"
        "       ^\n"
        "hint: write the value alone");
  CHECK(problems_of("a:\n  b: ! 3\n").starts_with("x:2:6: found a tag (!)"));
  CHECK(problems_of("a: !m\n  b: 3\n").starts_with("x:1:4: found a tag (!)"));
}

TEST_CASE("an alias without an anchor is answered by how to write an asterisk") {
  CHECK(problems_of("a:\n  b: *.txt\n") ==
        "x:2:6: not valid YAML: the referenced anchor is not defined\n"
        "    b: *.txt\n"
        "       ^\n"
        "hint: put the value in double quotes if it is meant as text");
}

TEST_CASE("a second document is refused") {
  CHECK(problems_of("a:\n  b: 1\n---\nc:\n  d: 1\n") ==
        "x:3:1: found a second document, expected one\n"
        "    ---\n"
        "    ^\n"
        "hint: keep each config in a file of its own");
}

TEST_CASE("a key that is not text is refused, and its value is skipped") {
  CHECK(problems_of("? [a, b]\n: {c: 1}\nd:\n  {e: 1}: 2\n") ==
        "x:1:3: expected a key, found a list\n"
        "    ? [a, b]\n"
        "      ^\n"
        "hint: write every key as `key: value`\n"
        "x:4:3: expected a key, found a map\n"
        "    {e: 1}: 2\n"
        "    ^\n"
        "hint: write every key as `key: value`");
  CHECK(problems_of(": 1\n").starts_with("x:1:1: expected a key, found nothing\n"));
}

TEST_CASE("a value over several lines is refused") {
  const auto several = [](const std::string& text) {
    return problems_of(text).find("found a text over several lines, expected it on one\n") !=
           std::string::npos;
  };
  CHECK(several("a:\n  b: one\n    two\n"));
  CHECK(several("a:\n  b: |\n    one\n"));
  CHECK(several("a:\n  b: >-\n    one\n"));
  CHECK(problems_of("a:\n  b: one\n    two\n") ==
        "x:2:6: found a text over several lines, expected it on one\n"
        "    b: one\n"
        "       ^\n"
        "hint: write it on one line");
  CHECK(problems_of("a:\n  b: \"one\n    two\"\n") ==
        "x:2:6: found a quote that is not closed on its line\n"
        "    b: \"one\n"
        "       ^\n"
        "hint: close the quote");
}

TEST_CASE("a quote that is never closed is refused") {
  CHECK(problems_of("a:\n  b: \"one\n") ==
        "x:2:6: found a quote that is not closed on its line\n"
        "    b: \"one\n"
        "       ^\n"
        "hint: close the quote");
  CHECK(problems_of("a:\n  b: 'one\\'\n").empty());
}

TEST_CASE("an escape sequence of a control character is refused") {
  CHECK(problems_of("a:\n  b: \"x\\0y\"\n") ==
        "x:2:6: found control character U+0000\n"
        "    b: \"x\\0y\"\n"
        "       ^\n"
        "hint: remove the escape sequence");
}

TEST_CASE("every tab in the indentation is refused") {
  CHECK(problems_of("a:\n\tb: 1\n  \tc: 1\n\t# a comment may\n") ==
        "x:2:1: found a tab in the indentation, expected spaces\n"
        "    \tb: 1\n"
        "    ^\n"
        "hint: indent with spaces; YAML does not allow tabs\n"
        "x:3:3: found a tab in the indentation, expected spaces\n"
        "    \tc: 1\n"
        "    ^\n"
        "hint: indent with spaces; YAML does not allow tabs");
}

TEST_CASE("syntax errors have the position that yaml-cpp reports") {
  CHECK(problems_of("a:\n  b 1\n  c: 2\n") ==
        "x:3:4: not valid YAML: illegal map value\n"
        "    c: 2\n"
        "     ^\n"
        "hint: write `b: 1` in line 2");
  CHECK(problems_of("a:\n  b:1  # c\n  c: 2\n").ends_with("\nhint: write `b: 1` in line 2"));
  CHECK(problems_of("a\n  b: 1\n").ends_with("\nhint: write `a:` in line 1"));
  CHECK(problems_of("a:\n  b: 1\n\n  c 2\n\n  d: 3\n").ends_with("line 4"));
  CHECK(problems_of("a: {b: 1\n")
            .ends_with("hint: write every key as `key: value`, indented like the keys around it"));
  CHECK(problems_of("a: b: 1\n").starts_with("x:1:5: not valid YAML: illegal map value\n"));
  // The parser names the first byte of a character of two.
  CHECK(problems_of("a:\n  b: \"\\\xDE\x93\"\n")
            .starts_with("x:2:9: not valid YAML: unknown escape character: \\xDE\n"));
  CHECK(problems_of("a: {b: 1\n").find("not valid YAML: end of map flow not found") !=
        std::string::npos);
  CHECK(problems_of("a:\n  b: @c\n") ==
        "x:2:6: not valid YAML: unknown token\n"
        "    b: @c\n"
        "       ^\n"
        "hint: put the value in double quotes if it is meant as text");
}

TEST_CASE("keys before a syntax error are read") {
  ProblemList problems;
  const YamlDocument document("x", "a:\n  b: 1\n  ]\n", problems);
  CHECK_FALSE(problems.empty());
  REQUIRE(document.entries().size() == 1);
  CHECK(document.entries()[0].key == "b");
}

TEST_CASE("bytes that are not text are refused with their position") {
  CHECK(problems_of("a:\n  b: x\0y\n"s) ==
        "x:2:7: found control character U+0000\n"
        "    b: x?\n"
        "        ^\n"
        "hint: save the file as UTF-8 text");
  CHECK(problems_of("a:\n  ä: \xff\n") ==
        "x:2:6: found byte 0xff, which is not UTF-8\n"
        "    ä: ?\n"
        "       ^\n"
        "hint: save the file as UTF-8 text");
  CHECK(problems_of("a: \x1b[31m\n").starts_with("x:1:4: found control character U+001B"));
}

TEST_CASE("a carriage return and a byte order mark inside a line are refused") {
  CHECK(problems_of("a:\n  b: 1\r  c: 2\n") ==
        "x:2:7: found a carriage return without a line feed after it\n"
        "    b: 1?\n"
        "        ^\n"
        "hint: make it end the line, with: tr '\\r' '\\n'");
  CHECK(problems_of("a:\n  \xEF\xBB\xBF"
                    "b: 1\n") ==
        "x:2:3: found a byte order mark, which belongs at the front of a file\n"
        "    \xEF\xBB\xBF"
        "b: 1\n"
        "    ^\n"
        "hint: remove it, with: sed 's/\\xEF\\xBB\\xBF//g'");
}

TEST_CASE("UTF-16 is refused by its name") {
  CHECK(problems_of("\xff\xfe"
                    "a\0:\0"s) ==
        "x: found little-endian UTF-16, expected UTF-8\n"
        "hint: convert it, with: iconv -f UTF-16 -t UTF-8");
}

TEST_CASE("a line of more than 4096 bytes is refused") {
  const std::string line = "a: \"" + std::string(4096 - 5, 'x') + "\"";
  CHECK(problems_of(line + "\n").empty());
  CHECK(
      problems_of(line + " \n").starts_with("x:1:4097: line of 4097 bytes, expected at most 4096"));
}

TEST_CASE("a text of more than a megabyte is refused") {
  CHECK(problems_of(std::string(largest_config + 1, '#')) ==
        "x: is larger than 1048576 bytes\nhint: check that this file is meant to be a config");
}

TEST_CASE("deep nesting needs little memory and does not crash") {
  const auto deep = [](const std::string& level) {
    std::string text = "a:\n  b: ";
    for (int i = 0; i < 100000; ++i) text += level + (i % 500 == 499 ? "\n   " : "");
    ProblemList problems;
    return YamlDocument("x", text, problems).entries();
  };
  REQUIRE(deep("[").size() == 1);
  CHECK(deep("[")[0].kind == YamlKind::list);
  CHECK(deep("{")[0].kind == YamlKind::map);
  CHECK(deep("{c: ")[0].kind == YamlKind::map);
  CHECK(deep("? ").size() <= 1);
  CHECK(deep("- ").size() <= 1);
}

TEST_CASE("nested aliases are not expanded") {
  std::string text = "a: {x0: &x0 [1, 1]";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*x" + std::to_string(i - 1);
    text += ",\n x" + std::to_string(i) + ": &x" + std::to_string(i) + " [" + before + ", " +
            before + "]";
  }
  CHECK(problems_of(text + "}\n").starts_with("x:1:9: found an anchor (&)"));
}

}  // namespace tapestry
