#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "tests/train/child_time.h"
#include "tests/train/memory_limit.h"
#include "tests/train/refusal.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/fields.h"

/// What the program says to configs that are none. Each row is refused by its place and changes
/// nothing.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using test::Arguments;
using test::check_refusal;
using test::Outcome;
using test::TrainedWorkplace;
using test::Workplace;

const std::vector<std::string> readers_of_configs = {"train", "check", "gradcheck"};

void check_all_readers(const Workplace& work, const std::string& message) {
  for (const std::string& command : readers_of_configs) {
    CAPTURE(command);
    check_refusal(work, {command, "bad.yaml"}, 2, "bad.yaml" + message);
  }
}

struct BadConfig {
  std::string what;
  std::string text;
  std::string message;  ///< behind the name of the file
};

const std::string write_keys = "\nhint: write every key as `key: value`";
const std::string is_it_a_config = "\nhint: check that this file is meant to be a config";

const BadConfig bad_encodings[] = {
    {"a byte that is not UTF-8", "model:\n  d_model: \xE4\n",
     ":2:12: found byte 0xe4, which is not UTF-8\n    d_model: ?\n             ^\n"
     "hint: save the file as UTF-8 text"},
    {"a NUL byte", "model:\n  d_model: 1\0\n"s,
     ":2:13: found control character U+0000\n    d_model: 1?\n              ^\n"
     "hint: save the file as UTF-8 text"},
    {"an escape character", "model: \x1B[31m\n",
     ":1:8: found control character U+001B\n    model: ?\n           ^\n"
     "hint: save the file as UTF-8 text"},
    {"UTF-16LE", "\xFF\xFEm\0:\0"s,
     ": found little-endian UTF-16, expected UTF-8\nhint: convert it, with: iconv -f UTF-16 -t "
     "UTF-8"},
    {"UTF-16BE", "\xFE\xFF\0m\0:"s,
     ": found big-endian UTF-16, expected UTF-8\nhint: convert it, with: iconv -f UTF-16 -t UTF-8"},
    {"a byte order mark in the middle",
     "model:\n  d_model: 16\n\xEF\xBB\xBF"
     "train: {}\n",
     ":3:1: found a byte order mark, which belongs at the front of a file\n"
     "    \xEF\xBB\xBF"
     "train: {}\n    ^\nhint: remove it, with: sed 's/\\xEF\\xBB\\xBF//g'"},
    {"line ends of an old Macintosh", "model:\r  d_model: 16\r",
     ":1:7: found a carriage return without a line feed after it\n"
     "    model:?\n          ^\n"
     "hint: make it end the line, with: tr '\\r' '\\n'"},
    {"a tab in the indentation", "model:\n\td_model: 16\n",
     ":2:1: found a tab in the indentation, expected spaces\n    \td_model: 16\n    ^\n"
     "hint: indent with spaces; YAML does not allow tabs"},
};

