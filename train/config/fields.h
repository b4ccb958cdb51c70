#pragma once

#include <algorithm>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "train/config/config.h"
#include "train/config/domains.h"

namespace tapestry {

/// Which choice of another key gives a key its meaning, such as `momentum`, which only sgd uses.
struct Use {
  std::string selector;              ///< `optimizer.kind`; empty if the key is always used
  std::vector<std::string> choices;  ///< names of the choices that use it
  std::string current;               ///< what is chosen

  bool in_use() const {
    return selector.empty() || std::find(choices.begin(), choices.end(), current) != choices.end();
  }
};

/// One key of the config, its value and its domain apart.
struct Field {
  std::string_view section;
  std::string_view key;
  std::string_view meaning;
  Use use;

  std::string path() const { return std::string(section) + "." + std::string(key); }
};

template <class Options, class Plain>
concept MaybeConst = std::same_as<std::remove_const_t<Options>, Plain>;

/// Calls f(field, value, domain) for every key of `config` in the order of the file. This is the
/// only list of keys: parsing, range checks, dumping, comparing, help and configs/README.md follow
/// from it.
template <MaybeConst<Config> C, class F>
void for_each_field(C& config, F&& f);

namespace config_fields {

template <class E>
Use only_for(std::string selector, E current, std::initializer_list<E> choices) {
  Use use{std::move(selector), {}, std::string(choice_name(current))};
  for (const E choice : choices) use.choices.emplace_back(choice_name(choice));
  return use;
}

/// The section at hand, and what to call for each of its fields.
template <class F>
struct Visitor {
  F& f;
  std::string_view section;

