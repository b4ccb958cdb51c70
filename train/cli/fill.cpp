#include <memory>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/cli/answer_lines.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/exit_code.h"
#include "train/fill_in.h"

namespace tapestry {
namespace {

int answer_standard_input(const std::string& run) {
  const TrainedModel trained = load_model(open_run(run).snapshot);
  require_kind(trained, {ModelKind::masked_language_model}, "fill");
  const auto answer = [&](const std::vector<Example>& examples) {
    std::vector<std::string> lines;
    for (const Example& example : examples) {
      lines.push_back(trained.codec.decode_target(
          fill_in(*trained.model, trained.codec.target_vocabulary(), example.target)));
    }
    return lines;
  };
  answer_lines(
      {.hint = sentences_hint,
       .read = [&](const std::string& line, std::size_t,
                   const std::string& place) { return read_sentence(line, place, trained); },
       .answer = answer});
  return static_cast<int>(ExitCode::done);
}

Action define(CLI::App& app) {
  const auto run = std::make_shared<std::string>();
  add_run(app, *run);
  app.footer(
      "A line out for each line in, by a masked language model. Every token that is not in its "
      "vocabulary is\npredicted: write _ for a blank.\n"
      "Example:\n  echo \"le chat _ dort\" | tapestry fill runs/toy_masked");
  return [run] { return answer_standard_input(*run); };
}

}  // namespace

const Command fill_command{
    .name = "fill",
    .purpose = "Predict the missing words of each sentence on standard input",
    .define = define,
    .answers_lines = true};

}  // namespace tapestry
