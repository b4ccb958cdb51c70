// SPDX-License-Identifier: BSD-3-Clause
#include <fmt/format.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/train/program.h"

/// Tests that exactly following a hint corrects the mistake.
namespace tapestry {
namespace {

using test::contains;
using test::Outcome;
using test::TrainedWorkplace;

/// A command and its config, config.yaml.
struct HintAttempt {
  std::string config, command;
};

/// An attempt with a mistake.
struct HintMistake {
  std::string config, command;
  std::string wrong;  ///< the part of config or command that the hint replaces; may be empty
};

/// Replaces the first occurrence of `wrong` in the config or the command.
void replace_mistake(HintAttempt& attempt, const std::string& wrong, const std::string& right) {
  for (std::string* text : {&attempt.config, &attempt.command}) {
    const std::size_t at = text->find(wrong);
    if (at == text->npos) continue;
    text->replace(at, wrong.size(), right);
    return;
  }
  FAIL("the mistake is not in the attempt: ", wrong);
}

/// Changes an attempt exactly as the hint says.
HintAttempt follow(HintAttempt attempt, const std::string& wrong, const std::string& hint) {
  std::smatch match;
  const auto says = [&](const char* form) {
    return std::regex_match(hint, match, std::regex(form));
  };
  if (says("write `(\\w+): \\.\\.\\.` indented below `(\\w+):`")) {
    const std::string section = match[2].str() + ":\n", key = match[1].str() + ": ";
    const std::string value = wrong.substr(wrong.find(": ") + 2);
    replace_mistake(attempt, wrong, "");
    if (!contains("\n" + attempt.config, "\n" + section)) attempt.config += "\n" + section;
    replace_mistake(attempt, section, section + "  " + key + value);
  } else if (says("(?:did you mean|the nearest is|write) `([^`]+)=\\.\\.\\.`")) {
    replace_mistake(attempt, wrong.substr(0, wrong.find('=')), match[1]);
  } else if (says("(?:did you mean|the nearest is|write) `([^`]+)`(?:\\?|,? .*)?") ||
             says("did you mean ([^`]+)\\?") || says("list the values, such as (.*)")) {
    replace_mistake(attempt, wrong, match[1]);
  } else if (says("remove it: .*")) {
    replace_mistake(attempt, wrong, "");
  } else if (says("set `([a-z_.]+)` to ([\\w.]+)(?: or .*)?")) {
    // A key without a section belongs to the section of the last override, which has the mistake.
    const std::string last = attempt.command.substr(attempt.command.rfind(' ') + 1);
    const bool is_whole = contains(match[1].str(), ".");
    attempt.command += fmt::format(" {}{}={}", is_whole ? "" : last.substr(0, last.find('.') + 1),
                                   match[1].str(), match[2].str());
  } else if (says("put the text in single quotes: .*")) {
    replace_mistake(attempt, wrong, "'" + wrong.substr(1, wrong.size() - 2) + "'");
  } else if (says(".*, or replace the file with --force")) {
    attempt.command += " --force";
  } else {
    FAIL("no rule for the hint: ", hint);
  }
  return attempt;
}

const std::string small_model = "model:\n  d_model: 16\n  num_heads: 2\n  d_ff: 16\n";
const std::string small_sizes = "  max_length: 4\n  train_size: 20\n  validation_size: 2\n";
const std::string copy_config = "data:\n  task: copy\n" + small_sizes + small_model;
const std::string dry_run = "train config.yaml --dry-run ";
const std::string pair_files =
    " data.train_source=in.txt data.train_target=in.txt data.validation_source=in.txt"
    " data.validation_target=in.txt";

const std::vector<HintMistake> hinted_mistakes = {
    {copy_config, "sweep config.yaml model.dropout=0..0.3 train.steps=1", "model.dropout=0..0.3"},
    {copy_config, "translate runs/tiny --beam 2", "--beam"},
    {copy_config, "trian config.yaml --dry-run", "trian"},
    {copy_config, dry_run + "--lr 0.1", "--lr 0.1"},
    {copy_config, dry_run + "lr=0.1", "lr=0.1"},
    {copy_config, dry_run + "train.device=cuda", "train.device=cuda"},
    {copy_config, dry_run + "train.fp16=true", "train.fp16=true"},
    {copy_config, dry_run + "model.n_head=2", "n_head"},
    {copy_config, dry_run + "train.steps=1_000", "1_000"},
    {copy_config, dry_run + "train.max_time=90", "90"},
    {copy_config, dry_run + "optimizer.kind=lion", "lion"},
    {copy_config, dry_run + "train.best_metric=f1", "f1"},
    {copy_config, dry_run + "model.num_heads=3", ""},
    {copy_config, dry_run + "model.max_length=4", ""},
    {copy_config, dry_run + "schedule.kind=inverse_sqrt", ""},
    {copy_config, "average in.txt runs/tiny --last 1", ""},
    {small_model, dry_run + "data.task=translation" + pair_files, "translation"},
    {small_model, dry_run + "data.task=toy_sentences model.kind=bert", "bert"},
    {small_model, dry_run + "data.task=toy_sentences", ""},
    {"data:\n  task:copy\n" + small_sizes + small_model, dry_run, "task:copy"},
    {"data:\n  task:copy\n" + small_model, dry_run, "task:copy"},
    {copy_config + "train.steps: 10\n", dry_run, "train.steps: 10\n"},
    {copy_config + "train:\n  seed: 2\ntrain.steps: 10\n", dry_run, "train.steps: 10\n"},
    {copy_config + "train:\n  run_dir: \"C:\\Users\"\n", dry_run, "\"C:\\Users\""},
    {copy_config + "train:\n  run_dir: \"C:\\new\"\n  seed: 2\n", dry_run, "\"C:\\new\""},
};

TEST_CASE("a command succeeds after its hint has been followed exactly") {
  const TrainedWorkplace work;
  for (const auto& [config, command, wrong] : hinted_mistakes) {
    CAPTURE(config);
    CAPTURE(command);
    work.write("in.txt", "a b\nb a\n");
    work.write("config.yaml", config);
    const Outcome failed = work.run(command, "a b\n");
    CAPTURE(failed.err);
    CHECK(failed.code == 2);
    const std::size_t begin = failed.err.rfind("\nhint: ");
    REQUIRE(begin != std::string::npos);
    const std::string hint = failed.err.substr(begin + 7, failed.err.size() - begin - 8);
    const HintAttempt corrected = follow({config, command}, wrong, hint);
    work.write("config.yaml", corrected.config);
    const Outcome done = work.run(corrected.command, "a b\n");
    CAPTURE(corrected.config);
    CAPTURE(corrected.command);
    CAPTURE(done.err);
    CHECK(done.code == 0);
  }
}

}  // namespace
}  // namespace tapestry