const BadConfig bad_structures[] = {
    {"nothing", "",
     ": is empty, expected sections such as `model:`\nhint: start from configs/copy.yaml"},
    {"a list", "- model\n",
     ":1:1: expected sections such as `model:`, found a list\n    - model\n    ^\n"
     "hint: write `model:` and, indented below it, `d_model: 64`"},
    {"a value", "model\n",
     ":1:1: expected sections such as `model:`, found a value\n    model\n    ^~~~~\n"
     "hint: write `model:` and, indented below it, `d_model: 64`"},
    {"a section that is a value", "model: 16\n",
     ":1:1: expected keys indented below `model`, found a value\n    model: 16\n    ^~~~~\n"
     "hint: write `kind: ...` below it, or remove the section"},
    {"a section that is a list", "model: [16]\n",
     ":1:1: expected keys indented below `model`, found a list\n    model: [16]\n    ^~~~~\n"
     "hint: write `kind: ...` below it, or remove the section"},
    {"a section that is nothing", "model:\n",
     ":1:1: expected keys indented below `model`, found nothing\n    model:\n    ^~~~~\n"
     "hint: write `kind: ...` below it, or remove the section"},
    {"a repeated key", "model:\n  d_ff: 8\n  d_ff: 16\n",
     ":3:3: repeated key `d_ff` in `model`, which is on line 2 already\n    d_ff: 16\n    ^~~~\n"
     "hint: keep one of the two"},
    {"a repeated section", "model: {d_ff: 8}\nmodel: {norm: pre}\n",
     ":2:1: repeated section `model`, which is on line 1 already\n    model: {norm: pre}\n    "
     "^~~~~\n"
     "hint: keep one of the two"},
    {"a second document", "model: {d_ff: 8}\n---\nmodel: {d_ff: 16}\n",
     ":2:1: found a second document, expected one\n    ---\n    ^\n"
     "hint: keep each config in a file of its own"},
    {"an alias of other keys", "model: &m {d_ff: 8}\ntrain: *m\n",
     ":1:12: unknown key `d_ff` in `train`\n    model: &m {d_ff: 8}\n               ^~~~\n"
     "hint: `d_ff` belongs in `model`"},
    {"a merge key of a number", "model:\n  <<: 8\n",
     ":2:3: expected a map or a list of maps to merge, found a value\n    <<: 8\n    ^~\n"
     "hint: write `<<: *NAME`, with the anchor &NAME at a map"},
    {"a tag", "model:\n  d_ff: !!int 8\n",
     ":2:9: found a tag (!), which a config does not need\n    d_ff: !!int 8\n          ^\n"
     "hint: write the value alone"},
    {"a tag of another program", "train:\n  run_dir: !!python/object/apply:os.system ls\n",
     ":2:12: found a tag (!), which a config does not need\n"
     "    run_dir: !!python/object/apply:os.system ls\n             ^\n"
     "hint: write the value alone"},
    {"a newer YAML", "%YAML 9.9\n---\nmodel: {d_ff: 8}\n",
     ":1:1: not valid YAML: YAML major version too large\n    %YAML 9.9\n    ^" + write_keys +
         ", indented like the keys around it"},
    {"a key that is a list", "? [a, b]\n: 1\n",
     ":1:3: expected a key, found a list\n    ? [a, b]\n      ^" + write_keys},
    {"a text over several lines", "train:\n  run_dir: |\n    a\n",
     ":2:12: found a text over several lines, expected it on one\n    run_dir: |\n             ^\n"
     "hint: write it on one line"},
    {"a quote without an end", "train:\n  run_dir: \"a\n",
     ":2:12: found a quote that is not closed on its line\n    run_dir: \"a\n             ^\n"
     "hint: close the quote"},
    {"a map without an end", "model: {d_ff: 8\n",
     ":1:16: not valid YAML: end of map flow not found\n    model: {d_ff: 8\n                   ^" +
         write_keys + ", indented like the keys around it"},
};

