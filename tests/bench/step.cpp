// SPDX-License-Identifier: BSD-3-Clause
#include "tests/bench/step.h"

#include "autograd/profiler.h"
#include "autograd/tape.h"
#include "data/text/vocabulary.h"

namespace tapestry::bench {
namespace {

constexpr std::uint64_t seed = 1;

/// Reproducible ids of words, which differ for each `what`.
Ids random_ids(const Problem& p, std::string_view what) {
  Ids ids = Ids::zeros({p.batch, p.length});
  const RandomStream random = RandomStream(seed).named(what);
  const auto words = static_cast<double>(p.vocabulary - first_word_id);
  std::uint64_t counter = 0;
  for (std::int32_t& id : ids) {
    id = first_word_id + static_cast<std::int32_t>(words * random.uniform(counter++));
  }
  return ids;
}

TokenBatch random_tokens(const Problem& p, std::string_view what) {
  const auto length = static_cast<std::int32_t>(p.length);
  return {.ids = random_ids(p, what), .lengths = std::vector<std::int32_t>(p.batch, length)};
}

TransformerOptions options(const Problem& p) {
  return {.d_model = p.d_model,
          .num_heads = p.num_heads,
          .num_encoder_layers = p.num_encoder_layers,
          .num_decoder_layers = p.num_decoder_layers,
          .d_ff = p.d_ff,
          .dropout = 0.1,
          .max_length = p.length};
}

std::variant<Transformer, LanguageModel> make_model(Parameters& parameters, const Problem& p) {
  if (!p.has_encoder()) return LanguageModel(Scope(parameters), options(p), p.vocabulary, pad_id);
  return Transformer(Scope(parameters), options(p), p.vocabulary, p.vocabulary, pad_id);
}

}  // namespace

Batch::Batch(const Problem& p)
    : source(p.has_encoder() ? random_tokens(p, "source") : TokenBatch{}),
      target(random_tokens(p, "target")),
      labels(random_ids(p, "labels")) {}

TrainingStep::TrainingStep(const Problem& problem)
    : parameters_(DType::float32, seed), model_(make_model(parameters_, problem)), batch_(problem) {
  parameters_.gather();
  optimizer_ = make_optimizer({}, parameters_.list());
}

void TrainingStep::run() {
  parameters_.zero_grad();
  Tape tape;
  tape.backward(loss(Mode::training(RandomStream(1).named("dropout").at(optimizer_->steps()))));
  double norm = 0.0;
  {
    const ProfileScope scope("gradient norm", Phase::other);
    norm = global_gradient_norm(parameters_.list());
  }
  const ProfileScope scope("optimizer step", Phase::other);
  optimizer_->step(/*learning_rate=*/1e-4, clip_factor(norm, /*max_norm=*/1.0));
}

double TrainingStep::evaluate() const { return loss(Mode::inference()).item(); }

Tensor TrainingStep::loss(const Mode& mode) const {
  constexpr CrossEntropyOptions options{.label_smoothing = 0.1};
  if (const auto* decoder_only = std::get_if<LanguageModel>(&model_)) {
    return decoder_only->loss(decoder_only->decode(batch_.target, mode), batch_.labels, options)
        .mean;
  }
  const auto& transformer = std::get<Transformer>(model_);
  const Tensor memory = transformer.encode(batch_.source, mode);
  return transformer
      .loss(transformer.decode(batch_.target, memory, batch_.source, mode), batch_.labels, options)
      .mean;
}

}  // namespace tapestry::bench
