// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/config.h"

#include <doctest/doctest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "train/config/error.h"
#include "train/config/load.h"

namespace tapestry {
namespace {

namespace fs = std::filesystem;

std::string rejection(const std::string& path) {
  try {
    read_config_file(path);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "accepted";
}

}  // namespace

TEST_CASE("a config file is read without changes") {
  const test::TemporaryFolder folder;
  const std::string text("model:\r\n  d_model: 1\n\0x", 23);
  CHECK(read_config_file(folder.write("a.yaml", text)) == text);
  CHECK(read_config_file(folder.write("empty.yaml", "")).empty());
}

TEST_CASE("unreadable or too large files, folders and pipes are rejected without blocking") {
  const test::TemporaryFolder folder;
  const std::string base = folder.path().string();
  const std::string socket = base + "/socket", pipe = base + "/pipe";
  REQUIRE(::mknod(socket.c_str(), S_IFSOCK | 0600, 0) == 0);
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string large = folder.write("large.yaml", std::string(max_config_size + 1, '\n'));
  const std::string secret = folder.write("secret.yaml", "model:\n  d_model: 64\n");
  fs::permissions(secret, fs::perms::none);
  const std::string special = "found a pipe, socket or device, expected a config file";
  const struct {
    std::string path, reason, hint;
  } rows[] = {
      {base + "/none.yaml", "No such file or directory", "check the path"},
      {base, "found a folder, expected a config file", "name a file in this folder"},
      {"/dev/null", special, "give the path of a YAML file"},
      {socket, special, "give the path of a YAML file"},
      {pipe, special, "give the path of a YAML file"},
      {"/proc/self/mem", "cannot be read: Input/output error", "check the path"},
      {secret, "Permission denied", "check the path and its permissions"},
      {large, "found 1048577 bytes, expected at most 1048576", "meant to be a config"},
  };
  for (const auto& row : rows) {
    CAPTURE(row.path);
    if (row.path == secret && ::geteuid() == 0) continue;  // root can read every file
    const std::string text = rejection(row.path);
    CHECK(text.starts_with(row.path + ": "));
    CHECK_MESSAGE(test::contains(text, row.reason), text);
    CHECK_MESSAGE(test::contains(text.substr(text.find("\nhint: ")), row.hint), text);
  }
  CHECK(rejection(folder.write("full.yaml", std::string(max_config_size, '\n'))) == "accepted");
}

TEST_CASE(
    "paths in a config are relative to its folder, and paths in overrides to the working "
    "directory") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("mine.yaml",
                                        "data:\n"
                                        "  task: parallel_text\n"
                                        "  train_source: text/train.de\n"
                                        "  train_target: ../train.en\n"
                                        "  validation_source: /texts/valid.de\n"
                                        "  validation_target: valid.en\n");
  const Config config = load_config(path, {"data.validation_target=here.en"});
  CHECK(config.data.pairs.train_source == (folder.path() / "text/train.de").string());
  CHECK(config.data.pairs.train_target == (folder.path().parent_path() / "train.en").string());
  CHECK(config.data.pairs.validation_source == "/texts/valid.de");
  CHECK(config.data.pairs.validation_target == (fs::current_path() / "here.en").string());
  CHECK(config.data.pairs.test_source.empty());
}

TEST_CASE("data.folder, in a config or an override, is the base of relative paths in the config") {
  const test::TemporaryFolder folder;
  const std::string files =
      "  task: parallel_text\n"
      "  train_source: train.de\n"
      "  train_target: en/train.en\n"
      "  validation_source: /texts/valid.de\n"
      "  validation_target: valid.en\n";
  const std::string here = fs::current_path().string();
  const std::string plain = folder.write("plain.yaml", "data:\n" + files);
  const Config moved =
      load_config(plain, {"data.folder=corpora", "data.validation_target=here.en"});
  CHECK(moved.data.folder == here + "/corpora");
  CHECK(moved.data.pairs.train_source == here + "/corpora/train.de");
  CHECK(moved.data.pairs.train_target == here + "/corpora/en/train.en");
  CHECK(moved.data.pairs.validation_source == "/texts/valid.de");
  CHECK(moved.data.pairs.validation_target == here + "/here.en");

  const std::string own = folder.write("own.yaml", "data:\n" + files + "  folder: ../texts\n");
  const std::string texts = (folder.path().parent_path() / "texts").string();
  CHECK(load_config(own).data.pairs.train_source == texts + "/train.de");
  CHECK(load_config(own, {"data.folder=/a/b/"}).data.pairs.train_target == "/a/b/en/train.en");
  CHECK(load_config(own, {"data.folder="}).data.pairs.train_source ==
        (folder.path() / "train.de").string());
}

TEST_CASE("changing data.folder moves the data paths of a run from the old to the new folder") {
  const std::string stored =
      "data:\n"
      "  task: parallel_text\n"
      "  folder: /old/texts\n"
      "  train_source: /old/texts/train.de\n"
      "  train_target: /old/texts/en/train.en\n"
      "  validation_source: /old/texts2/valid.de\n"
      "  validation_target: /other/valid.en\n";
  const Config moved = parse_config(stored, "c", {"data.folder=/new"});
  CHECK(moved.data.pairs.train_source == "/new/train.de");
  CHECK(moved.data.pairs.train_target == "/new/en/train.en");
  CHECK(moved.data.pairs.validation_source == "/old/texts2/valid.de");
  CHECK(moved.data.pairs.validation_target == "/other/valid.en");
  CHECK(parse_config(stored, "c").data.pairs.train_target == "/old/texts/en/train.en");
}

struct WorkingFolder {
  ~WorkingFolder() { fs::current_path(before); }
  const fs::path before = fs::current_path();
};

TEST_CASE("relative paths are rejected if the working directory does not exist") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("mine.yaml", "train:\n  steps: 10\n");
  const fs::path gone = folder.path() / "gone";
  fs::create_directory(gone);
  const WorkingFolder to_return_to;
  fs::current_path(gone);
  fs::remove(gone);
  const auto message = [](const auto& read) {
    try {
      read();
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string override = "data.train_text=a.txt";
  const auto check_rejected = [&](const std::string& text) {
    CHECK(text.starts_with("command line: " + override + ": found a relative path"));
    CHECK(test::contains(text, "\nhint: change to an existing folder"));
  };
  CHECK(message([&] { load_config(path); }) == "accepted");
  CHECK(message([&] {
          load_config(path,
                      {"data.task=parallel_text", "data.train_source=/a", "data.train_target=/b",
                       "data.validation_source=/c", "data.validation_target=/d"});
        }) == "accepted");
  CHECK(message([] { parse_config("train:\n  steps: 5\n", "c", {"train.steps=10"}); }) ==
        "accepted");
  check_rejected(message([&] { load_config(path, {override}); }));
  check_rejected(message([&] { parse_config("train:\n  steps: 5\n", "c", {override}); }));
}

TEST_CASE("the run directory is named after the config unless train.run_dir is set") {
  const test::TemporaryFolder folder;
  const std::string path = folder.write("my.first.yaml", "train:\n  steps: 10\n");
  CHECK(load_config(path).train.run_dir == "runs/my.first");
  CHECK(load_config(path, {"train.run_dir=elsewhere"}).train.run_dir == "elsewhere");
  CHECK(load_config(path, {"train.run_dir="}).train.run_dir == "runs/my.first");
}

}  // namespace tapestry