/// Values that YAML readers make other numbers of than a user meant.
const BadConfig bad_values[] = {
    {"an octal number", "model: {d_ff: 010}\n",
     ":1:15: expected a whole number from 1 to 1000000, found \"010\"\n    model: {d_ff: 010}\n"
     "                  ^~~\nhint: write `10`, in decimal digits alone"},
    {"a new octal number", "model: {d_ff: 0o17}\n",
     ":1:15: expected a whole number from 1 to 1000000, found \"0o17\"\n    model: {d_ff: 0o17}\n"
     "                  ^~~~\nhint: write for example 512, the default"},
    {"a hexadecimal number", "model: {d_ff: 0x10}\n",
     ":1:15: expected a whole number from 1 to 1000000, found \"0x10\"\n    model: {d_ff: 0x10}\n"
     "                  ^~~~\nhint: write `16`, in decimal digits alone"},
    {"a binary number", "model: {d_ff: 0b11}\n",
     ":1:15: expected a whole number from 1 to 1000000, found \"0b11\"\n    model: {d_ff: 0b11}\n"
     "                  ^~~~\nhint: write for example 512, the default"},
    {"a sexagesimal number", "model: {d_ff: 1:30}\n",
     ":1:15: expected a whole number from 1 to 1000000, found \"1:30\"\n    model: {d_ff: 1:30}\n"
     "                  ^~~~\nhint: write for example 512, the default"},
    {"an exponent", "model: {d_ff: 1e3}\n",
     ":1:15: expected a whole number from 1 to 1000000, found \"1e3\"\n    model: {d_ff: 1e3}\n"
     "                  ^~~\nhint: write `1000`, in decimal digits alone"},
    {"a number of many digits", "train: {seed: 18446744073709551616}\n",
     ":1:15: expected a whole number >= 0, found \"18446744073709551616\"\n"
     "    train: {seed: 18446744073709551616}\n                  ^~~~~~~~~~~~~~~~~~~~\n"
     "hint: write for example 1, the default"},
    {"a negative number", "train: {seed: -1}\n",
     ":1:15: expected a whole number >= 0, found \"-1\"\n    train: {seed: -1}\n"
     "                  ^~\nhint: write for example 1, the default"},
    {"not a number", "model: {dropout: .nan}\n",
     ":1:18: expected a number in [0, 1), found \".nan\"\n    model: {dropout: .nan}\n"
     "                     ^~~~\nhint: write for example 0.1, the default"},
    {"infinity", "optimizer: {clip_norm: .inf}\n",
     ":1:24: expected a number >= 0, found \".inf\"\n    optimizer: {clip_norm: .inf}\n"
     "                           ^~~~\nhint: write for example 1, the default"},
    {"a number beyond a double", "optimizer: {clip_norm: 1e999}\n",
     ":1:24: expected a number >= 0, found \"1e999\"\n    optimizer: {clip_norm: 1e999}\n"
     "                           ^~~~~\nhint: write a number that a double can hold"},
    {"an octal number with a point", "optimizer: {clip_norm: 010}\n",
     ":1:24: expected a number >= 0, found \"010\"\n    optimizer: {clip_norm: 010}\n"
     "                           ^~~\nhint: write `10`"},
    {"a truth of YAML 1.1", "data: {lowercase: no}\n",
     ":1:19: expected true or false, found \"no\"\n    data: {lowercase: no}\n"
     "                      ^~\nhint: write `false`"},
};

TEST_CASE("a config that is no text, no config or no number is refused with line and column") {
  const Workplace work;
  for (const auto rows :
       {std::span<const BadConfig>(bad_encodings), std::span<const BadConfig>(bad_structures),
        std::span<const BadConfig>(bad_values)}) {
    for (const BadConfig& bad : rows) {
      CAPTURE(bad.what);
      work.write("bad.yaml", bad.text);
      check_all_readers(work, bad.message);
    }
  }
}

TEST_CASE("Windows line ends and a byte order mark at the front change nothing") {
  const TrainedWorkplace work;
  std::string text = "\xEF\xBB\xBF";
  for (const char c : test::tiny_yaml) text += c == '\n' ? "\r\n" : std::string(1, c);
  work.write("windows.yaml", text);
  REQUIRE(work.run({"train", "windows.yaml", "train.run_dir=runs/windows"}).code == 0);
  CHECK(test::read_text(work / "runs/windows/metrics.csv") ==
        test::read_text(work / "runs/tiny/metrics.csv"));
}

