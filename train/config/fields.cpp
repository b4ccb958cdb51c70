// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <variant>

#include "autograd/kernels/parallel.h"
#include "optim/optimizer.h"
#include "train/config/choices.h"
#include "train/config/kind.h"
#include "train/config/rules.h"

namespace tapestry {
namespace {

template <class E>
Condition only_for(std::string key, E current, std::initializer_list<E> values) {
  Condition condition{std::move(key), {}, std::string(choice_name(current))};
  for (const E value : values) condition.values.emplace_back(choice_name(value));
  return condition;
}

/// The optimizers that use an option in OptimizerDescription::options.
Condition optimizers_with(std::string_view option, OptimizerKind current) {
  Condition condition{"optimizer.kind", {}, std::string(choice_name(current))};
  for (const auto& [kind, name] : choices_of<OptimizerKind>) {
    if (describe(kind).uses(option)) condition.values.emplace_back(name);
  }
  return condition;
}

/// The kinds that use a key: all kinds, unless some kinds list it in `keys` or omit it in
/// `model_keys`.
Condition kinds_with(const std::string& path, std::string_view selector, const std::string& current,
                     const std::vector<ConfigKind>& kinds) {
  const auto lists = [&](const ConfigKind& kind) {
    return std::ranges::find(kind.keys, path) != kind.keys.end();
  };
  const bool is_general = std::ranges::none_of(kinds, lists);
  const auto uses_key = [&](const ConfigKind& kind) {
    if (kind.model_keys && path.starts_with("model.")) return kind.uses(path);
    return is_general || lists(kind);
  };
  Condition condition{std::string(selector), {}, current};
  for (const ConfigKind& kind : kinds) {
    if (uses_key(kind)) condition.values.emplace_back(kind.name);
  }
  return is_general && condition.values.size() == kinds.size() ? Condition{} : condition;
}

/// Whether the chosen kind of model uses the key.
bool is_read_by(const std::string& model_kind, const std::string& path) {
  const auto kind = std::ranges::find(model_kinds(), model_kind, &ConfigKind::name);
  return kind == model_kinds().end() || kind->uses(path);
}

/// Visits the keys of a section of a config.
struct Section {
  std::string_view name;
  Config& config;
  const std::function<void(Field&)>& visit;

  /// Visits a key whose value is in `member`.
  ///
  /// condition  condition under which the key is used, if it depends on a key other than data.task
  ///            and model.kind
  template <class T>
  void operator()(std::string_view key, T& member, const Domain& domain, SavePolicy policy,
                  std::string_view meaning, Condition condition = {}) const {
    const std::string path = fmt::format("{}.{}", name, key);
    const bool by_kind = condition.key.empty() || !is_read_by(config.model_kind, path);
    Field field{name,   key,     domain,
                policy, meaning, by_kind ? kinds_that_use(path) : std::move(condition),
                false,  {}};
    if constexpr (std::is_enum_v<T>) {
      field.value = std::string(choice_name(member));
      visit(field);
      member = choice_named<T>(std::get<std::string>(field.value));
    } else {
      field.value = member;
      visit(field);
      member = std::get<T>(field.value);
    }
  }

  /// Visits a custom key.
  void operator()(const CustomKey& key, const Condition& condition) const {
    const auto given = config.custom.find(key.path());
    const CustomValue& now = given == config.custom.end() ? key.initial() : given->second;
    Field field{name, key.key(), key.domain(), key.rule(), key.meaning(), condition, true, {}};
    std::visit([&](const auto& value) { field.value = value; }, now);
    visit(field);
    std::visit(
        [&]<class T>(const T&) {
          config.custom.insert_or_assign(key.path(), CustomValue(std::get<T>(field.value)));
        },
        key.initial());
  }