  template <class T, class Domain>
  void operator()(std::string_view key, T& value, const Domain& domain, std::string_view meaning,
                  Use use = {}) {
    f(Field{section, key, meaning, std::move(use)}, value, domain);
  }
};

inline constexpr std::uint64_t kMostExamples = 1'000'000'000;
inline constexpr std::uint64_t kMostSteps = 1'000'000'000'000;
inline constexpr std::uint64_t kLongestSequence = 65536;

template <class V, MaybeConst<DataOptions> O>
void visit(V field, O& o) {
  using enum TaskKind;
  const Use symbols = only_for("data.task", o.task, {copy, reverse, sort});
  const Use generated = only_for(
      "data.task", o.task, {copy, reverse, sort, toy_translation, toy_sentences, toy_agreement});
  const Use held_out =
      only_for("data.task", o.task,
               {copy, reverse, sort, toy_translation, toy_sentences, toy_agreement, images});
  const Use pairs = only_for("data.task", o.task, {parallel_text});
  const Use file = only_for("data.task", o.task, {text, labelled_text});
  const Use windows = only_for("data.task", o.task, {text});
  const Use words = only_for("data.task", o.task, {parallel_text, text, labelled_text});
  const Use table = only_for("data.task", o.task, {images});

  field("task", o.task, Choice<TaskKind>(),
        "what is learnt, and whether it is generated or read from files");
  field("num_symbols", o.num_symbols, between(2, 1'000'000), "different symbols", symbols);
  field("min_length", o.min_length, between(1, kLongestSequence), "shortest sequence, in symbols",
        symbols);
  field("max_length", o.max_length, between(1, kLongestSequence), "longest sequence, in symbols",
        symbols);
  field("train_size", o.train_size, between(1, kMostExamples), "sequences to train on", generated);
  field("validation_size", o.validation_size, between(0, kMostExamples),
        "different held-out sequences to validate on; images: held out of `train_images`, of each "
        "class its share, if there is no file",
        held_out);
  field("test_size", o.test_size, between(0, kMostExamples), "the same for the final test",
        held_out);
  field("seed", o.seed, at_least(0), "of the generated sequences", generated);
  field("train_source", o.train_source, FilePath(), "text to train on, one sentence a line", pairs);
  field("train_target", o.train_target, FilePath(), "its translation, line by line", pairs);
  field("validation_source", o.validation_source, FilePath(), "held-out text to validate on",
        pairs);
  field("validation_target", o.validation_target, FilePath(), "its translation", pairs);
  field("test_source", o.test_source, FilePath(), "held-out text for the final test; may be empty",
        pairs);
  field("test_target", o.test_target, FilePath(), "its translation; may be empty", pairs);
  field("lowercase", o.lowercase, Flag(), "lowers the case of all text", words);
  field("min_frequency", o.min_frequency, at_least(1),
        "words seen less often in training become `<unk>`", words);
  field("max_vocabulary", o.max_vocabulary, at_least(0),
        "most frequent words to keep on each side; 0 keeps all", words);
  field("shared_vocabulary", o.shared_vocabulary, Flag(), "one vocabulary for both sides", pairs);
  field("max_tokens", o.max_tokens, at_least(0),
        "training pairs with a longer side, in tokens, are skipped; 0 keeps all", pairs);
  field("train_text", o.train_text, FilePath(),
        "text to learn; labelled_text: a label, a tab and a sentence a line", file);
  field("validation_text", o.validation_text, FilePath(), "held-out text; may be empty", file);
  field("test_text", o.test_text, FilePath(), "held-out text for the final test; may be empty",
        file);
  field("unit", o.unit, Choice<TextUnit>(), "what a token is", windows);
  field("context", o.context, between(1, kLongestSequence),
        "tokens of a window, which are read at once", windows);
  field("validation_share", o.validation_share, from_0_below_1(),
        "end of `train_text` that is held out, if `validation_text` is empty", windows);
  field(
      "train_images", o.train_images, FilePath(),
      "CSV file, with the pixels of an image and its label a line, or HDF5 file (.h5, .hdf5) with "
      "the datasets `images` and `labels`",
      table);
  field("validation_images", o.validation_images, FilePath(), "held-out images; may be empty",
        table);
  field("test_images", o.test_images, FilePath(), "images for the final test; may be empty", table);
  field("image_height", o.image_height, between(1, 4096), "pixels from top to bottom", table);
  field("image_width", o.image_width, between(1, 4096), "pixels from left to right", table);
  field("image_channels", o.image_channels, between(1, 64), "values of a pixel", table);
  field("pixel_maximum", o.pixel_maximum, positive(), "the value of a pixel that becomes 1", table);
}

template <class V, MaybeConst<TransformerOptions> O>
void visit(V field, O& o) {
  using enum ModelKind;
  const Use encoding = only_for("model.kind", o.kind,
                                {seq2seq, masked_language_model, classifier, vision_transformer});
  const Use decoding = only_for("model.kind", o.kind, {seq2seq, language_model});
  const Use scoring_tokens =
      only_for("model.kind", o.kind, {seq2seq, language_model, masked_language_model});
  const Use classifying = only_for("model.kind", o.kind, {classifier, vision_transformer});
  const Use seeing = only_for("model.kind", o.kind, {vision_transformer});
  const Use with_heads = only_for("model.attention", o.attention, {AttentionKind::multi_head});

  field("kind", o.kind, Choice<ModelKind>(), "what the model is for");
  field("d_model", o.d_model, between(1, 65536),
        "width of every token vector; a multiple of `num_heads` where `d_head` is 0");
  field("num_heads", o.num_heads, between(1, 1024), "attention heads");
  field("attention", o.attention, Choice<AttentionKind>(),
        "heads with projections of their own, or weights softmax(X Xᵀ) and outputs weights·X with "
        "no parameters at all");
  field("score", o.score, Choice<AttentionScore>(),
        "how well a query and a key fit: `q·k / sqrt(d)`, `q·k`, `w·tanh(q + k)` or `k·W q`");
  field("d_head", o.d_head, between(0, 65536), "width of a head; 0: `d_model` / `num_heads`",
        with_heads);
  field("window", o.window, between(0, kLongestSequence),
        "farthest position that self-attention sees, on either side; 0: it sees all");
  field("num_encoder_layers", o.num_encoder_layers, between(1, 1024), "layers that read", encoding);
  field("num_decoder_layers", o.num_decoder_layers, between(1, 1024), "layers that write",
        decoding);
  field("d_ff", o.d_ff, between(1, 1'000'000), "width inside a feed-forward block");
  const NumberOrWord rate_or_dropout{from_0_below_1(), "dropout"};
  field("dropout", o.dropout, from_0_below_1(),
        "rate at which embeddings, attention weights, activations and residuals are zeroed");
  field("embedding_dropout", o.embedding_dropout, rate_or_dropout,
        "the rate for token vectors with their positions; `dropout`: as `dropout` says");
  field("attention_dropout", o.attention_dropout, rate_or_dropout,
        "the rate for attention weights; `dropout`: as `dropout` says");
  field("activation_dropout", o.activation_dropout, rate_or_dropout,
        "the rate inside a feed-forward block; `dropout`: as `dropout` says");
  field("residual_dropout", o.residual_dropout, rate_or_dropout,
        "the rate for what a sublayer adds to its input; `dropout`: as `dropout` says");
  field("stochastic_depth", o.stochastic_depth, from_0_below_1(),
        "rate at which the last layer's sublayers are left out, sentence by sentence; it grows "
        "linearly from 0 before the first layer");
  field("skip_scale", o.skip_scale, not_negative(),
        "factor of the input where a sublayer adds to it");
  field("sublayer_scale", o.sublayer_scale, not_negative(), "factor of what a sublayer adds");
  field("norm", o.norm, Choice<NormPlacement>(),
        "a norm before each sublayer, or after its residual");
  field("normalization", o.normalization, Choice<Normalization>(),
        "by each token's mean and deviation, by its root mean square, or by the batch's moments of "
        "each feature");
  field("activation", o.activation, Choice<Activation>(),
        "inside a feed-forward block; swiglu and geglu have gates, and half as many weights again");
  field("positions", o.positions, Choice<PositionKind>(), "how a token knows its place");
  field("max_length", o.max_length, between(2, kLongestSequence),
        "longest sequence in tokens, `<bos>` and `<eos>` included");
  field("tie_embeddings", o.tie_embeddings, Choice<TiedEmbeddings>(),
        "embeddings that share the matrix of the output projection", scoring_tokens);
  field("pooling", o.pooling, Choice<PoolingKind>(), "what stands for the whole sequence",
        classifying);
  field("patch_size", o.patch_size, between(1, 4096), "pixels on a side of a patch", seeing);
  field("layer_norm_epsilon", o.layer_norm_epsilon, positive(),
        "added to the variance, or mean square, in a norm of any kind");
}

template <class V, MaybeConst<OptimizerOptions> O>
void visit(V field, O& o) {
  using enum OptimizerKind;
  const Use with_momentum = only_for("optimizer.kind", o.kind, {sgd});
  const Use adaptive = only_for("optimizer.kind", o.kind, {adam, adamw});

  field("kind", o.kind, Choice<OptimizerKind>(), "optimizer algorithm");
  field("momentum", o.momentum, from_0_below_1(), "share of the last update that is kept",
        with_momentum);
  field("beta1", o.beta1, from_0_below_1(), "decay of the first moment per step", adaptive);
  field("beta2", o.beta2, from_0_below_1(), "decay of the second moment per step", adaptive);
  field("epsilon", o.epsilon, positive(), "added to the root of the second moment", adaptive);
  field("weight_decay", o.weight_decay, not_negative(),
        "pull towards 0; adamw decouples it and spares biases and norms");
}

template <class V, MaybeConst<ScheduleOptions> O>
void visit(V field, O& o) {
  using enum ScheduleKind;
  const Use warming = only_for("schedule.kind", o.kind, {linear_warmup, inverse_sqrt, cosine});
  const Use decaying = only_for("schedule.kind", o.kind, {cosine});

  field("kind", o.kind, Choice<ScheduleKind>(), "how the learning rate moves with the step");
  field("learning_rate", o.learning_rate, positive(), "the peak");
  field("warmup_steps", o.warmup_steps, between(0, kMostSteps),
        "steps of linear growth from 0 to the peak", warming);
  field("decay_steps", o.decay_steps, between(0, kMostSteps),
        "step at which the minimum is reached; 0 means `train.steps`", decaying);
  field("min_learning_rate", o.min_learning_rate, not_negative(),
        "the floor; at most `learning_rate`", decaying);
}

template <class V, MaybeConst<TrainOptions> O>
void visit(V field, O& o, ModelKind kind) {
  const Use translating = only_for("model.kind", kind, {ModelKind::seq2seq});
  field("seed", o.seed, at_least(0), "of initial weights, dropout and shuffling");
  field("steps", o.steps, between(1, kMostSteps), "steps of the optimiser");
  field("batch_size", o.batch_size, between(1, 1'000'000), "sentences per batch");
  field("accumulate", o.accumulate, between(1, 1'000'000), "batches per step");
  field("label_smoothing", o.label_smoothing, from_0_below_1(),
        "probability that is spread over the whole vocabulary");
  field("threads", o.threads, between(0, 1024), "threads; 0 takes all cores");
  field("log_every", o.log_every, at_least(1), "steps between two lines of the log");
  field("validate_every", o.validate_every, at_least(1), "steps between two validations");
  field("save_every", o.save_every, at_least(1), "steps between two checkpoints");
  field("keep_last", o.keep_last, at_least(2), "latest checkpoints to keep");
  field("patience", o.patience, at_least(0),
        "validations without a new best after which the run ends; 0: it goes on to `steps`");
  field("max_time", o.max_time, Duration(),
        "time after which this process saves and ends with exit code 124; 0s: no limit");
  field("on_nan", o.on_nan, Choice<OnNan>(),
        "when loss or gradient is NaN or infinite: stop; skip the step; or rollback to the newest "
        "checkpoint and go on with the data behind the batch");
  field("max_nan_steps", o.max_nan_steps, at_least(1),
        "such steps in a row after which the run stops all the same");
  field("divergence_window", o.divergence_window, at_least(0),
        "steps of which the mean loss is watched: the run stops when three windows in a row have "
        "lost half of all progress; 0: not watched");
  field("max_decode_length", o.max_decode_length, between(0, kLongestSequence),
        "longest output of greedy decoding, in tokens; 0: source length + 50, as far as "
        "`model.max_length` allows",
        translating);
  field("exact_match_sequences", o.exact_match_sequences, at_least(0),
        "held-out sequences decoded per validation for the exact-match score; 0 for none",
        translating);
  field("detect_anomaly", o.detect_anomaly, Flag(),
        "looks for NaN and infinity after every operation and stops at the first, which it names; "
        "slow");
  field("initialize_from", o.initialize_from, FilePath(),
        "run or checkpoint whose parameters of the same name and shape a new run begins with, but "
        "for the head of other classes, and whose words it keeps; empty: none");
  field("run_dir", o.run_dir, Text(),
        "folder of the run, from the working folder; empty: `runs/` and the name of the config");
  field("dtype", o.dtype, Choice<DType>(), "precision of all numbers");
}

}  // namespace config_fields

template <MaybeConst<Config> C, class F>
void for_each_field(C& config, F&& f) {
  using config_fields::visit;
  using Visitor = config_fields::Visitor<std::remove_reference_t<F>>;
  visit(Visitor{f, "data"}, config.data);
  visit(Visitor{f, "model"}, config.model);
  visit(Visitor{f, "optimizer"}, config.optimizer);
  Visitor{f, "optimizer"}("clip_norm", config.train.clip_norm, not_negative(),
                          "largest global norm of the gradients; 0 does not clip");
  visit(Visitor{f, "schedule"}, config.schedule);
  visit(Visitor{f, "train"}, config.train, config.model.kind);
}

}  // namespace tapestry
