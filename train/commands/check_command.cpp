#include <fmt/format.h>

#include <cstddef>

#include "autograd/kernels/parallel.h"
#include "train/commands/commands.h"
#include "train/commands/open_model.h"
#include "train/exit_code.h"
#include "train/objective.h"
#include "train/properties/properties.h"

namespace tapestry {
namespace {

constexpr std::size_t sentences = 6;
constexpr std::size_t sentences_for_threads = 32;

/// What keeps a model from telling all it reads apart.
std::string handicap_of(const TransformerOptions& model) {
  if (model.attention == AttentionKind::parameter_free) return "its attention cannot learn";
  if (model.positions == PositionKind::none) return "it knows no positions";
  if (model.positions == PositionKind::alibi && model.kind != ModelKind::language_model) {
    return "its encoder knows distances, not directions";
  }
  return "";
}

Subject subject_of(const ConfiguredModel& configured) {
  const TransformerOptions& model = configured.config.model;
  const Corpus& corpus = configured.corpus;
  const NetworkSizes sizes = network_sizes(configured.config, corpus);
  const bool predicts_tokens = objective_of(model.kind) != Objective::label;
  const bool reads_source = model.kind == ModelKind::seq2seq || model.kind == ModelKind::classifier;
  return {.copy = [&](DType dtype) { return examined(configured.with_dtype(dtype)); },
          .dtype = configured.config.train.dtype,
          .trained = configured.trained,
          .has_averages = !configured.model->parameters.buffers().empty(),
          .vocabulary = sizes.target,
          .handicap = handicap_of(model),
          .causal = configured.model->network->causal(),
          .max_source_length = reads_source ? model.max_length : 0,
          .max_target_length = predicts_tokens ? model.max_length : 1,
          .label_smoothing = configured.config.train.label_smoothing,
          .seed = configured.config.train.seed,
          .tied_width = model.tie_embeddings == TiedEmbeddings::none ? 0 : model.d_model,
          .batch = configured.first_batch(sentences),
          .large_batch = configured.first_batch(sentences_for_threads)};
}

const char* word_for(PropertyVerdict verdict) {
  switch (verdict) {
    case PropertyVerdict::holds:
      return "ok";
    case PropertyVerdict::fails:
      return "FAILED";
    case PropertyVerdict::not_asked:
      return "-";
  }
  return "";
}

}  // namespace

int check_command(const CheckArguments& arguments) {
  const ConfiguredModel configured = open_model(arguments.model, arguments.overrides);
  kernels::set_num_threads(configured.config.train.threads);
  const Subject subject = subject_of(configured);
  fmt::print("{}\n", configured.origin.in_words());
  std::size_t held = 0, asked = 0;
  for (const Property& property : properties()) {
    const auto [verdict, text] = examine(property, subject);
    fmt::print("{:<8}{:<13}{}\n", word_for(verdict), property.name, text);
    if (verdict == PropertyVerdict::holds) ++held;
    if (verdict != PropertyVerdict::not_asked) ++asked;
  }
  fmt::print("{} of {} properties hold\n", held, asked);
  return static_cast<int>(held == asked ? ExitCode::done : ExitCode::check_failed);
}

}  // namespace tapestry
