#include <memory>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/cli/answer_lines.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/exit_code.h"
#include "train/greedy_decoder.h"

namespace tapestry {
namespace {

std::vector<std::string> translations(const TrainedModel& trained,
                                      const std::vector<Example>& examples) {
  std::vector<Sentence> sources;
  for (const Example& example : examples) sources.push_back(example.source);
  std::vector<std::string> lines;
  for (const Sentence& target : greedy_decode(trained.model->as<Transformer>(), sources,
                                              trained.config.train.max_decode_length)) {
    lines.push_back(trained.codec.decode_target(target));
  }
  return lines;
}

int answer_standard_input(const std::string& run) {
  const TrainedModel trained = load_model(open_run(run).snapshot);
  require_kind(trained, {ModelKind::seq2seq}, "translate");
  answer_lines(
      {.hint = sentences_hint,
       .read = [&](const std::string& line, std::size_t,
                   const std::string& place) { return read_sentence(line, place, trained); },
       .answer = [&](const auto& examples) { return translations(trained, examples); }});
  return static_cast<int>(ExitCode::done);
}

Action define(CLI::App& app) {
  const auto run = std::make_shared<std::string>();
  add_run(app, *run);
  return [run] { return answer_standard_input(*run); };
}

}  // namespace

const Command translate_command{
    .name = "translate",
    .purpose = "Translate standard input to standard output, line by line",
    .define = define,
    .answers_lines = true};

}  // namespace tapestry