 private:
  Condition kinds_that_use(const std::string& path) const {
    if (name == "data") return kinds_with(path, "data.task", config.data.task, data_tasks());
    return kinds_with(path, "model.kind", config.model_kind, model_kinds());
  }
};

std::vector<std::string> kind_names(const std::vector<ConfigKind>& kinds) {
  std::vector<std::string> names;
  for (const ConfigKind& kind : kinds) names.emplace_back(kind.name);
  return names;
}

/// The values of train.best_metric that at least one kind of model allows.
std::vector<std::string> all_best_metrics() {
  std::vector<std::string> all;
  for (const ConfigKind& kind : model_kinds()) {
    for (std::string& metric : best_metrics_of(kind)) {
      if (std::ranges::find(all, metric) == all.end()) all.push_back(std::move(metric));
    }
  }
  return all;
}

constexpr std::uint64_t max_examples = 1'000'000'000;
constexpr std::uint64_t max_sequence_length = 65536;

void visit_data(const Section& field, DataOptions& o) {
  using enum ChangeRule;
  using enum SubwordKind;
  const SubwordKind subwords = o.words.subwords.kind;
  const Condition with_training = only_for("data.subwords", subwords, {unigram, bpe});
  const Condition with_file = only_for("data.subwords", subwords, {file});
  const Condition with_unigram = only_for("data.subwords", subwords, {unigram, file});
  const Condition with_bpe = only_for("data.subwords", subwords, {bpe, file});

  field("task", o.task, OneOf{kind_names(data_tasks())}, never,
        "source of the data: a generated task or a format of data files");
  field("folder", o.folder, FolderPath(), free,
        "base folder of relative paths of data files in the config file; default: the folder of "
        "the config file. If the files were moved before a resume: their new folder");
  field("num_symbols", o.symbols.num_symbols, between(2, 1'000'000), never,
        "number of distinct symbols");
  field("min_length", o.symbols.min_length, between(1, max_sequence_length), never,
        "minimum length of a sequence, in symbols");
  field("max_length", o.symbols.max_length, between(1, max_sequence_length), never,
        "maximum length of a sequence, in symbols");
  field("train_size", o.generated.train_size, between(1, max_examples), with_permission,
        "number of training sequences");
  field("validation_size", o.generated.validation_size, between(0, max_examples), never,
        "number of distinct validation sequences; for images: number of images held out from "
        "`train_images`, stratified by class, if `validation_images` is empty");
  field("test_size", o.generated.test_size, between(0, max_examples), never,
        "number of distinct test sequences; for images: like `validation_size`");
  field("seed", o.generated.seed, at_least(0), never, "seed of the generated sequences");
  field("train_source", o.pairs.train_source, FilePaths(), free,
        "training text, one sentence per line; each of several files is a separate corpus");
  field("train_target", o.pairs.train_target, FilePaths(), free,
        "translations of `train_source`, line by line; the same number of files");
  field("validation_source", o.pairs.validation_source, FilePath(), free, "validation text");
  field("validation_target", o.pairs.validation_target, FilePath(), free,
        "translations of `validation_source`, line by line");
  field("test_source", o.pairs.test_source, FilePath(), free, "test text; may be empty");
  field("test_target", o.pairs.test_target, FilePath(), free,
        "translations of `test_source`, line by line; may be empty");
  field("lowercase", o.words.lowercase, Flag(), never, "converts all text to lowercase");
  field("min_frequency", o.words.min_frequency, at_least(1), never,
        "minimum count of a word in the training text; rarer words become `<unk>`");
  field("max_vocabulary", o.words.max_vocabulary, at_least(0), never,
        "maximum number of words in each vocabulary, which keeps the most frequent words; 0: all");
  field("subwords", o.words.subwords.kind, any_of<SubwordKind>(), never,
        "subword tokenization with SentencePiece instead of words or characters: unigram and bpe "
        "train a model on the training text, file loads a model");
  field("vocabulary_size", o.words.subwords.vocabulary_size, between(5, 1'000'000), never,
        "size of a subword vocabulary in pieces, including special symbols and bytes",
        with_training);
  field("character_coverage", o.words.subwords.character_coverage, between_reals(0.98, 1.0), never,
        "fraction of the characters in the training text that have a piece; the rarest "
        "characters become `<unk>` or bytes",
        with_training);
  field("byte_fallback", o.words.subwords.byte_fallback, Flag(), never,
        "encodes characters without a piece as UTF-8 bytes instead of `<unk>`", with_training);
  field("text_normalization", o.words.subwords.normalization, any_of<TextNormalization>(), never,
        "Unicode normalization before tokenization: NFKC (nmt: converts all white space to "
        "spaces; cf: with case folding), or identity for none",
        with_training);
  field("subword_file", o.words.subwords.file, FilePath(), free,
        "SentencePiece .model file, of type unigram or BPE", with_file);
  field("target_subword_file", o.words.subwords.target_file, FilePath(), free,
        "SentencePiece .model file of targets, unless `shared_vocabulary` is true", with_file);
  field("subword_alpha", o.words.subwords.sampling.alpha,
        NumberOrWord{{.high = 1000.0, .has_low = false}, "none"}, with_permission,
        "subword regularization of unigram models: each epoch samples a segmentation of each "
        "training sentence with probability proportional to P^alpha, such as alpha = 0.2; none: "
        "always the most probable segmentation",
        with_unigram);
  field("subword_dropout", o.words.subwords.sampling.dropout, from_0_below_1(), with_permission,
        "BPE-dropout: probability of skipping each merge in training sentences, such as 0.1",
        with_bpe);
  field("shared_vocabulary", o.pairs.shared_vocabulary, Flag(), never,
        "one vocabulary for source and target");
  field("max_tokens", o.pairs.max_tokens, at_least(0), never,
        "skips training pairs with more tokens than this in source or target; 0: no limit");
  field("on_bad_line", o.on_bad_line, any_of<OnBadLine>(), never,
        "handling of lines in data files that cannot be used, such as pairs with one blank side "
        "or with more tokens than `model.max_length`: stop stops at the first of them; skip "
        "skips and counts them");
  field("train_text", o.text.train_text, FilePaths(), free,
        "training text; labelled_text: a label, a tab and a sentence per line; tagged_text: a "
        "token, a tab and a label per line; several files are several corpora (tagged_text: only "
        "one file)");
  field("corpus_weights", o.training.corpus_weights, WholeNumbers{{.low = 1, .high = 1000}},
        with_permission,
        "passes over each training corpus per epoch: with [1, 3], an epoch has each example of "
        "the first corpus once and each example of the second corpus three times; []: one pass "
        "over each");
  field("cache", o.training.cache, any_of<CacheUse>(), free,
        "whether tokenized training examples are kept in a memory-mapped file, "
        "RUN/cache/train.examples, instead of in memory; results are the same. auto: if the "
        "training text has 256 MiB or more");
  field("validation_text", o.text.validation_text, FilePath(), free,
        "validation text; may be empty");
  field("test_text", o.text.test_text, FilePath(), free, "test text; may be empty");
  field("unit", o.windows.unit, any_of<TextUnit>(), never, "unit of tokenization");
  field("context", o.windows.context, between(1, max_sequence_length), never,
        "context length: tokens per window");
  field("validation_share", o.windows.validation_share, from_0_below_1(), never,
        "fraction of `train_text`, at its end, held out for validation if `validation_text` is "
        "empty");
  field("train_images", o.images.train_images, FilePath(), free,
        "CSV file, with the pixels of an image and its label on each line; HDF5 file (.h5, "
        ".hdf5) with the datasets `images` and `labels`; or NumPy file (.npy), with the labels "
        "of `x.npy` in `x.labels.npy`");
  field("validation_images", o.images.validation_images, FilePath(), free,
        "validation images; may be empty");
  field("test_images", o.images.test_images, FilePath(), free, "test images; may be empty");
  field("image_height", o.images.image_height, between(1, 4096), never, "height in pixels");
  field("image_width", o.images.image_width, between(1, 4096), never, "width in pixels");
  field("image_channels", o.images.image_channels, between(1, 64), never, "values per pixel");
  field("pixel_maximum", o.images.pixel_maximum, positive(), never,
        "pixel value that is scaled to 1");
}

void visit_model(const Section& field, TransformerOptions& o) {
  using enum ChangeRule;
  const Condition with_heads =
      only_for("model.attention", o.attention, {AttentionKind::multi_head});
  field("d_model", o.d_model, between(1, 65536), never,
        "embedding dimension, in features per token; a multiple of `num_heads` if `d_head` is 0");
  field("num_heads", o.num_heads, between(1, 1024), never, "number of attention heads");
  field("attention", o.attention, any_of<AttentionKind>(), never,
        "multi-head attention with projections, or parameter-free attention softmax(X Xᵀ) X");
  field("score", o.score, any_of<AttentionScore>(), never,
        "attention score of a query and a key: `q·k / sqrt(d)`, `q·k`, `w·tanh(q + k)` or `k·W q`");
  field("d_head", o.d_head, between(0, 65536), never,
        "dimension of a head, in features per token; 0: `d_model` / `num_heads`", with_heads);
  field("window", o.window, between(0, max_sequence_length), with_permission,
        "maximum distance of self-attention in tokens, on either side; 0: unlimited");
  field("num_encoder_layers", o.num_encoder_layers, between(1, 1024), never,
        "number of encoder layers");
  field("num_decoder_layers", o.num_decoder_layers, between(1, 1024), never,
        "number of decoder layers");
  field("d_ff", o.d_ff, between(1, 1'000'000), never,
        "hidden dimension of a feed-forward block, in features per token");
  const NumberOrWord rate_or_dropout{from_0_below_1(), "dropout"};
  field("dropout", o.dropout, from_0_below_1(), with_permission,
        "rate at which embeddings, attention weights, activations and residuals are zeroed");
  field("embedding_dropout", o.embedding_dropout, rate_or_dropout, with_permission,
        "dropout rate of embeddings plus positions; `dropout`: same rate as the key `dropout`");
  field("attention_dropout", o.attention_dropout, rate_or_dropout, with_permission,
        "dropout rate of attention weights; `dropout`: same rate as the key `dropout`");
  field("activation_dropout", o.activation_dropout, rate_or_dropout, with_permission,
        "dropout rate inside feed-forward blocks; `dropout`: same rate as the key `dropout`");
  field("residual_dropout", o.residual_dropout, rate_or_dropout, with_permission,
        "dropout rate of the output of a sublayer; `dropout`: same rate as the key `dropout`");
  field("stochastic_depth", o.stochastic_depth, from_0_below_1(), with_permission,
        "probability that a sublayer of the last layer is skipped, for each sentence; grows "
        "linearly with depth");
  field("skip_scale", o.skip_scale, not_negative(), with_permission,
        "factor of the residual connection around a sublayer");
  field("sublayer_scale", o.sublayer_scale, not_negative(), with_permission,
        "factor that multiplies the output of each sublayer");
  field("norm", o.norm, any_of<NormPlacement>(), never,
        "normalization before each sublayer (pre) or after its residual connection (post)");
  field("normalization", o.normalization, any_of<Normalization>(), never,
        "layer norm and RMS norm normalize each token, batch norm each feature over the batch");
  field("activation", o.activation, any_of<Activation>(), with_permission,
        "activation of the feed-forward block; swiglu and geglu are gated, with 1.5 times the "
        "parameters");
  field("positions", o.positions, any_of<PositionKind>(), never, "position encoding");
  field("max_length", o.max_length, between(2, max_sequence_length), never,
        "maximum length of a sequence in tokens, including `<bos>` and `<eos>`");
  field("tie_embeddings", o.tie_embeddings, any_of<TiedEmbeddings>(), never,
        "embeddings that share their weight with the output projection");
  field("pooling", o.pooling, any_of<PoolingKind>(), never, "pooling of a sequence to one vector");
  field("patch_size", o.patch_size, between(1, 4096), never,
        "height and width of a patch in pixels");
  field("layer_norm_epsilon", o.layer_norm_epsilon, positive(), with_permission,
        "added to the variance or mean square in every norm");
}

void visit_optimizer(const Section& field, OptimizerOptions& o) {
  using enum ChangeRule;
  const auto with = [&](std::string_view option) { return optimizers_with(option, o.kind); };

  field("kind", o.kind, any_of<OptimizerKind>(), with_permission, "optimizer algorithm");
  field("momentum", o.momentum, from_0_below_1(), with_permission, "momentum factor",
        with("momentum"));
  field("beta1", o.beta1, from_0_below_1(), with_permission, "decay of the first moment per step",
        with("beta1"));
  field("beta2", o.beta2, from_0_below_1(), with_permission, "decay of the second moment per step",
        with("beta2"));
  field("epsilon", o.epsilon, positive(), with_permission, "added to the root of the second moment",
        with("epsilon"));
  field("weight_decay", o.weight_decay, not_negative(), with_permission,
        "weight decay; adamw: decoupled, not applied to biases and norms");
}

void visit_schedule(const Section& field, ScheduleOptions& o) {
  using enum ChangeRule;
  using enum ScheduleKind;
  const Condition warming =
      only_for("schedule.kind", o.kind, {linear_warmup, inverse_sqrt, cosine});
  const Condition decaying = only_for("schedule.kind", o.kind, {cosine});

  field("kind", o.kind, any_of<ScheduleKind>(), with_permission, "learning rate schedule");
  field("learning_rate", o.learning_rate, positive(), with_permission, "peak learning rate");
  field("warmup_steps", o.warmup_steps, steps_between(0, max_step_count), with_permission,
        "steps of linear warm-up from 0 to the peak learning rate", warming);
  field("decay_steps", o.decay_steps, steps_between(0, max_step_count), with_permission,
        "step at which the learning rate reaches its minimum; 0: `train.steps`", decaying);
  field("min_learning_rate", o.min_learning_rate, not_negative(), with_permission,
        "minimum learning rate, at most `learning_rate`", decaying);
}

void visit_decoding(const Section& field, DecodingOptions& o) {
  using enum ChangeRule;
  field("beam_size", o.beam_size, between(1, DecodingOptions::max_beam_size), free,
        "number of hypotheses that beam search keeps; 1: greedy decoding");
  field("length_penalty", o.length_penalty, not_negative(), free,
        "exponent a of the length normalization: beam search prefers outputs with the greatest "
        "`log p / ((5 + length) / 6)^a`; 0: no normalization");
}

void visit_train(const Section& field, TrainOptions& o) {
  using enum ChangeRule;
  field("seed", o.seed, at_least(0), never, "seed of initial weights, dropout and shuffling");
  field("steps", o.steps, between(1, max_step_count), free, "number of optimizer steps");
  field("epochs", o.epochs, between(0, 1'000'000), free,
        "number of passes over the training data; overrides `steps`; 0: use `steps`");
  field("batch_size", o.batch_size, between(1, 1'000'000), with_permission,
        "examples per batch; with `batch_tokens`, per validation batch only");
  field("batch_tokens", o.batch_tokens, between(0, 1'000'000'000), with_permission,
        "maximum tokens per training batch: the number of examples times the length of the "
        "longest source or target, including `<eos>`; overrides `batch_size`; 0: use "
        "`batch_size`");
  field("accumulate", o.accumulate, between(1, 1'000'000), with_permission,
        "batches per optimizer step");
  field("gradient_exchange", o.gradient_exchange, any_of<GradientFormat>(), with_permission,
        "format of the gradients that processes exchange: full is `dtype`; bfloat16 halves the "
        "bytes. A run of one process rounds gradients in the same way, so that results do not "
        "depend on the number of processes");
  field("label_smoothing", o.label_smoothing, from_0_below_1(), with_permission,
        "probability spread uniformly over the vocabulary");
  field("ema_decay", o.ema_decay, from_0_below_1(), with_permission,
        "decay per step of the exponential moving average of the weights, which validation and "
        "inference use; 0: no average");
  field("threads", o.threads, between(0, kernels::max_threads), process_setting(free),
        "number of threads; 0: all cores");
  field("bucket_size", o.bucket_size, between_reals(0.01, 1000), process_setting(free),
        "size in MB of the buckets of gradients and parameters that processes exchange; does not "
        "change results");
  field("kernels", o.kernels, any_of<KernelChoice>(), process_setting(free),
        "instruction set of the kernels; the same kernels give the same bits on every "
        "processor. auto: the environment variable TAPESTRY_KERNELS, else the kernels of the "
        "resumed checkpoint, else the widest that the processor supports");
  field("matmul", o.matmul, any_of<Matmul>(), process_setting(free),
        "matrix products: Tapestry's own kernels, or OpenBLAS, whose bits depend on the "
        "processor. auto: the environment variable TAPESTRY_MATMUL, else the value of the "
        "resumed checkpoint, else tapestry");
  field("log_every", o.log_every, steps_from(1), free, "steps between log lines");
  field("validate_every", o.validate_every, steps_from(1), free, "steps between validations");
  field("save_every", o.save_every, steps_from(1), free, "steps between checkpoints");
  field("keep_last", o.keep_last, at_least(2), free, "number of latest checkpoints to keep");
  field("keep_best", o.keep_best, at_least(1), free,
        "number of checkpoints with the best `best_metric` to keep in addition to `keep_last`; "
        "a checkpoint is saved whenever a validation ranks among them");
  field("average_last", o.average_last, at_least(0), free,
        "number of latest scheduled checkpoints (`save_every`), including the last step, whose "
        "parameters are averaged into `average.h5` in the run directory when the run finishes; "
        "0: no average. Commands use the average if it scores better than the best checkpoint "
        "by `best_metric`, or if there is no validation");
  field("best_metric", o.best_metric, OneOf{all_best_metrics()}, with_permission,
        "validation score that selects the best checkpoint, which other commands use; lower is "
        "better for `loss` and `perplexity`, higher for the others");
  field("patience", o.patience, at_least(0), free,
        "number of validations without improvement after which the run stops early; 0: never");
  field("max_time", o.max_time, Duration(), process_setting(free),
        "time after which this process saves and ends with exit code 124; 0s: no limit");
  field("on_nan", o.on_nan, any_of<OnNan>(), free,
        "reaction to a NaN or infinite loss or gradient: stop; skip the step; or rollback to the "
        "last scheduled checkpoint (`save_every`) and continue with the next batch");
  field("max_nan_steps", o.max_nan_steps, at_least(1), free,
        "number of consecutive non-finite steps after which the run stops despite `on_nan`");
  field("divergence_window", o.divergence_window, at_least(0), free,
        "window of the divergence check in steps: the run stops when the mean loss of three "
        "consecutive windows has risen by half of its decrease so far; 0: disabled");
  field("max_decode_length", o.max_decode_length, between(0, max_sequence_length), free,
        "maximum length of decoded outputs in tokens; 0: source length + 50, at most "
        "`model.max_length`");
  field("exact_match_sequences", o.exact_match_sequences, at_least(0), free,
        "number of held-out sequences decoded per validation for BLEU, chrF and the exact-match "
        "score; 0: none");
  field("samples", o.samples, at_least(0), free,
        "number of decoded sequences printed per validation, with source and reference");
  field("bleu_tokenizer", o.bleu_tokenizer, any_of<BleuTokenizer>(), with_permission,
        "sacreBLEU tokenizer for BLEU in validation: 13a for languages with spaces between "
        "words; zh for Chinese, char for Japanese and others without spaces; intl for "
        "punctuation beyond ASCII; none for text that is already tokenized");
  field("report_every", o.report_every, at_least(0), free,
        "number of validations between updates of `report.html` in the run directory (see "
        "`tapestry report`), which is also written after the last step; 0: never");
  field("digest_every", o.digest_every, at_least(0), free,
        "steps between digests of the parameters in `events.jsonl`; `tapestry diff` compares them "
        "to find when and in which tensor two runs begin to differ; 1: finds the exact step, and "
        "takes 11 bytes per tensor and step; 0: no digests");
  field("tensorboard", o.tensorboard, Flag(), free,
        "writes event files for TensorBoard into the folder `tensorboard` of the run directory");
  field("detect_anomaly", o.detect_anomaly, Flag(), process_setting(free),
        "checks the result of every operation and stops at the first NaN or infinity; slow");
  field("initialize_from", o.initialize_from, FilePath(), never,
        "pretrained run or checkpoint: loads its parameters with matching names and shapes "
        "(except the head, if the classes differ) and uses its vocabulary; empty: none");
  field("run_dir", o.run_dir, RunPath(), process_setting(never),
        "run directory, relative to the working directory; empty: `runs/NAME` for NAME.yaml");
  field("dtype", o.dtype, any_of<DType>(), never, "element type of all tensors");
}

void visit_custom_keys(const Section& field, const std::vector<ConfigKind>& kinds,
                       const char* selector, const std::string& current) {
  for (const ConfigKind& kind : kinds) {
    for (const CustomKey& key : kind.custom_keys) {
      if (key.section() == field.name) field(key, {selector, {std::string(kind.name)}, current});
    }
  }
}

void visit_custom_keys(const Section& field) {
  visit_custom_keys(field, data_tasks(), "data.task", field.config.data.task);
  visit_custom_keys(field, model_kinds(), "model.kind", field.config.model_kind);
}

}  // namespace

bool Condition::holds() const {
  return key.empty() || std::ranges::find(values, current) != values.end();
}

void for_each_field(Config& config, const std::function<void(Field&)>& f) {
  using enum ChangeRule;
  const auto section = [&](std::string_view name) { return Section{name, config, f}; };

  visit_data(section("data"), config.data);
  visit_custom_keys(section("data"));

  section("model")("kind", config.model_kind, OneOf{kind_names(model_kinds())}, never,
                   "task and network");
  visit_model(section("model"), config.model);
  visit_custom_keys(section("model"));

  visit_optimizer(section("optimizer"), config.optimizer);
  section("optimizer")("clip_norm", config.train.clip_norm, not_negative(), with_permission,
                       "maximum global norm of the gradient; 0: no clipping");
  visit_custom_keys(section("optimizer"));

  visit_schedule(section("schedule"), config.schedule);
  visit_custom_keys(section("schedule"));

  visit_decoding(section("decoding"), config.decoding);
  visit_custom_keys(section("decoding"));

  visit_train(section("train"), config.train);
  visit_custom_keys(section("train"));
}

std::vector<Field> fields_of(const Config& config) {
  std::vector<Field> fields;
  Config copy = config;
  for_each_field(copy, [&](Field& field) { fields.push_back(field); });
  return fields;
}

std::optional<Field> find_field(std::string_view path) {
  for (Field& field : fields_of(Config())) {
    if (field.path() == path) return std::move(field);
  }
  return std::nullopt;
}

bool is_process_setting(std::string_view path) {
  const std::optional<Field> field = find_field(path);
  return field && !field->policy.stored;
}

}  // namespace tapestry
