#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/commands/answer_lines.h"
#include "train/commands/commands.h"
#include "train/commands/open_run.h"
#include "train/commands/require_kind.h"
#include "train/exit_code.h"
#include "train/fill_in.h"

namespace tapestry {

int fill_command(const std::string& run) {
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

}  // namespace tapestry
