// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/yaml_text.h"

#include <doctest/doctest.h>
#include <yaml-cpp/yaml.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/train/config/config_errors.h"
#include "train/config/load.h"

namespace tapestry {
namespace {

using namespace std::string_literals;
using namespace test;

/// The sections and keys of a text, and its errors.
struct Read {
  std::vector<YamlEntry> sections;
  std::vector<YamlEntry> entries;
  std::vector<Diagnostic> errors;
};

Read read(std::string_view text) {
  Read result;
  Diagnostics errors;
  try {
    YamlText yaml("x", text, errors);
    result.sections = yaml.sections();
    for (const YamlEntry& section : result.sections) {
      if (!section.value.IsMap()) continue;
      for (YamlEntry& entry : yaml.entries(section.key, section.value)) {
        result.entries.push_back(std::move(entry));
      }
    }
    errors.throw_if_any();
  } catch (const ConfigError& error) {
    result.errors = error.diagnostics();
  }
  return result;
}

}  // namespace

TEST_CASE("a text is parsed into sections and keys in file order") {
  const Read yaml = read("model:\n  d_model: 64\n  norm: pre\ndata: {task: copy}\n");
  CHECK(yaml.errors.empty());
  REQUIRE(yaml.sections.size() == 2);
  CHECK(yaml.sections[0].key == "model");
  CHECK(yaml.sections[1].key == "data");
  REQUIRE(yaml.entries.size() == 3);
  CHECK(yaml.entries[0].key == "d_model");
  CHECK(yaml.entries[0].value.Scalar() == "64");
  CHECK(yaml.entries[1].key == "norm");
  CHECK(yaml.entries[2].value.Scalar() == "copy");
}

TEST_CASE("keys and values have their line and column, in characters from 1") {
  const Read yaml = read("# ä\nmodel: {é: \"ü\\\"b\", c: &n 12}\n");
  const Place& key = yaml.entries[0].key_place;
  CHECK(key.line == 2);
  CHECK(key.column == 9);
  CHECK(key.length == 1);
  CHECK(key.source_line == "model: {é: \"ü\\\"b\", c: &n 12}");
  const Place& value = yaml.entries[0].value_place;
  CHECK(value.column == 12);
  CHECK(value.length == 6);  // "ü\"b" with its quotes
  const Place& number = yaml.entries[1].value_place;
  CHECK(number.column == 26);  // after the anchor
  CHECK(number.length == 2);
}

TEST_CASE("values in every notation are read as text") {
  const Read yaml = read(
      "a:\n  b: 010\n  c: .nan\n  d: 'it''s'\n  e: \"q\\\"\\u00e9\"\n  f: x # no\n  g: \"\"\n"
      "  h: one\n    two\n  i: >-\n    three\n");
  const char* expected[] = {"010", ".nan", "it's", "q\"é", "x", "", "one two", "three"};
  REQUIRE(yaml.entries.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) CHECK(yaml.entries[i].value.Scalar() == expected[i]);
}

TEST_CASE("describe() names every kind of node") {
  const Read yaml = read("a:\n  b:\n  c: ~\n  d: [1, [2]]\n  e: {f: {g: 1}}\n  h: 1\ni:\n");
  const char* expected[] = {"nothing", "nothing", "a list", "a map", "a value"};
  REQUIRE(yaml.entries.size() == 5);
  for (std::size_t i = 0; i < 5; ++i) CHECK(describe(yaml.entries[i].value) == expected[i]);
  CHECK(yaml.entries[0].value_place.line == 2);
  CHECK(describe(yaml.sections[1].value) == "nothing");
}

TEST_CASE("an alias has the value of its anchor but a separate place") {
  const Read yaml = read("a:\n  b: &n 500\n  c: *n\n  d: [*n, 2]\ne: {f: *n, g: 1}\n");
  CHECK(yaml.errors.empty());
  REQUIRE(yaml.entries.size() == 5);
  CHECK(yaml.entries[1].value.Scalar() == "500");
  CHECK(yaml.entries[1].value_place.line == 3);
  CHECK(yaml.entries[1].value_place.column == 6);
  CHECK(yaml.entries[1].value_place.length == 2);
  CHECK(yaml.entries[2].value[0].Scalar() == "500");
  CHECK(yaml.entries[3].value_place.line == 5);
  CHECK(yaml.entries[3].value_place.column == 8);
}

TEST_CASE("a merge key adds the keys of a map unless they are set elsewhere") {
  const Read yaml = read(
      "x-a: &a\n  b: 1\n  c: 2\nx-d: &d {c: 3, e: 4}\nf:\n  c: 5\n  <<: *a\n"
      "g:\n  <<: [*d, *a]\n  e: 6\n");
  CHECK(yaml.errors.empty());
  std::string all;
  for (const YamlEntry& entry : yaml.entries) all += entry.key + entry.value.Scalar() + " ";
  CHECK(all == "b1 c2 c3 e4 c5 b1 e6 c3 b1 ");
  CHECK(yaml.entries[5].key_place.line == 2);  // where it is written
}

TEST_CASE("a merge key accepts a map or a list of maps, and endless merges are rejected") {
  for (const char* no_map : {"a:\n  <<: 1\n", "a:\n  <<: [1]\n"}) {
    check_errors(read(no_map).errors, {{"x:2:3", "<<", {"a map or a list of maps"}}});
  }
  check_errors(read("a: &a\n  <<: *a\n  b: 1\n").errors, {{"x:2:3", "<<", {"more than 100"}}});
  std::string doubling = "x0: &x0 {b: 1}\n";
  for (int i = 1; i < 30; ++i) {
    const std::string one = std::to_string(i - 1);
    doubling += "x" + std::to_string(i) + ": &x" + std::to_string(i) + " {<<: [*x" + one + ", *x" +
                one + "]}\n";
  }
  const std::vector<Diagnostic> errors = read(doubling).errors;
  REQUIRE_FALSE(errors.empty());
  CHECK(contains(errors.front().message, "more than 100 merged maps"));
}

TEST_CASE("a byte order mark, Windows line ends and document marks are accepted") {
  const Read yaml = read("\xEF\xBB\xBF---\r\nmodel:\r\n  d_model: 64\r\n...\r\n");
  REQUIRE(yaml.entries.size() == 1);
  CHECK(yaml.entries[0].value.Scalar() == "64");
  CHECK(yaml.entries[0].key_place.source_line == "  d_model: 64");
}

namespace {

/// A text that is not a config, and its errors.
struct Wrong {
  std::string text;
  std::vector<ExpectedError> errors;
};

const std::vector<Wrong> wrong_texts = {
    // No sections.
    {"", {{"x", "", {"is empty", "config new FILE"}}}},
    {"# only a comment\n\n", {{"x", "", {"is empty"}}}},
    {"---\n...\n", {{"x", "", {"is empty"}}}},
    {"{}", {{"x", "", {"is empty"}}}},
    {"d_model\n", {{"x:1:1", "d_model", {"expected sections", "a value", "write `model:`"}}}},
    {"- d_model: 64\n- [1]\n", {{"x:1:1", "-", {"expected sections", "a list"}}}},
    // Repeated names.
    {"model:\n  norm: pre\n  d_ff: 1\n  norm: post\n",
     {{"x:4:3", "norm", {"repeated key `norm` in `model`", "first on line 2"}}}},
    {"model:\n  norm: pre\nmodel:\n  d_ff: 1\n",
     {{"x:3:1", "model", {"repeated section `model`", "first on line 1"}}}},
    // Features of YAML that a config rejects.
    {"a:\n  b: !!int 3\n", {{"x:2:6", "", {"a tag (!)", "write only the value"}}}},
    {"a: !m\n  b: 3\n", {{"x:1:4", "", {"a tag (!)"}}}},
    {"a:\n  b: [1, !!int 3]\n", {{"x:2:10", "", {"a tag (!)"}}}},
    {"a:\n  b: 1\n---\nc:\n  d: 1\n", {{"x:3:1", "", {"a second document"}}}},
    {"%YAML 1.2\n---\na:\n  b: 1\n--- # c\n", {{"x:5:1", "", {"a second document"}}}},
    {"a:\n  b: 1\n...\nc: 2\n", {{"x:4:1", "", {"a second document"}}}},
    {"? [a, b]\n: {c: 1}\nd:\n  {e: 1}: 2\n",
     {{"x:1:3", "", {"expected a key, found a list"}},
      {"x:4:3", "", {"expected a key, found a map"}}}},
    {": 1\n", {{"x:1:1", "", {"expected a key, found nothing"}}}},
    {"a:\n  b: |\n    one\n", {{"x:2:6", "", {"over several lines", "write it on one line"}}}},
    // Quotes.
    {"a:\n  b: \"one\n    two\"\n", {{"x:2:6", "", {"quote that is not closed", "close"}}}},
    {"a:\n  b: \"one\n", {{"x:2:6", "", {"quote that is not closed"}}}},
    {"a:\n  b: 'one\n", {{"x:2:6", "", {"quote that is not closed"}}}},
    {"a:\n  b: \"x\\0y\"\n",
     {{"x:2:6", "\"x\\0y\"", {"control character U+0000", "single quotes"}}}},
    // Syntax errors, at the place that yaml-cpp names.
    {"a:\n  b: *.txt\n", {{"x:2:6", "", {"anchor is not defined", "in double quotes"}}}},
    {"a:\n  b: @c\n", {{"x:2:6", "", {"unknown token", "in double quotes"}}}},
    {"a:\n  b 1\n  c: 2\n", {{"x:3:4", "", {"illegal map value", "write `b: 1` in line 2"}}}},
    {"a:\n  b:1  # c\n  c: 2\n", {{"x:3:3", "", {"write `b: 1` in line 2"}}}},
    {"a\n  b: 1\n", {{"x:2:4", "", {"write `a:` in line 1"}}}},
    {"a:\n  b: 1\n\n  c 2\n\n  d: 3\n", {{"x:6:4", "", {"line 4"}}}},
    {"a: b: 1\n", {{"x:1:5", "", {"not valid YAML: illegal map value"}}}},
    {"a:\n  b: \"\\\xDE\x93\"\n", {{"x:2:9", "", {"unknown escape character: \\xDE"}}}},
    {"a: {b: 1\n", {{"x:1:9", "", {"end of map flow not found", "close the section"}}}},
    // Characters.
    {"a:\n\tb: 1\n  \tc: 1\n\t# a comment may\n",
     {{"x:2:1", "", {"a tab in the indentation", "indent with spaces"}},
      {"x:3:3", "", {"a tab in the indentation"}}}},
    {"a:\n  b: x\0y\n"s, {{"x:2:7", "", {"control character U+0000", "UTF-8"}}}},
    {"a:\n  ä: \xff\n", {{"x:2:6", "", {"byte 0xff, which is not UTF-8"}}}},
    {"a: \x1b[31m\n", {{"x:1:4", "", {"control character U+001B"}}}},
    {"a:\n  b: 1\r  c: 2\n", {{"x:2:7", "", {"carriage return", "tr '\\r' '\\n'"}}}},
    {"a:\n  \xEF\xBB\xBF"
     "b: 1\n",
     {{"x:2:3", "", {"byte order mark", "sed "}}}},
    {"\xff\xfe"
     "a\0:\0"s,
     {{"x", "", {"little-endian UTF-16", "iconv -f UTF-16"}}}},
    {"a: \"" + std::string(4096 - 5, 'x') + "\" \n", {{"x:1:4097", "", {"4097", "4096"}}}},
    {std::string(max_config_size + 1, '#'), {{"x", "", {"larger than 1048576 bytes"}}}},
};

}  // namespace

TEST_CASE("texts that are not configs are rejected with position, reason and hint") {
  for (const Wrong& row : wrong_texts) {
    CAPTURE(row.text.substr(0, 60));
    check_errors(read(row.text).errors, row.errors);
  }
}

TEST_CASE("a line of the maximum length and a backslash before a single quote are accepted") {
  CHECK(read("a: \"" + std::string(4096 - 5, 'x') + "\"\n").errors.empty());
  CHECK(read("a:\n  b: 'one\\'\n").errors.empty());
}

TEST_CASE("keys before a syntax error are read") {
  const Read yaml = read("a:\n  b: 1\n  ]\n");
  CHECK(yaml.errors.size() == 1);
  REQUIRE(yaml.entries.size() == 1);
  CHECK(yaml.entries[0].key == "b");
}

TEST_CASE("deep nesting is an error") {
  for (const std::string level : {"[", "{", "{c: ", "? ", "- "}) {
    std::string text = "a:\n  b: ";
    for (int i = 0; i < 100000; ++i) text += level + (i % 500 == 499 ? "\n   " : "");
    CHECK_FALSE(read(text).errors.empty());
  }
  check_errors(read("a: " + std::string(600, '[')).errors, {{"x:1:1", "", {"nested too deeply"}}});
}

TEST_CASE("nested aliases are not expanded") {
  std::string text = "a: {x0: &x0 [1, 1]";
  for (int i = 1; i < 40; ++i) {
    const std::string before = "*x" + std::to_string(i - 1);
    text += ",\n x" + std::to_string(i) + ": &x" + std::to_string(i) + " [" + before + ", " +
            before + "]";
  }
  CHECK(read(text + "}\n").entries.size() == 40);
}

}  // namespace tapestry