/// What is wrong with a config of one key, or nothing.
std::string problems_of(const Field& field, const std::string& value) {
  const std::string text = fmt::format("{}:\n  {}: {}\n", field.section, field.key, value);
  try {
    parse_config(text, "x");
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("a value of the wrong type is refused for every key, with its position") {
  const Config defaults;
  std::size_t keys = 0;
  for_each_field(defaults, [&](const Field& field, const FieldValue&, const Domain& domain) {
    CAPTURE(field.path());
    ++keys;
    if (domain.is_list()) return;  // see domains_test.cpp
    const std::size_t column = field.key.size() + 5;
    const auto refused = [&](const std::string& value, std::size_t at, const std::string& found) {
      CAPTURE(value);
      const std::string expected =
          fmt::format("x:2:{}: expected {}, found {}\n", at, domain.expected(), found);
      CHECK(problems_of(field, value).find(expected) != std::string::npos);
    };
    refused("[1, 2]", column, "a list");
    refused("[[[]]]", column, "a list");
    refused("{a: 1}", column, "a map");
    refused("{}", column, "a map");
    refused("", 3, "nothing");
    refused("~", 3, "nothing");
    refused("null", 3, "nothing");
    if (domain.is_text()) return;
    for (const char* value : {"x", "yes", "010", "0x10", ".nan", ".inf", "-1", "1e400", "1_000",
                              "2001-12-14", "\"\"", "'a b'"}) {
      std::string bare = value;
      std::erase_if(bare, [](char c) { return c == '"' || c == '\''; });
      refused(value, column, "\"" + bare + "\"");
    }
    if (!domain.is<Flag>()) refused("true", column, "\"true\"");
  });
  CHECK(keys > 50);
}

/// Runs the program where it may not take more than half a gigabyte, or much time.
Outcome run_in_bounds(const Workplace& work, const Arguments& arguments) {
  const test::MemoryLimit limit(std::size_t{512} << 20);
  const test::ChildTime time;
  Outcome outcome = work.run(arguments);
  CHECK(time.passed() < std::chrono::seconds(10));
  return outcome;
}

std::string repeated(const std::string& text, std::size_t count) {
  std::string result;
  result.reserve(text.size() * count);
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

std::string exponential_aliases() {
  std::string text = "data:\n  x0: &x0 [1, 1]\n";
  for (int i = 1; i < 60; ++i) text += fmt::format("  x{0}: &x{0} [*x{1}, *x{1}]\n", i, i - 1);
  return text;
}

TEST_CASE("a config that would expand without end costs neither time nor memory") {
  const Workplace work;
  const BadConfig rows[] = {
      {"aliases of aliases", exponential_aliases(), ":2:3: unknown key `x0` in `data`"},
      {"lists in lists", "data: " + repeated("[", 4000), ":1:1: found lists or maps in each other"},
      {"lists in lists over many lines", "data:\n" + repeated("  [[[[[[[[[[[[[[[[\n", 50'000),
       ":50001:19: found lists or maps in each other"},
      {"maps in maps", "data: " + repeated("{a: ", 1000),
       ":1:1: found lists or maps in each other"},
      {"lists of dashes", repeated(repeated("- ", 2000) + "\n", 250),
       ":1:1: found lists or maps in each other"},
      {"keys of keys", repeated("? ", 2000) + "a\n", ":1:1: found lists or maps in each other"},
      {"a value of 100,000 bytes", "train:\n  run_dir: \"" + std::string(100'000, 'x') + "\"\n",
       ":2:4097: line of 100013 bytes, expected at most 4096"},
      {"a block of a megabyte", "train:\n  run_dir: |\n" + repeated("    xxxxxxxxxxx\n", 60'000),
       ":2:12: found a text over several lines"},
      {"60,000 keys", "model:\n" + repeated("  k: 1\n", 60'000),
       ":3:3: repeated key `k` in `model`"},
      {"50,000 anchors", "model:\n" + repeated("  k: &a 1\n", 50'000),
       ":3:3: repeated key `k` in `model`"},
      {"50,000 documents", repeated("model: 1\n---\n", 50'000),
       ":1:1: expected keys indented below"},
      {"200,000 keys of nothing", "model: {" + repeated("a,\n", 200'000) + "}\n",
       ":2:1: repeated key `a` in `model`"},
      {"a megabyte of comments and nothing", repeated("#\n", 500'000), ": is empty"},
      {"more than a megabyte", std::string((1 << 20) + 1, '#'),
       ": found 1048577 bytes, expected at most 1048576" + is_it_a_config + "\n"},
  };
  for (const BadConfig& bad : rows) {
    CAPTURE(bad.what);
    work.write("bad.yaml", bad.text);
    const Outcome refused = run_in_bounds(work, {"train", "bad.yaml"});
    CHECK(refused.code == 2);
    CHECK(refused.out.empty());
    CHECK(refused.err.substr(0, 25 + bad.message.size()) ==
          "tapestry: error: bad.yaml" + bad.message);
    CHECK(refused.err.size() < 50'000);
  }
  CHECK_FALSE(fs::exists(work / "runs"));
}

TEST_CASE("a pipe, device or folder in place of a config is refused without blocking") {
  const Workplace work;
  const fs::path config = work / "bad.yaml";
  const std::string hint = "\nhint: give the path of a YAML file, such as configs/copy.yaml";
  const std::string unreadable = "\nhint: check the path and its permissions";
  struct Row {
    std::string what;
    std::function<void()> put;
    std::string message;
  };
  const Row rows[] = {
      {"a pipe", [&] { ::mkfifo(config.c_str(), 0600); },
       ": found a pipe, socket or device, expected a config file" + hint},
      {"an endless device", [&] { fs::create_symlink("/dev/zero", config); },
       ": found a pipe, socket or device, expected a config file" + hint},
      {"a full device", [&] { fs::create_symlink("/dev/full", config); },
       ": found a pipe, socket or device, expected a config file" + hint},
      {"a socket", [&] { ::mknod(config.c_str(), S_IFSOCK | 0600, 0); },
       ": found a pipe, socket or device, expected a config file" + hint},
      {"nothing", [] {}, ": cannot be read: No such file or directory" + unreadable},
      {"a link to nothing", [&] { fs::create_symlink("nothing", config); },
       ": cannot be read: No such file or directory" + unreadable},
      {"a link to itself", [&] { fs::create_symlink("bad.yaml", config); },
       ": cannot be read: Too many levels of symbolic links" + unreadable},
      {"a file with a read error", [&] { fs::create_symlink("/proc/self/mem", config); },
       ": cannot be read: Input/output error" + unreadable},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    fs::remove_all(config);
    row.put();
    check_all_readers(work, row.message);
  }
  fs::remove_all(config);
  fs::create_directory(config);  // a run directory to check and gradcheck
  check_refusal(
      work, {"train", "bad.yaml"}, 2,
      "bad.yaml: found a folder, expected a config file\nhint: name a file in this folder");
}

TEST_CASE("a config of a terabyte is refused before it is read") {
  const Workplace work;
  work.write("bad.yaml", "");
  fs::resize_file(work / "bad.yaml", std::uint64_t{1} << 40);
  const Outcome refused = run_in_bounds(work, {"train", "bad.yaml"});
  CHECK(refused.code == 2);
  CHECK(refused.err ==
        "tapestry: error: bad.yaml: found 1099511627776 bytes, expected at most 1048576" +
            is_it_a_config + "\n");
}

TEST_CASE("a checkpoint in place of a config is refused") {
  const TrainedWorkplace work;
  fs::copy(work / work.checkpoint(12), work / "bad.yaml");
  check_all_readers(work,
                    ":1:9: found control character U+0004\n    TAPESTRY?\n            ^\n"
                    "hint: save the file as UTF-8 text");
}

TEST_CASE("control characters in the name of a config are escaped in messages") {
  const Workplace work;
  check_refusal(work, {"train", "a\nb\x1B[31m.yaml"}, 2,
                "a\\nb\\x1B[31m.yaml: cannot be read: No such file or directory\n"
                "hint: check the path and its permissions");
}

}  // namespace
}  // namespace tapestry
