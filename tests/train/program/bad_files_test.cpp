// SPDX-License-Identifier: BSD-3-Clause
#include <sys/stat.h>

#include <filesystem>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/program.h"
#include "train/checkpoint/checkpoint_file.h"

/// Tests errors for unusable configs, texts and checkpoints. The tests of each reader cover all
/// errors in its files.
namespace tapestry {
namespace {

namespace fs = std::filesystem;
using test::check_rejected;
using test::Outcome;
using test::Words;
using test::Workplace;

// ---- Configs

TEST_CASE("every command rejects an invalid config and prints line, column and hint") {
  const Workplace work;
  work.write("bad.yaml", "model:\n  d_modl: 16\n  num_heads: 010\ntrain: {steps: ma\u202Eny}\n");
  for (const char* reader :
       {"train", "check", "gradcheck", "plan", "attention", "config explain"}) {
    check_rejected(work, std::string(reader) + " bad.yaml", 2,
                   {"bad.yaml:2:3: ", "^~~~~~\n", "did you mean `d_model`",
                    "bad.yaml:3:14: ", "write `10`", "ma\\xE2\\x80\\xAEny"});
  }
}

// ---- Texts

struct TrainedTextWorkplace : test::TextWorkplace {
  TrainedTextWorkplace() { REQUIRE(run("train text.yaml").code == 0); }
};

TEST_CASE("text files that cannot be read, or have different numbers of lines, are rejected") {
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

TEST_CASE("standard input that is not text is rejected") {
  const test::TrainedWorkplace work;
  const std::pair<std::string, std::string> rows[] = {
      {work.path(), ": cannot be read: Is a directory"},
      {"", ": cannot be read: Bad file descriptor"},
      {"/dev/zero", ":1: byte 1 (0x00) is NUL"}};
  for (const auto& [input, message] : rows) {
    const Outcome rejected = work.run("translate runs/tiny", test::Streams{.in = input});
    CHECK(rejected.code == 3);
    CHECK(rejected.out.empty());
    CHECK(rejected.err.starts_with("tapestry: error: standard input" + message));
  }
}

// ---- Checkpoints

struct BadCheckpoint : test::TrainedWorkplace {
  /// Checks the error of a checkpoint whose array at `path` is replaced by `array`.
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

TEST_CASE("an array of the wrong type, shape or content is rejected by every command") {
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

TEST_CASE("a truncated or damaged checkpoint is rejected, even if it is the only one of a run") {
  const test::TrainedWorkplace work;
  const std::string whole = work.read(work.checkpoint(12));
  std::string altered = whole;
  altered[whole.size() / 2] ^= 1;
  const std::pair<std::string, std::string> rows[] = {
      {"", "not a Tapestry checkpoint"},
      {whole.substr(0, 1000), "is truncated"},
      {whole.substr(0, whole.size() - 1), "is truncated"},
      {whole + "\n", "is too long"},
      {altered, "is damaged: its digest does not match its bytes"}};
  for (const auto& [bytes, words] : rows) {
    CAPTURE(words);
    work.write("bad.h5", bytes);
    check_rejected(work, "evaluate bad.h5", 4, {"bad.h5: ", words});
  }
  for (const auto& file : fs::directory_iterator(work / "runs/tiny/checkpoints")) {
    fs::resize_file(file, 1000);
  }
  for (const char* command : {"train --resume runs/tiny train.steps=20", "translate runs/tiny"}) {
    check_rejected(work, command, 4, {"checkpoints", "expected at least one intact checkpoint"});
  }
}

}  // namespace
}  // namespace tapestry
