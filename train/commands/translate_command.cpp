#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "data/error.h"
#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/commands/open_run.h"
#include "train/error.h"
#include "train/exit_code.h"
#include "train/greedy_decoder.h"
#include "train/standard_output.h"

namespace tapestry {
namespace {

/// Lines that are translated side by side when nobody waits for each.
constexpr std::size_t lines_at_once = 64;

class Translator {
 public:
  explicit Translator(const TrainedModel& trained) : trained_(trained) {}

  /// Reads one line. The translations of those before it are printed if it cannot be used.
  void add(const std::string& line) {
    ++line_number_;
    try {
      sources_.push_back(encode(line));
    } catch (const DataError& error) {
      flush();
      throw DataError(fmt::format("standard input:{}: {}", line_number_, error.what()),
                      error.hint());
    }
  }

  std::size_t waiting() const { return sources_.size(); }

  /// Prints the translations of the lines added since the last call; an empty line for a blank one.
  void flush() {
    std::vector<Sentence> filled;
    for (const Sentence& source : sources_) {
      if (!source.empty()) filled.push_back(source);
    }
    const auto outputs =
        greedy_decode(trained_.model->transformer, filled, trained_.config.train.max_decode_length);
    auto output = outputs.begin();
    for (const Sentence& source : sources_) {
      fmt::print("{}\n", source.empty() ? "" : trained_.codec.decode_target(*output++));
    }
    flush_standard_output();
    sources_.clear();
  }

 private:
  Sentence encode(const std::string& line) const {
    Sentence source = trained_.codec.encode_source(line);
    const std::size_t limit = trained_.config.model.max_length;
    if (source.size() + 1 <= limit) return source;
    throw DataError(fmt::format("found {} tokens with <eos>, expected at most {} "
                                "(model.max_length)",
                                source.size() + 1, limit),
                    "cut the line, or train a model with a larger model.max_length");
  }

  const TrainedModel& trained_;
  std::vector<Sentence> sources_;
  std::size_t line_number_ = 0;
};

}  // namespace

int translate_command(const std::string& run) {
  const TrainedModel trained = load_model(open_run(run).snapshot);
  Translator translator(trained);
  const std::size_t at_once = isatty(STDIN_FILENO) != 0 ? 1 : lines_at_once;
  for (std::string line; std::getline(std::cin, line);) {
    translator.add(line);
    if (translator.waiting() == at_once) translator.flush();
  }
  translator.flush();
  if (std::ferror(stdin) != 0) {
    throw InputError("standard input: could not be read to its end",
                     "give it text, one sentence a line, such as `< FILE`");
  }
  return static_cast<int>(ExitCode::done);
}

}  // namespace tapestry
