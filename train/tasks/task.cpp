#include "train/tasks/task.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <stdexcept>
#include <utility>

#include "data/corpora/bad_lines.h"
#include "data/io/error.h"
#include "train/error.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/evaluator.h"
#include "train/tasks/checked_network.h"

namespace tapestry {
namespace {

Tokens token_names(const std::vector<std::int32_t>& ids, const Vocabulary& vocabulary) {
  Tokens names;
  for (const std::int32_t id : ids) names.push_back(vocabulary.token(id));
  return names;
}

/// Removes the last `count` tokens of each sequence that has so many, but not its <eos>.
///
/// has_class  the target is a class, not tokens
Example without_last(Example example, std::size_t count, bool has_class) {
  const auto shorten = [count](std::vector<std::int32_t>& ids) {
    if (ids.size() <= count) return;
    const auto end = ids.back() == eos_id ? ids.end() - 1 : ids.end();
    ids.erase(end - static_cast<std::ptrdiff_t>(count), end);
  };
  shorten(example.source);
  if (!has_class) shorten(example.target);
  return example;
}

/// A part of a corpus, with its name in notes and in messages about generated examples.
struct Part {
  std::vector<Example> Corpus::*examples;
  ExampleLines Corpus::*lines;
  const char* name;
  const char* adjective;
};

constexpr std::array parts{
    Part{&Corpus::train, &Corpus::train_lines, "train", "training"},
    Part{&Corpus::validation, &Corpus::validation_lines, "validation", "validation"},
    Part{&Corpus::test, &Corpus::test_lines, "test", "test"}};

/// The error for an example with more tokens than the model has positions; nullopt if it has not.
std::optional<DataError> find_misfit(const Corpus& corpus, const Part& part, std::size_t index,
                                     const Config& config) {
  const Task& task = find_task(config);
  const Example& example = (corpus.*part.examples)[index];
  const std::size_t most = config.model.max_length;
  const std::size_t tokens = longest_side(example, task.layout());
  if (tokens <= most) return std::nullopt;
  const auto [noun, read, more_hint] = task.length_words();
  const ExampleLines& lines = corpus.*part.lines;
  const bool source_fits = task.layout().source_length(example) <= most;
  const std::string place =
      index < lines.lines.size()
          ? fmt::format("{}:{}", source_fits ? lines.target_file : lines.source_file,
                        lines.lines[index])
          : fmt::format("{} {} {}", part.adjective, noun, index + 1);
  return DataError(fmt::format("{}: found {} tokens {}, expected at most {} (model.max_length)",
                               place, tokens, read, most),
                   fmt::format("set model.max_length to {} or more{}", tokens, more_hint));
}

/// Removes the examples that do not fit the model, counted in the notes.
void skip_misfits(Corpus& corpus, const Part& part, const Config& config) {
  std::vector<Example>& examples = corpus.*part.examples;
  std::vector<std::size_t>& lines = (corpus.*part.lines).lines;
  const std::size_t all = examples.size();
  BadLines bad;
  std::size_t kept = 0;
  for (std::size_t i = 0; i < all; ++i) {
    if (const auto misfit = find_misfit(corpus, part, i, config)) {
      bad.add(*misfit);
      continue;
    }
    if (kept != i) examples[kept] = std::move(examples[i]);
    if (i < lines.size()) lines[kept] = lines[i];
    ++kept;
  }
  examples.resize(kept);
  lines.resize(std::min(lines.size(), kept));
  bad.finish(OnBadLine::skip, part.name, all, corpus);
}

bool is_custom(const Task& task) {
  const std::vector<std::string> kinds = custom_kinds();
  return std::ranges::find(kinds, task.kind().name) != kinds.end();
}

/// The network of a task of another program, which is checked.
std::unique_ptr<Network> custom_network(const Task& task, const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) {
  const std::string kind(task.kind().name);
  auto network = call_custom_code(kind, "make_network",
                                  [&] { return task.make_network(scope, config, sizes); });
  if (!network) {
    throw CustomModelError(
        fmt::format("custom model {}: make_network() returned null, expected a network", kind),
        "return std::make_unique<...>(...)");
  }
  return checked_network(std::move(network), {.kind = kind,
                                              .logits = sizes.target,
                                              .reads_source = task.reads_source(),
                                              .reads_images = task.reads_images(),
                                              .one_label_per_row = task.one_label_per_example()});
}

}  // namespace

std::string Task::describe_size(const Batch& batch) const {
  return fmt::format("{} x {} tokens", batch.rows, batch.target_length);
}

Scores Task::evaluate(const Model& model, const Config& config, const BatchRules& rules,
                      const Vocabulary&, const std::vector<Example>& examples, std::size_t) const {
  return score_labels(model, examples, config.train.batch_size, rules);
}

std::string Task::format_scores(const Scores& scores, const Config&) const {
  return fmt::format("loss {:.4f}  perplexity {:.3f}  tokens {:.2f} %", scores.loss,
                     scores.perplexity, 100 * scores.token_accuracy);
}

std::vector<ShownExample> Task::show(const TrainedModel&, const std::vector<Example>&) const {
  return {};
}

Example Task::read_text(std::string_view, const TextCodec&) const {
  throw std::logic_error(fmt::format("{}: the task reads no text", kind().name));
}

TokenLimit Task::token_limit(const Config& config) const {
  return {.tokens = config.model.max_length, .key = "model.max_length"};
}

const char* Task::input_hint() const {
  return "give it text, one sentence a line, such as `< FILE`";
}

std::optional<Example> Task::read_line(const std::string& line, std::size_t,
                                       const std::string& place,
                                       const TrainedModel& trained) const {
  Example example = read_text(line, trained.codec);
  if (example == Example{}) return std::nullopt;
  const std::size_t tokens = longest_side(example, layout());
  const TokenLimit most = token_limit(trained.config);
  if (tokens <= most.tokens) return example;
  throw LongLine(fmt::format("{}: found {} tokens {}, expected at most {} ({})", place, tokens,
                             length_words().tokens, most.tokens, most.key),
                 fmt::format("cut the line, or train a model with a larger {}", most.key),
                 without_last(std::move(example), tokens - most.tokens, one_label_per_example()));
}

std::vector<std::string> Task::answer(const TrainedModel&, const std::vector<Example>&) const {
  throw std::logic_error(fmt::format("{}: the task answers no lines", kind().name));
}

std::vector<std::string> Task::rank(const TrainedModel&, const std::vector<Example>&,
                                    std::size_t) const {
  throw std::logic_error(fmt::format("{}: the task ranks no answers", kind().name));
}

StackTokens Task::stack_tokens(const Batch& batch, const Config&, const TextCodec& codec) const {
  const Tokens target = token_names(batch.input, codec.target_vocabulary());
  if (!reads_source()) return {.encoder = target, .decoder = target};
  const Tokens source = token_names(batch.source, codec.source_vocabulary());
  return {.encoder = source, .decoder = one_label_per_example() ? source : target};
}

const Task& find_task(std::string_view model_kind) {
  for (const Task* task : all_tasks()) {
    if (task->kind().name == model_kind) return *task;
  }
  throw std::invalid_argument(fmt::format("model.kind: there is no kind {}", model_kind));
}

const Task& find_task(const Config& config) { return find_task(config.model_kind); }

NetworkSizes network_sizes(const Config& config, const Vocabulary& source,
                           const Vocabulary& target) {
  const bool classes = find_task(config).layout().labels_are_classes;
  return {.source = source.size(),
          .target = classes ? target.size() - first_word_id : target.size(),
          .image = {.height = config.data.image_height,
                    .width = config.data.image_width,
                    .channels = config.data.image_channels}};
}

NetworkSizes network_sizes(const Config& config, const Corpus& corpus) {
  return network_sizes(config, corpus.source_vocabulary, corpus.target_vocabulary);
}

MakeNetwork network_maker(const Config& config, const NetworkSizes& sizes) {
  return [config, sizes](const Scope& scope) {
    const Task& task = find_task(config);
    return is_custom(task) ? custom_network(task, scope, config, sizes)
                           : task.make_network(scope, config, sizes);
  };
}

void try_network(const Config& config, const Model& model, const Batch& batch) {
  if (!is_custom(find_task(config))) return;
  (*model.network)(network_input(batch, model.parameters.dtype()), Mode::inference());
}

BatchRules batch_rules(const Config& config, std::size_t vocabulary, std::uint64_t epoch) {
  return {.layout = find_task(config).layout(),
          .vocabulary = vocabulary,
          .seed = config.train.seed,
          .epoch = epoch};
}

Batch inference_batch(const Task& task, const Example& example) {
  return make_batch({example}, std::array<std::size_t, 1>{0}, {.layout = task.inference_layout()});
}

BatchLengths batch_lengths(const Config& config) {
  const bool mixed = config.model.normalization == Normalization::batch_norm;
  return mixed ? BatchLengths::mixed : BatchLengths::alike;
}

void require_fitting_examples(const Corpus& corpus, const Config& config) {
  for (const Part& part : parts) {
    BadLines bad;
    const std::size_t all = (corpus.*part.examples).size();
    for (std::size_t i = 0; i < all; ++i) {
      if (const auto misfit = find_misfit(corpus, part, i, config)) bad.add(*misfit);
    }
    bad.refuse_any(all);
  }
}

Corpus load_fitting_corpus(const Config& config, const FixedVocabularies* fixed) {
  Corpus corpus = load_corpus(config.data, fixed);
  if (config.data.on_bad_line == OnBadLine::stop) return corpus;
  const bool had_none = corpus.train.empty();  // of a trained model without its training files
  for (const Part& part : parts) skip_misfits(corpus, part, config);
  if (had_none || !corpus.train.empty()) return corpus;
  throw DataError(fmt::format("data: found no training {} that can be used, expected one or more",
                              find_task(config).example_noun(config)),
                  "see what is wrong with them, with data.on_bad_line=stop");
}

}  // namespace tapestry
