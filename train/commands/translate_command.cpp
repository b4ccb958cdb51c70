#include <fmt/format.h>
#include <unistd.h>

#include <string>
#include <utility>
#include <vector>

#include "data/error.h"
#include "data/line_reader.h"
#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/commands/open_run.h"
#include "train/commands/require_kind.h"
#include "train/exit_code.h"
#include "train/greedy_decoder.h"
#include "train/system/standard_output.h"

namespace tapestry {
namespace {

/// Lines that are translated side by side when nobody waits for each.
constexpr std::size_t lines_at_once = 64;

constexpr const char* input_name = "standard input";

class Translator {
 public:
  explicit Translator(const TrainedModel& trained) : trained_(trained) {}

  void add(const std::string& line, std::size_t number) {
    Sentence source = trained_.codec.encode_source(line);
    const std::size_t limit = trained_.config.model.max_length;
    if (source.size() + 1 > limit) {
      throw DataError(fmt::format("{}:{}: found {} tokens with <eos>, expected at most {} "
                                  "(model.max_length)",
                                  input_name, number, source.size() + 1, limit),
                      "cut the line, or train a model with a larger model.max_length");
    }
    sources_.push_back(std::move(source));
  }

  std::size_t waiting() const { return sources_.size(); }

  /// Prints the translations of the lines added since the last call; an empty line for a blank one.
  void flush() {
    std::vector<Sentence> filled;
    for (const Sentence& source : sources_) {
      if (!source.empty()) filled.push_back(source);
    }
    const auto outputs = greedy_decode(trained_.model->as<Transformer>(), filled,
                                       trained_.config.train.max_decode_length);
    auto output = outputs.begin();
    for (const Sentence& source : sources_) {
      fmt::print("{}\n", source.empty() ? "" : trained_.codec.decode_target(*output++));
    }
    flush_standard_output();
    sources_.clear();
  }

 private:
  const TrainedModel& trained_;
  std::vector<Sentence> sources_;
};

}  // namespace

int translate_command(const std::string& run) {
  const TrainedModel trained = load_model(open_run(run).snapshot);
  require_kind(trained, {ModelKind::seq2seq}, "translate");
  Translator translator(trained);
  LineReader lines(STDIN_FILENO, input_name, "give it text, one sentence a line, such as `< FILE`");
  const std::size_t at_once = isatty(STDIN_FILENO) != 0 ? 1 : lines_at_once;
  try {
    while (const auto line = lines.next()) {
      translator.add(*line, lines.line_number());
      if (translator.waiting() == at_once) translator.flush();
    }
  } catch (const DataError&) {
    translator.flush();  // the lines before the one that cannot be used
    throw;
  }
  translator.flush();
  return static_cast<int>(ExitCode::done);
}

}  // namespace tapestry
