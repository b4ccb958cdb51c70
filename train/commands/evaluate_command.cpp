#include <fmt/format.h>

#include <algorithm>

#include "data/load_corpus.h"
#include "train/checkpoint.h"
#include "train/commands/commands.h"
#include "train/commands/open_run.h"
#include "train/evaluator.h"
#include "train/exit_code.h"
#include "train/greedy_decoder.h"
#include "train/known_words.h"
#include "train/progress.h"
#include "train/sentence_limit.h"

namespace tapestry {
namespace {

void print_scores(const TrainedModel& trained, const char* which,
                  const std::vector<SentencePair>& pairs) {
  if (pairs.empty()) return;
  const Scores scores = evaluate(*trained.model, pairs,
                                 {.batch_size = trained.config.train.batch_size,
                                  .decoded_sentences = pairs.size(),
                                  .max_decode_length = trained.config.train.max_decode_length});
  fmt::print("{:<10}  {} held-out sentences: {}\n", which, scores.sentences, format_scores(scores));
}

void print_examples(const TrainedModel& trained, const std::vector<SentencePair>& pairs,
                    std::size_t count) {
  std::vector<Sentence> sources;
  for (std::size_t i = 0; i < std::min(count, pairs.size()); ++i)
    sources.push_back(pairs[i].source);
  const auto outputs = greedy_decode(trained.model->as<Transformer>(), sources,
                                     trained.config.train.max_decode_length);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    fmt::print("\ninput     {}\noutput    {}\n", trained.codec.decode_source(sources[i]),
               trained.codec.decode_target(outputs[i]));
    if (outputs[i] != pairs[i].target) {
      fmt::print("expected  {}\n", trained.codec.decode_target(pairs[i].target));
    }
  }
}

}  // namespace

int evaluate_command(const EvaluateArguments& arguments) {
  const auto [path, snapshot] = open_run(arguments.run);
  const TrainedModel trained = load_model(snapshot);
  const ParallelCorpus corpus = load_corpus(trained.config.data, ".");
  require_known_words(trained.codec, corpus, arguments.run);
  require_fitting_sentences(corpus, trained.config.model.max_length);
  fmt::print("{}, step {}\n", path.string(), trained.step);
  print_scores(trained, "validation", corpus.validation);
  print_scores(trained, "test", corpus.test);
  print_examples(trained, corpus.test.empty() ? corpus.validation : corpus.test,
                 arguments.examples);
  return static_cast<int>(ExitCode::done);
}

}  // namespace tapestry
