#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <vector>

#include "autograd/kernels/parallel.h"
#include "data/vocabulary.h"
#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/commands/open_run.h"
#include "train/commands/require_kind.h"
#include "train/exit_code.h"
#include "train/system/standard_output.h"

namespace tapestry {
namespace {

/// What a text begins with if the user does not say: a new line or a new sentence.
std::vector<std::int32_t> beginning(const TextCodec& codec) {
  const std::int32_t newline = codec.target_vocabulary().id(newline_token);
  return {newline == unk_id ? bos_id : newline};
}

}  // namespace

int generate_command(const GenerateArguments& arguments) {
  const TrainedModel trained = load_model(open_run(arguments.run).snapshot);
  require_kind(trained, {ModelKind::language_model}, "generate");
  std::vector<std::int32_t> prompt = beginning(trained.codec);
  const auto given = trained.codec.encode_target(arguments.prompt);
  prompt.insert(prompt.end(), given.begin(), given.end());
  SamplingOptions sampling = arguments.sampling;
  // Positions beyond those of a stretch have learnt nothing.
  if (trained.config.data.task == TaskKind::text) sampling.window = trained.config.data.context;
  fmt::print("{}", arguments.prompt);
  std::vector<std::int32_t> line = given;
  std::string printed = trained.codec.decode_target(line);
  generate(trained.model->as<LanguageModel>(), prompt, arguments.tokens, sampling,
           [&](std::int32_t token) {
             line.push_back(token);
             const std::string text = trained.codec.decode_target(line);
             if (text.size() > printed.size()) fmt::print("{}", text.substr(printed.size()));
             flush_standard_output();
             const bool ended = text.ends_with('\n');
             if (ended) line.clear();
             printed = ended ? "" : text;
           });
  fmt::print("\n");
  return static_cast<int>(ExitCode::done);
}

}  // namespace tapestry
