#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "autograd/gradcheck.h"
#include "autograd/ops/mul.h"
#include "data/load_corpus.h"
#include "data/vocabulary.h"
#include "train/batch_tensors.h"
#include "train/commands/commands.h"
#include "train/config.h"
#include "train/exit_code.h"
#include "train/sentence_limit.h"
#include "train/seq2seq_model.h"

namespace tapestry {
namespace {

constexpr std::size_t sentences = 3;
constexpr GradcheckOptions options{.max_coordinates = 4};

/// A small real batch.
Batch first_batch(const ParallelCorpus& corpus) {
  std::vector<std::size_t> indices(std::min(sentences, corpus.train.size()));
  std::iota(indices.begin(), indices.end(), std::size_t{0});
  return make_batch(corpus.train, indices);
}

/// (rows, target length, 1): 1 for a token, 0 for padding. What the model says behind the end of a
/// sentence means nothing, and the embedding of padding, which it depends on, has no gradient.
Tensor token_weights(const Batch& batch) {
  Tensor weights = Tensor::zeros({batch.rows, batch.target_length, 1}, DType::float64);
  const auto values = weights.mutable_values<double>();
  for (std::size_t i = 0; i < batch.labels.size(); ++i) {
    if (batch.labels[i] != pad_id) values[i] = 1.0;
  }
  return weights;
}

void print_row(const GradcheckRow& row) {
  fmt::print("{:<52} {:<14} {:>10.3e} {:>10.2e}  {}\n", row.name, to_string(row.shape),
             row.gradient_norm, row.worst_relative_error, name(row.verdict));
}

}  // namespace

int gradcheck_command(const GradcheckArguments& arguments) {
  const Config config = load_config(arguments.config, arguments.overrides);
  const ParallelCorpus corpus = load_corpus(config.data, ".");
  require_fitting_sentences(corpus, config.model.max_length);
  const Seq2SeqModel model(
      config.model,
      {.source = corpus.source_vocabulary.size(), .target = corpus.target_vocabulary.size()},
      DType::float64, config.train.seed);
  const Batch batch = first_batch(corpus);
  const TokenBatch source = source_tokens(batch);
  const TokenBatch target = decoder_tokens(batch);
  const Tensor weights = token_weights(batch);
  const RandomStream random = RandomStream(config.train.seed).named("gradcheck");

  const GradcheckReport report =
      gradcheck([&] { return mul(model.transformer(source, target, random), weights); },
                model.parameters.list(), options);
  fmt::print("{:<52} {:<14} {:>10} {:>10}\n", "parameter", "shape", "gradient", "error");
  for (const GradcheckRow& row : report.rows) print_row(row);
  const std::size_t wrong = report.count(GradcheckVerdict::wrong);
  fmt::print("{} parameters: {} agree, {} wrong, {} cannot be told; worst relative error {:.2e}\n",
             report.rows.size(), report.count(GradcheckVerdict::agrees), wrong,
             report.count(GradcheckVerdict::cannot_tell), report.worst_relative_error());
  return static_cast<int>(wrong == 0 ? ExitCode::done : ExitCode::check_failed);
}

}  // namespace tapestry
