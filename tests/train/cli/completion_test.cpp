// SPDX-License-Identifier: BSD-3-Clause
#include "train/cli/command.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config.h"
#include "train/config/keys.h"

namespace tapestry {
namespace {

using test::contains;
using Words = std::vector<std::string>;

std::string lines_for(const Words& words) {
  CLI::App program("", "tapestry");
  add_commands(program);
  return complete(program, words);
}

/// The candidates without their descriptions.
Words candidates(const Words& words) {
  std::istringstream lines(lines_for(words));
  Words result;
  for (std::string line; std::getline(lines, line);) {
    REQUIRE(line.find('\t') != line.npos);
    result.push_back(line.substr(0, line.find('\t')));
  }
  return result;
}

TEST_CASE("completion of the first word offers commands with their descriptions") {
  std::string expected;
  for (const Command& command : all_commands()) {
    expected += std::string(command.name) + "\t" + command.purpose + "\n";
  }
  CHECK(lines_for({""}) == expected);
  CHECK(lines_for({}) == expected);
}

TEST_CASE("after a config, all keys are offered, with their meanings") {
  std::string expected;
  for (const ConfigKey& key : config_keys()) expected += key.path() + "=\t" + key.meaning + "\n";
  CHECK(lines_for({"train", "copy.yaml", "model.dropout=0.1", ""}) == expected);
  CHECK(lines_for({"train", "copy.yaml", "model.dropout", "=", "0.1", ""}) == expected);
  CHECK(lines_for({"train", "--", "copy.yaml", ""}) == expected);
}

TEST_CASE("completion offers commands, options and values that may follow") {
  struct Row {
    Words words, expected;
  };
  const Row rows[] = {
      {{"tr"}, {"train", "translate"}},
      {{"-"}, {"--help", "--version"}},
      {{"trian", ""}, {}},
      // An option is offered only once unless it can be repeated, and not after an option that
      // excludes it.
      {{"train", "--"},
       {"--help", "--resume", "--allow-change", "--fresh", "--dry-run", "--profile", "--json",
        "--quiet", "--until"}},
      {{"train", "--p"}, {"--profile"}},
      {{"train", "--profile", "--"},
       {"--help", "--resume", "--allow-change", "--fresh", "--dry-run", "--json", "--until"}},
      {{"train", "--resume", "--"},
       {"--help", "--allow-change", "--dry-run", "--profile", "--json", "--quiet", "--until"}},
      {{"train", "--allow-change", "model.dropout", "--a"}, {"--allow-change"}},
      {{"attention", "runs/a", "--text", "a b", "--e"}, {}},
      {{"attention", "runs/a", "--text=a b", "--e"}, {}},
      {{"attention", "runs/a", "--text", "=", "a b", "--e"}, {}},
      {{"train", "--", "copy.yaml", "--"}, {}},
      // Values of options and arguments.
      {{"bleu", "--tokenize", "i"}, {"intl"}},
      {{"bleu", "--tokenize=i"}, {"--tokenize=intl"}},
      {{"bleu", "--tokenize", "=", "i"}, {"intl"}},
      {{"completion", ""}, {"bash", "zsh", "fish"}},
      {{"help", "evalu"}, {"evaluate"}},
      {{"generate", "--tokens", ""}, {}},
      {{"train", "--unknown="}, {}},
      // Config keys and their values.
      {{"gradcheck", "copy.yaml", "model.d_mo"}, {"model.d_model="}},
      {{"train", "copy.yaml", "model.norm="}, {"model.norm=pre", "model.norm=post"}},
      {{"train", "copy.yaml", "model.norm=po"}, {"model.norm=post"}},
      {{"train", "copy.yaml", "model.embedding_dropout="}, {"model.embedding_dropout=dropout"}},
      {{"train", "copy.yaml", "model.d_model="}, {}},
      {{"train", "copy.yaml", "model.nor="}, {}},
      {{"train", "copy.yaml", "data.train_text="}, {}},
      {{"evaluate", "runs/a", "data.test_te"}, {"data.test_text="}},
      {{"evaluate", "runs/a", "decoding.beam_si"}, {"decoding.beam_size="}},
      {{"evaluate", "runs/a", "data.tas"}, {}},
      {{"evaluate", "runs/a", "data.task="}, {}},
      {{"train", "--resume", "--allow-change", "model.dro"}, {"model.dropout"}},
      {{"train", "--resume", "--allow-change", "data.train_te"}, {"data.train_text"}},
      {{"train", "--resume", "--allow-change", "model.d_m"}, {}},
      // Some shells split words at =, so the candidates are the values without the key.
      {{"train", "copy.yaml", "model.norm", "="}, {"pre", "post"}},
      {{"train", "copy.yaml", "model.norm", "=", "po"}, {"post"}},
      {{"train", "copy.yaml", "model.d_ff", "=", "8", "model.norm", "=", "po"}, {"post"}},
      {{"train", "copy.yaml", "--resume", "--allow-change", "=", "model.dro"}, {"model.dropout"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.words);
    CHECK(candidates(row.words) == row.expected);
  }
  CHECK(
      contains(lines_for({"train", "-"}), "--resume\tResume the run from its newest checkpoint\n"));
}

TEST_CASE("only run directories are offered where a run is expected") {
  const test::TemporaryFolder folder;
  for (const char* name : {"b/checkpoints", "a/checkpoints", "a b/checkpoints", "other"}) {
    std::filesystem::create_directories(folder.path() / "runs" / name);
  }
  const std::string runs = (folder.path() / "runs/").string();
  const Words all{runs + "a", runs + "b"};
  CHECK(candidates({"evaluate", runs}) == all);
  CHECK(candidates({"check", runs}) == all);
  CHECK(candidates({"train", "--resume", runs}) == all);
  CHECK(candidates({"report", runs + "a", runs + "b"}) == Words{runs + "b"});
  CHECK(candidates({"train", runs}).empty());
  CHECK(candidates({"translate", runs + "a", ""}).empty());
  CHECK(candidates({"bleu", "out.de", "--reference", runs}).empty());
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  CHECK(candidates({"evaluate", ""}) == Words{"runs/a", "runs/b"});
  std::filesystem::current_path(folder.path() / "runs");
  CHECK(candidates({"evaluate", ""}).empty());
  std::filesystem::current_path(before);
}

TEST_CASE("the completion script of every shell calls the program") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CHECK(contains(completion_script(shell), " complete "));
    CHECK(contains(completion_script(shell), "_tapestry"));
  }
}

}  // namespace
}  // namespace tapestry
