#include <fmt/format.h>

#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpora/images.h"
#include "data/io/error.h"
#include "data/io/escape.h"
#include "data/io/utf8.h"
#include "train/checkpoint.h"
#include "train/cli/answer_lines.h"
#include "train/cli/command.h"
#include "train/cli/open_model.h"
#include "train/error.h"
#include "train/evaluator.h"
#include "train/exit_code.h"

namespace tapestry {
namespace {

std::vector<std::string> likely_classes(const TrainedModel& trained,
                                        const std::vector<Example>& examples) {
  std::vector<std::string> lines;
  for (const LikelyClass& likely :
       most_likely_classes(*trained.model, examples, trained.config.train.batch_size)) {
    if (!std::isfinite(likely.probability)) {
      throw NumericError("standard input: the scores of a line are not finite numbers",
                         "are its pixels on the scale of the training images?");
    }
    lines.push_back(fmt::format("{}\t{:.4f}", trained.codec.decode_target(std::array{likely.id}),
                                likely.probability));
  }
  return lines;
}

/// A line of a labelled text would be read with its label as its first word.
void refuse_label(const std::string& line, const std::string& place, const Vocabulary& classes) {
  const std::size_t tab = line.find('\t');
  if (tab == line.npos || classes.id(line.substr(0, tab)) == unk_id) return;
  throw DataError(fmt::format("{}: found the label \"{}\" and a tab, expected a sentence alone",
                              place, excerpt(line.substr(0, tab))),
                  "leave the label out, with: cut -f2-");
}

std::optional<Example> read_image(const std::string& line, std::size_t number,
                                  const std::string& place, const TrainedModel& trained) {
  const bool heading = number == 1 && is_image_heading(line, trained.config.data);
  if (heading || is_blank(line)) return std::nullopt;
  return Example{.target = {first_word_id},
                 .pixels = parse_image(line, place, trained.config.data)};
}

int answer_standard_input(const std::string& run) {
  const TrainedModel trained = load_model(open_run(run).snapshot);
  require_kind(trained, {ModelKind::classifier, ModelKind::vision_transformer}, "classify");
  const bool images = trained.config.model.kind == ModelKind::vision_transformer;
  const auto read = [&](const std::string& line, std::size_t number, const std::string& place) {
    if (images) return read_image(line, number, place, trained);
    refuse_label(line, place, trained.codec.target_vocabulary());
    return read_sentence(line, place, trained);
  };
  answer_lines({.hint = images ? "give it a table, the pixels of an image a line, such as `< FILE`"
                               : sentences_hint,
                .read = read,
                .answer = [&](const auto& examples) { return likely_classes(trained, examples); }});
  return static_cast<int>(ExitCode::done);
}

Action define(CLI::App& app) {
  const auto run = std::make_shared<std::string>();
  add_run(app, *run);
  app.footer(
      "A line out for each line in: the class, a tab and its probability; an empty line for a "
      "blank one.\nAn image is a line of its pixels, separated by commas: row by row from the top "
      "left, the channels\nof a pixel side by side, on the scale of the training images, without a "
      "label; a heading gets an empty line.\n"
      "Examples:\n  tapestry classify runs/toy_agreement < sentences.txt\n"
      "  cut -d, -f1-64 digits.csv | tapestry classify runs/digits_vit");
  return [run] { return answer_standard_input(*run); };
}

}  // namespace

const Command classify_command{.name = "classify",
                               .purpose = "Classify each sentence or image on standard input",
                               .define = define,
                               .answers_lines = true};

}  // namespace tapestry
