#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "tests/train/limits.h"
#include "tests/train/program.h"
#include "train/checkpoint/checkpoint_file.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/fields.h"

/// What the program says to configs, texts and checkpoints that it cannot use. All that can be
/// wrong with a file is tested with the function that reads it.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using namespace std::string_literals;
using test::check_rejected;
using test::Outcome;
using test::Words;
using test::Workplace;

constexpr std::size_t mebibyte = std::size_t{1} << 20;

std::string repeated(const std::string& text, std::size_t count) {
  std::string result;
  for (std::size_t i = 0; i < count; ++i) result += text;
  return result;
}

// ---- Configs

TEST_CASE("a config that is no text, no config or no number is rejected with line and column") {
  const test::TrainedWorkplace work;
  struct Row {
    std::string what, text;
    Words words;
  };
  const Row rows[] = {
      {"a byte that is not UTF-8", "model:\n  d_model: \xE4\n", {":2:12: ", "0xe4", "UTF-8"}},
      {"a NUL byte", "model:\n  d_model: 1\0\n"s, {":2:13: ", "U+0000"}},
      {"UTF-16", "\xFF\xFEm\0:\0"s, {": found little-endian UTF-16", "iconv"}},
      {"a tab", "model:\n\td_model: 16\n", {":2:1: ", "tab", "\n    ^\n", "spaces"}},
      {"nothing", "", {": is empty", "configs/copy.yaml"}},
      {"a list", "- model\n", {":1:1: ", "found a list", "`model:`"}},
      {"a repeated key", "model:\n  d_ff: 8\n  d_ff: 16\n", {":3:3: ", "repeated key `d_ff`"}},
      {"an alias", "model: &m {d_ff: 8}\ntrain: *m\n", {":1:12: ", "`d_ff`", "in `model`"}},
      {"a tag", "train:\n  run_dir: !!python/object/apply:os.system ls\n", {":2:12: ", "tag"}},
      {"an octal number", "model: {d_ff: 010}\n", {":1:15: ", "\"010\"", "write `10`"}},
      {"a number too large", "optimizer: {clip_norm: 1e999}\n", {":1:24: ", "\"1e999\""}},
      {"a misspelled key",
       "model:\n  d_modl: 16\n",
       {":2:3: ", "^~~~~~\n", "did you mean `d_model`"}},
      {"a contradiction", "model: {d_model: 16, num_heads: 3}\n", {":1:9: ", "15 or 18"}},
      {"a checkpoint", work.read(work.checkpoint(12)), {":1:9: ", "control character"}},
      {"direction of text", "train: {steps: ma\u202Eny}\n", {"ma\\xE2\\x80\\xAEny"}},
  };
  for (const Row& bad : rows) {
    CAPTURE(bad.what);
    work.write("bad.yaml", bad.text);
    check_rejected(work, "train bad.yaml", 2, bad.words);
  }
  for (const char* reader : {"check", "gradcheck", "plan", "attention", "config explain"}) {
    check_rejected(work, std::string(reader) + " bad.yaml", 2, {"bad.yaml:1:", "train"});
  }
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

TEST_CASE("a value of the wrong type is rejected for every key, with its position") {
  const Config defaults;
  std::size_t keys = 0;
  for_each_field(defaults, [&](const Field& field, const FieldValue&, const Domain& domain) {
    CAPTURE(field.path());
    ++keys;
    if (domain.is_list()) return;  // see domain_test.cpp
    const std::size_t column = field.key.size() + 5;
    const auto rejected = [&](const std::string& value, std::size_t at, const std::string& found) {
      CAPTURE(value);
      test::check_words(problems_of(field, value), {fmt::format("x:2:{}: expected {}, found {}\n",
                                                                at, domain.expected(), found)});
    };
    rejected("[1, 2]", column, "a list");
    rejected("{a: 1}", column, "a map");
    for (const char* nothing : {"", "~", "null"}) rejected(nothing, 3, "nothing");
    if (domain.is_text()) return;
    for (const std::string value :
         {"x", "yes", "010", "0x10", ".nan", ".inf", "-1", "1e400", "1_000", "2001-12-14"}) {
      rejected(value, column, "\"" + value + "\"");
    }
    rejected("\"\"", column, "\"\"");
    if (!domain.is<Flag>()) rejected("true", column, "\"true\"");
  });
  CHECK(keys > 50);
}

/// Runs the program where it may not take more than this memory, or much time.
Outcome run_in_bounds(const Workplace& work, const std::string& command,
                      std::size_t mebibytes = 512) {
  const test::ResourceLimit limit = test::limit_memory(mebibytes * mebibyte);
  const double before = test::child_seconds();
  Outcome outcome = work.run(command);
  CHECK(test::child_seconds() - before < 10);
  return outcome;
}

// ---- Texts

struct TrainedTextWorkplace : test::TextWorkplace {
  TrainedTextWorkplace() { REQUIRE(run("train text.yaml").code == 0); }
};

TEST_CASE("each command checks each data file as strictly") {
  const TrainedTextWorkplace work;
  const std::vector<std::string> readers = {"train text.yaml train.run_dir=other",
                                            "train --resume runs/text train.steps=4",
                                            "check text.yaml",
                                            "check runs/text",
                                            "gradcheck text.yaml",
                                            "gradcheck runs/text"};
  for (const std::string name : {"train.de", "train.en", "valid.de", "valid.en"}) {
    const std::string good = work.read(name);
    work.write(name, "\xFF\n");
    const Words words = {work.at(name) + ":1: byte 1 (0xFF) is not UTF-8", "iconv"};
    for (const std::string& reader : readers) check_rejected(work, reader, 3, words);
    if (name.starts_with("valid")) {
      check_rejected(work, "evaluate runs/text", 3, words);
    } else {
      CHECK(work.run("evaluate runs/text").code == 0);
    }
    work.write(name, good);
  }
}

TEST_CASE("files that are no texts, or do not match, are rejected with what is wrong") {
  const TrainedTextWorkplace work;
  const fs::path text = work / "train.de";
  struct Row {
    std::string what;
    std::function<void()> put;
    Words words;
  };
  const Row rows[] = {
      {"nothing", [] {}, {": cannot be read: No such file", "data.train_source"}},
      {"a folder", [&] { fs::create_directory(text); }, {"found a folder", "data.train_source"}},
      {"a pipe", [&] { ::mkfifo(text.c_str(), 0600); }, {"found a pipe", "data.train_source"}},
      {"a link to itself", [&] { fs::create_symlink("train.de", text); }, {"Too many levels"}},
      {"an empty file", [&] { work.write("train.de", ""); }, {"found an empty file"}},
      {"three lines", [&] { work.write("train.de", "a\nb\nc\n"); }, {"3 lines", "train.en has 2"}},
      {"a blank line", [&] { work.write("train.de", "a\n \n"); }, {":2: the line is blank"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    fs::remove_all(text);
    row.put();
    check_rejected(work, "train text.yaml train.run_dir=other", 3, row.words);
    check_rejected(work, "train --resume runs/text train.steps=4", 3, row.words);
  }
  work.write("train.de", "\n\n");
  work.write("train.en", "\n\n");
  check_rejected(work, "train text.yaml --fresh", 3, {"no sentence pair remains", "blank"});
}

TEST_CASE("Windows line ends, byte order marks and a missing last line end change nothing") {
  const auto windows = [](const std::string& text) {
    std::string changed = "\xEF\xBB\xBF";
    for (const char c : text) changed += c == '\n' ? "\r\n" : std::string(1, c);
    return changed;
  };
  const TrainedTextWorkplace work;
  work.write("windows.yaml", windows(work.read("text.yaml")));
  work.write("train.de", windows(work.read("train.de")));
  work.write("valid.en", "a dog");
  work.out("train windows.yaml");
  CHECK(work.read("runs/windows/metrics.csv") == work.read("runs/text/metrics.csv"));
  const std::string translation = work.out("translate runs/text", "ein Haus\n");
  CHECK(work.out("translate runs/text", windows("ein Haus\nein Haus")) ==
        translation + translation);
}

TEST_CASE("a file of a terabyte, or a gigabyte in one line, costs neither time nor memory") {
  const TrainedTextWorkplace work;
  work.write("train.de", std::string(2 * mebibyte, 'x'));
  fs::resize_file(work / "train.de", 1024 * mebibyte);
  Outcome rejected = run_in_bounds(work, "check runs/text", 768);
  CHECK(rejected.code == 3);
  test::check_words(rejected.err, {"train.de:1: the line is longer than 1048576 bytes"});
  fs::resize_file(work / "train.de", std::uint64_t{1} << 42);
  rejected = run_in_bounds(work, "check runs/text");
  CHECK(rejected.code == 3);
  test::check_words(rejected.err, {"found 4398046511104 bytes", "head -n 1000000"});
  fs::resize_file(work / "text.yaml", std::uint64_t{1} << 40);
  rejected = run_in_bounds(work, "train text.yaml");
  CHECK(rejected.code == 2);
  test::check_words(rejected.err, {"found 1099511627776 bytes, expected at most 1048576"});
}

TEST_CASE("a text file without read permission is rejected") {
  if (::geteuid() == 0) return;  // root reads everything
  const TrainedTextWorkplace work;
  fs::permissions(work / "train.de", fs::perms::none);
  check_rejected(work, "check runs/text", 3, {"train.de: cannot be read: Permission denied\n"});
}

TEST_CASE("translate rejects invalid text, after the translations of the lines before it") {
  const TrainedTextWorkplace work;
  const std::string translation = work.out("translate runs/text", "ein Haus\n");
  const std::pair<std::string, std::string> rows[] = {
      {"ein Haus\nein Haus\xE4\n", ":2: byte 9 (0xE4) is not UTF-8"},
      {"ein Haus\nein Haus\0\n"s, ":2: byte 9 (0x00) is NUL"},
      {"ein Haus\rein Haus\n", ":1: byte 9 (0x0D) is a carriage return"},
      {"\xFF\xFE\x61\0\n\0"s, ": found little-endian UTF-16"},
      {"ein Haus\n" + std::string(mebibyte + 1, 'x') + "\n", ":2: the line is longer than 1048576"},
      {"ein Haus\n" + repeated("a ", mebibyte / 2 - 1) + "\n", ":2: found 524288 tokens"},
  };
  for (const auto& [text, message] : rows) {
    const Outcome rejected = work.run("translate runs/text --long-lines stop", text);
    CHECK(rejected.code == 3);
    CHECK(rejected.err.starts_with("tapestry: error: standard input" + message));
    CHECK(rejected.out == (text.starts_with("ein Haus\n") ? translation : ""));
  }
  const auto error_for = [&](const std::string& input) {
    const Outcome rejected = work.run("translate runs/text", test::Streams{.in = input});
    CHECK(rejected.code == 3);
    CHECK(rejected.out.empty());
    return rejected.err;
  };
  test::check_words(error_for(work.path()), {"standard input: cannot be read: Is a directory"});
  test::check_words(error_for(""), {"standard input: cannot be read: Bad file descriptor"});
  test::check_words(error_for("/dev/zero"), {"standard input:1: byte 1 (0x00) is NUL"});
}

// ---- Checkpoints

/// A trained run beside a copy of its checkpoint, bad.h5, that a test makes worse.
struct BadCheckpoint : test::TrainedWorkplace {
  const std::string original = read(checkpoint(12));

  /// Checks what is said of a file with this content.
  void check(const std::string& content, const Words& words) const {
    write("bad.h5", content);
    for (const char* command : {"evaluate", "translate", "inspect"}) {
      check_rejected(*this, {command, "bad.h5"}, 4, words);
    }
  }

  /// What is said of a checkpoint that has another array of this path.
  void check_array(const std::string& path, const StoredArray& array, const Words& words) const {
    ArrayStore altered;
    for (const auto& [each, stored] : read_checkpoint(*this / checkpoint(12))) {
      if (each != path) altered.put(each, stored);
    }
    altered.put(path, array);
    write_checkpoint(*this / "bad.h5", altered);
    for (const char* command : {"evaluate", "translate", "check", "gradcheck"}) {
      check_rejected(*this, {command, "bad.h5"}, 4, words);
    }
    const std::string kept = read(checkpoint(12));
    write(checkpoint(12), read("bad.h5"));
    check_rejected(*this, "train --resume runs/tiny train.steps=20", 4, words);
    write(checkpoint(12), kept);
  }
};

TEST_CASE("a checkpoint that is cut or damaged is rejected, whoever reads it") {
  const BadCheckpoint bad;
  bad.check("", {"not a Tapestry checkpoint: found an empty file"});
  bad.check(bad.read("tiny.yaml"), {"not a Tapestry checkpoint"});
  bad.check(bad.original.substr(0, 4096),
            {"truncated: found 4096 bytes", fmt::format("expected {}", bad.original.size())});
  std::string flipped = bad.original;
  flipped[flipped.size() / 2] = static_cast<char>(flipped[flipped.size() / 2] ^ 1);
  bad.check(flipped, {"the checkpoint is damaged"});
  const std::uint64_t memory = default_max_checkpoint_size();
  fs::resize_file(bad / "bad.h5", memory + 1);  // takes no space on the disk
  for (const char* command : {"evaluate", "translate", "inspect"}) {
    const Outcome rejected = bad.run({command, "bad.h5"});
    CHECK(rejected.code == 4);
    test::check_words(rejected.err, {fmt::format("found {} bytes", memory + 1), "more memory"});
  }
}

TEST_CASE("an array of another type, shape or content is rejected by every command") {
  const BadCheckpoint bad;
  const auto floats = [](const std::vector<float>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    return StoredArray{ElementType::float32, {values.size()}, {bytes.begin(), bytes.end()}};
  };
  const std::string bias = "parameters/output.bias";
  bad.check_array(bias, floats({1, 2}), {bias, "found float32 (2), expected float32 (9)"});
  std::vector<float> values(9);
  values.back() = std::numeric_limits<float>::infinity();
  bad.check_array(bias, floats(values), {bias, "found inf, expected finite"});
  const std::string words = "data/target_vocabulary";
  ArrayStore vocabulary;
  vocabulary.put_text(words, "a\nb\n");
  bad.check_array(words, vocabulary.at(words), {words, "line 1: found 'a', expected <pad>"});
}

}  // namespace
}  // namespace tapestry
