#include "train/cli/command.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/contains.h"
#include "tests/support/temporary_folder.h"
#include "train/config/config.h"

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

bool offers(const Words& words, const std::string& word) {
  return std::ranges::count(candidates(words), word) == 1;
}

TEST_CASE("completion of the first word offers commands with their descriptions") {
  std::string expected;
  for (const Command& command : all_commands()) {
    expected += std::string(command.name) + "\t" + command.purpose + "\n";
  }
  CHECK(lines_for({""}) == expected);
  CHECK(lines_for({}) == expected);
  CHECK(candidates({"tr"}) == Words{"train", "translate"});
  CHECK(candidates({"-"}) == Words{"--help", "--version"});
  CHECK(candidates({"trian", ""}).empty());
}

TEST_CASE("completion offers the options that may follow, with their descriptions") {
  struct Row {
    Words words, expected;
  };
  const Row rows[] = {
      {{"train", "--"},
       {"--help", "--resume", "--allow-change", "--fresh", "--dry-run", "--profile", "--json",
        "--quiet", "--until"}},
      {{"train", "--p"}, {"--profile"}},
      // An option is offered once unless it repeats, and not next to one that excludes it.
      {{"train", "--profile", "--"},
       {"--help", "--resume", "--allow-change", "--fresh", "--dry-run", "--json", "--until"}},
      {{"train", "--resume", "--"},
       {"--help", "--allow-change", "--dry-run", "--profile", "--json", "--quiet", "--until"}},
      {{"train", "--allow-change", "model.dropout", "--a"}, {"--allow-change"}},
      {{"attention", "runs/a", "--text", "a b", "--e"}, {}},
      {{"attention", "runs/a", "--text=a b", "--e"}, {}},
      {{"attention", "runs/a", "--text", "=", "a b", "--e"}, {}},
      {{"inspect", "--"}, {"--help", "--json"}},
  };
  for (const Row& row : rows) {
    CAPTURE(row.words);
    CHECK(candidates(row.words) == row.expected);
  }
  CHECK(
      contains(lines_for({"train", "-"}), "--resume\tResume the run from its newest checkpoint\n"));
}

TEST_CASE("an option that needs a value takes the next word") {
  CHECK(candidates({"bleu", "--tokenize", "i"}) == Words{"intl"});
  CHECK(candidates({"bleu", "--tokenize=i"}) == Words{"--tokenize=intl"});
  CHECK(candidates({"bleu", "--tokenize", "=", "i"}) == Words{"intl"});
  CHECK(candidates({"completion", ""}) == Words{"bash", "zsh", "fish"});
  CHECK(offers({"help", ""}, "evaluate"));
  CHECK(candidates({"generate", "--tokens", ""}).empty());
  CHECK(candidates({"train", "--unknown="}).empty());
}

TEST_CASE("after a config, all keys are offered, with their meanings") {
  std::string expected;
  for (const ConfigKey& key : config_keys()) expected += key.path() + "=\t" + key.meaning + "\n";
  CHECK(lines_for({"train", "copy.yaml", "model.dropout=0.1", ""}) == expected);
  CHECK(lines_for({"train", "copy.yaml", "model.dropout", "=", "0.1", ""}) == expected);
  CHECK(lines_for({"train", "--", "copy.yaml", ""}) == expected);
  CHECK(candidates({"gradcheck", "copy.yaml", "model.d_mo"}) == Words{"model.d_model="});
  CHECK(candidates({"train", "--", "copy.yaml", "--"}).empty());
}

TEST_CASE("after a trained model, only keys of data files and of decoding are offered") {
  const Words keys = candidates({"evaluate", "runs/a", ""});
  CHECK(std::ranges::count(keys, "data.test_text=") == 1);
  CHECK(std::ranges::count(keys, "decoding.beam_size=") == 1);
  CHECK(std::ranges::count(keys, "data.task=") == 0);
  CHECK(std::ranges::all_of(keys, [](const auto& key) {
    return key.starts_with("data.") || key.starts_with("decoding.");
  }));
  CHECK(candidates({"evaluate", "runs/a", "data.task="}).empty());
}

TEST_CASE("values of a key are offered after =") {
  const auto values = [](const std::string& word) {
    return candidates({"train", "copy.yaml", word});
  };
  CHECK(values("model.norm=") == Words{"model.norm=pre", "model.norm=post"});
  CHECK(values("model.norm=po") == Words{"model.norm=post"});
  CHECK(values("data.lowercase=") == Words{"data.lowercase=true", "data.lowercase=false"});
  CHECK(values("model.embedding_dropout=") == Words{"model.embedding_dropout=dropout"});
  for (const char* word : {"model.d_model=", "train.run_dir=", "model.nor=", "data.train_text="}) {
    CHECK(values(word).empty());
  }
}

TEST_CASE("a shell that splits words at = is offered what follows it") {
  const auto values = [](Words words) {
    words.insert(words.begin(), {"train", "copy.yaml"});
    return candidates(words);
  };
  CHECK(values({"model.norm", "="}) == Words{"pre", "post"});
  CHECK(values({"model.norm", "=", "po"}) == Words{"post"});
  CHECK(values({"model.d_model", "=", "8", "model.norm", "=", "po"}) == Words{"post"});
  CHECK(values({"--resume", "--allow-change", "=", "model.dro"}) == Words{"model.dropout"});
}

TEST_CASE("keys that may change are offered after --allow-change") {
  const Words keys = candidates({"train", "--resume", "--allow-change", ""});
  CHECK(std::ranges::count(keys, "model.dropout") == 1);
  CHECK(std::ranges::count(keys, "data.train_text") == 1);
  CHECK(std::ranges::count(keys, "model.d_model") == 0);
  CHECK(std::ranges::count(keys, "train.steps") == 0);
  CHECK(candidates({"train", "--resume", "--allow-change="}).size() == keys.size());
}

TEST_CASE("run directories are offered where a run is expected, and other files never") {
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

TEST_CASE("every shell has a script that calls the program") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    CHECK(contains(completion_script(shell), " complete "));
    CHECK(contains(completion_script(shell), "_tapestry"));
  }
}

}  // namespace
}  // namespace tapestry
