#include "train/cli/completion.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include "train/cli/command.h"
#include "train/config/config.h"

namespace tapestry {
namespace {

using Words = std::vector<std::string>;

Words candidates(const Words& words) {
  Words result;
  for (const Candidate& candidate : complete(words).candidates) result.push_back(candidate.word);
  return result;
}

bool offers(const Words& words, const std::string& word) {
  return std::ranges::count(candidates(words), word) == 1;
}

TEST_CASE("completion of the first word offers commands with their descriptions") {
  const Completions completions = complete({""});
  REQUIRE(completions.candidates.size() == all_commands().size());
  for (std::size_t i = 0; i < all_commands().size(); ++i) {
    CHECK(completions.candidates[i] ==
          Candidate{all_commands()[i].name, all_commands()[i].purpose});
  }
  CHECK(completions.paths == PathPlace::nowhere);
  CHECK(complete({}).candidates == completions.candidates);
  CHECK(candidates({"-"}) == Words{"--help", "--version"});
  CHECK(candidates({"trian", ""}).empty());
}

TEST_CASE("completion of options offers those of the command with their descriptions") {
  CHECK(candidates({"train", "--"}) == Words{"--help", "--resume", "--allow-change", "--fresh",
                                             "--dry-run", "--profile", "--json", "--quiet",
                                             "--until"});
  CHECK(complete({"train", "-"}).candidates[1] ==
        Candidate{"--resume", "Resume the run from its newest checkpoint"});
  CHECK(candidates({"inspect", "--"}) == Words{"--help", "--json"});
  CHECK(candidates({"replay", "--"}) == Words{"--help", "--step", "--output", "--no-activations"});
  CHECK(candidates({"plan", "--"}) == Words{"--help", "--processes", "--bandwidth", "--latency",
                                            "--compute", "--scaling", "--seconds", "--json"});
  CHECK(offers({"help", ""}, "evaluate"));
  CHECK(complete({"train", "--"}).paths == PathPlace::nowhere);
}

TEST_CASE("an option is offered once unless it repeats, and not beside one that excludes it") {
  CHECK(candidates({"train", "--profile", "--"}) ==
        Words{"--help", "--resume", "--allow-change", "--fresh", "--dry-run", "--json", "--until"});
  CHECK(candidates({"train", "--resume", "--"}) == Words{"--help", "--allow-change", "--dry-run",
                                                         "--profile", "--json", "--quiet",
                                                         "--until"});
  CHECK(offers({"train", "--allow-change", "model.dropout", "--"}, "--allow-change"));
  CHECK(!offers({"attention", "runs/a", "--text", "a b", "--"}, "--example"));
  CHECK(!offers({"attention", "runs/a", "--text=a b", "--"}, "--example"));
}

TEST_CASE("an option that needs a value takes the next word") {
  CHECK(candidates({"generate", "--tokens", ""}).empty());
  CHECK(complete({"generate", "--tokens", ""}).paths == PathPlace::nowhere);
  CHECK(complete({"generate", "--tokens", "5", ""}).paths == PathPlace::word);
  CHECK(complete({"generate", "--tokens=5", ""}).paths == PathPlace::word);
  CHECK(complete({"attention", "--json", ""}).paths == PathPlace::word);
}

TEST_CASE("files with translations and references may have any extension") {
  for (const Words& words :
       {Words{"bleu", ""}, Words{"bleu", "out.de", "--reference", ""}, Words{"compare", ""},
        Words{"score", "runs/a", ""}, Words{"score", "runs/a", "in", ""},
        Words{"translate", "runs/a", "--forbid", ""}, Words{"translate", "runs/a", "--allow", ""},
        Words{"compare", "ref", ""}, Words{"compare", "ref", "a", ""},
        Words{"compare", "ref", "a", "b", ""}}) {
    CHECK(complete(words).paths == PathPlace::word);
    CHECK(complete(words).extensions.empty());
  }
  CHECK(offers({"bleu", "--tokenize", ""}, "intl"));
}

TEST_CASE("configs, runs and models are paths with their extensions") {
  const auto extensions = [](const Words& words) {
    const Completions completions = complete(words);
    CHECK(completions.paths == PathPlace::word);
    CHECK(completions.candidates.empty());
    return completions.extensions;
  };
  CHECK(extensions({"train", ""}) == Words{"yaml", "yml"});
  CHECK(extensions({"train", "--resume", "ru"}) == Words{"yaml", "yml"});
  CHECK(extensions({"evaluate", ""}) == Words{"h5"});
  CHECK(extensions({"translate", ""}) == Words{"h5"});
  CHECK(extensions({"check", ""}) == Words{"yaml", "yml", "h5"});
  CHECK(complete({"translate", "runs/a", ""}).paths == PathPlace::nowhere);
  CHECK(complete({"generate", "runs/a", ""}).paths == PathPlace::nowhere);
}

TEST_CASE("after a config, all keys are offered, with their meanings") {
  const Completions completions = complete({"train", "copy.yaml", "model.dropout=0.1", ""});
  const auto keys = config_keys();
  REQUIRE(completions.candidates.size() == keys.size());
  for (std::size_t i = 0; i < keys.size(); ++i) {
    CHECK(completions.candidates[i] == Candidate{keys[i].path() + "=", keys[i].meaning});
  }
  CHECK(offers({"gradcheck", "copy.yaml", ""}, "model.d_model="));
  CHECK(offers({"train", "--", "copy.yaml", ""}, "model.d_model="));
  CHECK(candidates({"train", "--", "copy.yaml", "--"}) == candidates({"train", "copy.yaml", ""}));
}

TEST_CASE("after a trained model, only keys of data files and of decoding are offered") {
  const Words keys = candidates({"evaluate", "runs/a", ""});
  CHECK(std::ranges::count(keys, "data.test_text=") == 1);
  CHECK(std::ranges::count(keys, "decoding.beam_size=") == 1);
  CHECK(std::ranges::all_of(keys, [](const auto& key) {
    return key.starts_with("data.") || key.starts_with("decoding.");
  }));
  CHECK(std::ranges::count(keys, "data.task=") == 0);
  CHECK(candidates({"evaluate", "runs/a", "data.task="}).empty());
}

TEST_CASE("values of a key are offered after =") {
  const auto values = [](const std::string& word) {
    CHECK(complete({"train", "copy.yaml", word}).paths == PathPlace::nowhere);
    return candidates({"train", "copy.yaml", word});
  };
  CHECK(values("model.norm=") == Words{"model.norm=pre", "model.norm=post"});
  CHECK(values("model.norm=x") == Words{"model.norm=pre", "model.norm=post"});
  CHECK(values("data.lowercase=") == Words{"data.lowercase=true", "data.lowercase=false"});
  CHECK(values("model.embedding_dropout=") == Words{"model.embedding_dropout=dropout"});
  CHECK(std::ranges::count(values("model.kind="), "model.kind=tagger") == 1);
  CHECK(values("model.d_model=").empty());
  CHECK(values("train.run_dir=").empty());
  CHECK(values("model.nor=").empty());
}

TEST_CASE("the value of a data file is completed as a path") {
  for (const char* word : {"data.train_text=", "data.train_text=a/b"}) {
    const Completions completions = complete({"train", "copy.yaml", word});
    CHECK(completions.paths == PathPlace::after_equals);
    CHECK(completions.candidates.empty());
    CHECK(completions.extensions.empty());
  }
}

TEST_CASE("keys that may change are offered after --allow-change") {
  const Words keys = candidates({"train", "--resume", "--allow-change", ""});
  CHECK(std::ranges::count(keys, "model.dropout") == 1);
  CHECK(std::ranges::count(keys, "data.train_text") == 1);
  CHECK(std::ranges::count(keys, "model.d_model") == 0);
  CHECK(std::ranges::count(keys, "train.steps") == 0);
  const Words attached = candidates({"train", "--resume", "--allow-change="});
  CHECK(attached.size() == keys.size());
  CHECK(std::ranges::count(attached, "--allow-change=model.dropout") == 1);
  CHECK(candidates({"train", "--unknown="}).empty());
}

TEST_CASE("arguments with choices are completed") {
  CHECK(candidates({"completion", ""}) == Words{"bash", "zsh", "fish"});
}

TEST_CASE("output for a shell has a tab before each description, and the paths last") {
  CHECK(to_lines({.candidates = {{"a", "first"}, {"b", ""}}}) == "a\tfirst\nb\t\n");
  CHECK(to_lines({.paths = PathPlace::word, .extensions = {"yaml", "yml"}}) == ":paths yaml yml\n");
  CHECK(to_lines({.paths = PathPlace::after_equals}) == ":value-paths \n");
}

TEST_CASE("every shell has a completion script") {
  for (const std::string& shell : completion_shells) {
    CHECK(completion_script(shell).find("completion " + shell + " --") != std::string::npos);
  }
  CHECK_THROWS_AS(completion_script("tcsh"), std::logic_error);
}

}  // namespace
}  // namespace tapestry
