// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/synonyms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>

#include "data/io/near_name.h"
#include "train/config/keys.h"

namespace tapestry {
const std::vector<Synonyms>& all_synonyms() {
  static const std::vector<Synonyms> all{
      {"train.seed", {"seed", "random_seed"}},
      {"train.batch_size", {"batch", "bs", "per_device_train_batch_size"}},
      {"train.batch_tokens", {"tokens_per_batch", "max_tokens_per_batch"}},
      {"train.epochs", {"num_epochs", "num_train_epochs", "max_epochs"}},
      {"train.steps",
       {"max_steps", "num_steps", "iterations", "max_iters", "updates", "max_updates"}},
      {"train.accumulate",
       {"accumulation", "grad_accum", "update_freq", "accumulation_steps",
        "gradient_accumulation_steps"}},
      {"train.label_smoothing", {"smoothing"}},
      {"train.ema_decay", {"ema", "exponential_smoothing"}},
      {"train.threads", {"num_threads", "workers", "num_workers", "cores"}},
      {"train.dtype", {"precision"}},
      {"train.log_every", {"logging_steps", "log_interval"}},
      {"train.validate_every", {"eval_every", "eval_steps", "eval_interval", "validation_freq"}},
      {"train.save_every", {"save_steps", "save_interval", "checkpoint_every"}},
      {"train.keep_last", {"save_total_limit"}},
      {"train.keep_best", {"save_top_k", "keep_best_ckpts"}},
      {"train.average_last", {"average_checkpoints"}},
      {"train.patience", {"early_stopping", "early_stopping_patience"}},
      {"train.max_time", {"timeout"}},
      {"train.initialize_from", {"pretrained", "init_from", "load_model"}},
      {"train.run_dir", {"output_dir", "out_dir", "save_dir", "model_dir"}},
      {"optimizer.kind", {"optim", "optimizer", "algorithm", "type", "name"}},
      {"optimizer.epsilon", {"eps", "adam_epsilon"}},
      {"optimizer.beta1", {"adam_beta1", "betas"}},
      {"optimizer.beta2", {"adam_beta2", "betas"}},
      {"optimizer.weight_decay", {"wd", "l2"}},
      {"optimizer.clip_norm", {"clip", "grad_clip", "gradient_clipping", "max_grad_norm"}},
      {"schedule.learning_rate", {"lr", "max_lr"}},
      {"schedule.min_learning_rate", {"min_lr"}},
      {"schedule.warmup_steps", {"warmup", "num_warmup_steps", "warmup_ratio"}},
      {"schedule.decay_steps", {"decay", "lr_decay_iters"}},
      {"schedule.kind", {"scheduler", "scheduling", "lr_scheduler_type", "type", "name"}},
      {"model.kind", {"type", "name", "architecture", "model_type"}},
      {"model.num_heads",
       {"heads", "n_head", "n_heads", "nhead", "attention_heads", "num_attention_heads"}},
      {"model.d_head", {"head_dim"}},
      {"model.num_encoder_layers",
       {"layers", "depth", "n_layer", "n_layers", "num_layers", "num_hidden_layers",
        "encoder_layers"}},
      {"model.num_decoder_layers",
       {"layers", "depth", "n_layer", "n_layers", "num_layers", "num_hidden_layers",
        "decoder_layers"}},
      {"model.d_model",
       {"hidden", "hidden_dim", "hidden_size", "width", "dim", "n_embd", "embed_dim",
        "embedding_dim", "embedding_size"}},
      {"model.d_ff", {"ffn_dim", "ff_size", "feedforward", "dim_feedforward", "intermediate_size"}},
      {"model.dropout", {"p_dropout", "dropout_rate"}},
      {"model.stochastic_depth", {"drop_path"}},
      {"model.activation", {"hidden_act"}},
      {"data.context", {"block_size"}},
      {"model.max_length",
       {"block_size", "seq_len", "max_len", "max_seq_len", "max_positions",
        "max_position_embeddings"}},
      {"model.positions", {"position_encoding", "pos_encoding"}},
      {"model.norm", {"norm_first"}},
      {"model.layer_norm_epsilon", {"layer_norm_eps"}},
      {"model.tie_embeddings", {"tied_embeddings", "tie_word_embeddings"}},
      {"data.task", {"dataset", "type", "name"}},
      {"data.vocabulary_size", {"vocab_size"}},
      {"data.max_vocabulary", {"vocab_size"}},
      {"data.subword_file", {"sp_model"}},
      {"data.subwords", {"bpe", "tokenizer"}},
      {"data.subword_dropout", {"bpe_dropout"}},
      {"data.min_frequency", {"min_freq"}},
      {"data.lowercase", {"lower"}},
      {"data.validation_share", {"val_split", "validation_split"}},
      {"data.unit", {"tokenizer"}},
      {"data.train_text", {"train_file"}},
      {"data.train_source", {"train_file", "src", "train_src"}},
      {"data.validation_text", {"validation_file"}},
      {"data.validation_source", {"validation_file"}},
      {"data.test_text", {"test_file"}},
      {"data.test_source", {"test_file"}},
      {"data.train_target", {"trg", "tgt", "train_tgt"}},
      {"data.image_height", {"image_size"}},
      {"data.image_width", {"image_size"}},
      {"data.image_channels", {"channels"}},
  };
  return all;
}

std::vector<std::string> paths_of_synonym(std::string_view word) {
  const std::string name = folded(word);
  std::vector<std::string> paths;
  for (const Synonyms& key : all_synonyms()) {
    if (std::ranges::find(key.names, name) != key.names.end()) paths.emplace_back(key.path);
  }
  return paths;
}

namespace {

/// Whether `words`, a text of words separated by spaces, contains `word`.
bool has_word(std::string_view words, std::string_view word) {
  return fmt::format(" {} ", words).find(fmt::format(" {} ", word)) != std::string::npos;
}

}  // namespace

std::optional<std::string> value_meant_by(std::string_view path, std::string_view text,
                                          std::span<const std::string> values) {
  struct Meaning {
    std::string_view path, value, names;
  };
  static constexpr std::array all = std::to_array<Meaning>({
      {"data.task", "parallel_text", "translation mt nmt parallel seq2seq pairs summarization"},
      {"data.task", "text",
       "lm language_model language_modeling language_modelling causal_lm clm text_generation "
       "masked_lm mlm plain_text"},
      {"data.task", "labelled_text",
       "classification text_classification sequence_classification sentiment classifier"},
      {"data.task", "tagged_text",
       "ner tagging tagger pos pos_tagging token_classification conll sequence_tagging "
       "sequence_labeling sequence_labelling"},
      {"data.task", "images", "image_classification vision mnist cifar10 vision_transformer"},
      {"model.kind", "seq2seq", "transformer encoder_decoder t5 bart marian nmt translation"},
      {"model.kind", "language_model", "gpt gpt2 decoder decoder_only lm causal_lm llama nanogpt"},
      {"model.kind", "masked_language_model", "bert roberta mlm masked_lm encoder"},
      {"model.kind", "classifier",
       "classification text_classification sequence_classification sentiment"},
      {"model.kind", "vision_transformer", "vit deit image_classification vision"},
      {"model.kind", "tagger", "ner tagging token_classification crf pos sequence_labeling"},
      {"optimizer.kind", "adamw", "lion lamb adafactor adam_w muon sophia"},
      {"optimizer.kind", "adam", "rmsprop adagrad adadelta adamax nadam radam"},
      {"optimizer.kind", "sgd", "momentum nesterov lars asgd"},
      {"schedule.kind", "constant", "none fixed no off"},
      {"schedule.kind", "linear_warmup", "linear warmup constant_with_warmup"},
      {"schedule.kind", "inverse_sqrt", "noam rsqrt inv_sqrt inverse_square_root transformer"},
      {"schedule.kind", "cosine",
       "cosine_annealing cosine_with_warmup cosine_decay onecycle one_cycle polynomial"},
      {"model.activation", "silu", "swish"},
      {"model.activation", "gelu_tanh", "gelu_new gelu_fast gelu_pytorch_tanh"},
      {"model.positions", "sinusoidal", "absolute fixed sincos"},
      {"model.positions", "rotary", "rope"},
      {"model.normalization", "layer_norm", "ln"},
      {"model.normalization", "rms_norm", "rms"},
      {"data.unit", "character", "byte bytes"},
      {"data.subwords", "unigram", "sentencepiece spm"},
      {"data.subwords", "bpe", "wordpiece byte_bpe"},
      {"train.dtype", "float32", "fp16 bf16 half float16 bfloat16 fp32 f32 single"},
      {"train.dtype", "float64", "fp64 f64 double"},
      {"train.best_metric", "span_f1", "f1 f1_score f_score macro_f1 micro_f1 span seqeval"},
      {"train.best_metric", "token_accuracy",
       "accuracy acc f1 f1_score f_score macro_f1 micro_f1 precision recall"},
      {"train.best_metric", "perplexity", "ppl"},
      {"train.best_metric", "loss", "eval_loss val_loss validation_loss nll"},
      {"train.best_metric", "bleu", "sacrebleu"},
      {"train.best_metric", "exact_match", "em exact"},
  });
  const std::string name = folded(text);
  const auto meant = std::ranges::find_if(all, [&](const Meaning& each) {
    return each.path == path && has_word(each.names, name) &&
           std::ranges::find(values, each.value) != values.end();
  });
  return meant == all.end() ? std::nullopt : std::optional(std::string(meant->value));
}

std::optional<std::string> hint_for_missing_feature(std::string_view name) {
  const std::string key = folded(name);
  if (has_word("device devices gpu gpus num_gpus n_gpu cuda use_cuda use_gpu no_cuda accelerator",
               key)) {
    return "remove it: training runs on the CPU, with train.threads threads";
  }
  if (has_word("fp16 bf16 half amp use_amp mixed_precision", key)) {
    return "remove it: train.dtype is float32 or float64";
  }
  return std::nullopt;
}

std::vector<std::string> keys_meant_by(std::string_view name) {
  const std::string folded_name = folded(name);
  std::vector<std::string> likely = paths_of_synonym(name), paths;
  for (const ConfigKey& key : config_keys()) {
    if (folded(key.key) == folded_name) paths.push_back(key.path());
  }
  if (paths.empty()) return likely;
  std::stable_partition(paths.begin(), paths.end(), [&](const std::string& path) {
    return std::ranges::find(likely, path) != likely.end();
  });
  return paths;
}

}  // namespace tapestry
