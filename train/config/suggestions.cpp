#include "train/config/suggestions.h"

#include <algorithm>

#include "train/config/config.h"
#include "train/config/text.h"

namespace tapestry {
namespace {

struct Synonym {
  std::string_view name;
  std::vector<std::string_view> paths;  ///< the most likely first
};

/// Names in PyTorch, Hugging Face Transformers, fairseq, JoeyNMT, nanoGPT and papers.
const std::vector<Synonym>& synonyms() {
  static const std::vector<Synonym> all{
      // train
      {"seed", {"train.seed"}},  // also a key of data, which is meant less often
      {"random_seed", {"train.seed"}},
      {"batch", {"train.batch_size"}},
      {"bs", {"train.batch_size"}},
      {"per_device_train_batch_size", {"train.batch_size"}},
      {"tokens_per_batch", {"train.batch_tokens"}},
      {"max_tokens_per_batch", {"train.batch_tokens"}},
      {"num_epochs", {"train.epochs"}},
      {"num_train_epochs", {"train.epochs"}},
      {"max_epochs", {"train.epochs"}},
      {"max_steps", {"train.steps"}},
      {"num_steps", {"train.steps"}},
      {"iterations", {"train.steps"}},
      {"max_iters", {"train.steps"}},
      {"updates", {"train.steps"}},
      {"max_updates", {"train.steps"}},
      {"accumulation", {"train.accumulate"}},
      {"grad_accum", {"train.accumulate"}},
      {"update_freq", {"train.accumulate"}},
      {"accumulation_steps", {"train.accumulate"}},
      {"gradient_accumulation_steps", {"train.accumulate"}},
      {"smoothing", {"train.label_smoothing"}},
      {"ema", {"train.ema_decay"}},
      {"exponential_smoothing", {"train.ema_decay"}},
      {"num_threads", {"train.threads"}},
      {"workers", {"train.threads"}},
      {"num_workers", {"train.threads"}},
      {"cores", {"train.threads"}},
      {"precision", {"train.dtype"}},
      {"logging_steps", {"train.log_every"}},
      {"log_interval", {"train.log_every"}},
      {"eval_every", {"train.validate_every"}},
      {"eval_steps", {"train.validate_every"}},
      {"eval_interval", {"train.validate_every"}},
      {"validation_freq", {"train.validate_every"}},
      {"save_steps", {"train.save_every"}},
      {"save_interval", {"train.save_every"}},
      {"checkpoint_every", {"train.save_every"}},
      {"save_total_limit", {"train.keep_last"}},
      {"save_top_k", {"train.keep_best"}},
      {"keep_best_ckpts", {"train.keep_best"}},
      {"average_checkpoints", {"train.average_last"}},
      {"early_stopping", {"train.patience"}},
      {"early_stopping_patience", {"train.patience"}},
      {"timeout", {"train.max_time"}},
      {"pretrained", {"train.initialize_from"}},
      {"init_from", {"train.initialize_from"}},
      {"load_model", {"train.initialize_from"}},
      {"output_dir", {"train.run_dir"}},
      {"out_dir", {"train.run_dir"}},
      {"save_dir", {"train.run_dir"}},
      {"model_dir", {"train.run_dir"}},
      // optimizer, schedule
      {"optim", {"optimizer.kind"}},
      {"optimizer", {"optimizer.kind"}},
      {"algorithm", {"optimizer.kind"}},
      {"eps", {"optimizer.epsilon"}},
      {"adam_epsilon", {"optimizer.epsilon"}},
      {"adam_beta1", {"optimizer.beta1"}},
      {"adam_beta2", {"optimizer.beta2"}},
      {"betas", {"optimizer.beta1", "optimizer.beta2"}},
      {"wd", {"optimizer.weight_decay"}},
      {"l2", {"optimizer.weight_decay"}},
      {"clip", {"optimizer.clip_norm"}},
      {"grad_clip", {"optimizer.clip_norm"}},
      {"gradient_clipping", {"optimizer.clip_norm"}},
      {"max_grad_norm", {"optimizer.clip_norm"}},
      {"lr", {"schedule.learning_rate"}},
      {"max_lr", {"schedule.learning_rate"}},
      {"min_lr", {"schedule.min_learning_rate"}},
      {"warmup", {"schedule.warmup_steps"}},
      {"num_warmup_steps", {"schedule.warmup_steps"}},
      {"warmup_ratio", {"schedule.warmup_steps"}},
      {"decay", {"schedule.decay_steps"}},
      {"lr_decay_iters", {"schedule.decay_steps"}},
      {"scheduler", {"schedule.kind"}},
      {"scheduling", {"schedule.kind"}},
      {"lr_scheduler_type", {"schedule.kind"}},
      // model
      {"type", {"model.kind"}},
      {"architecture", {"model.kind"}},
      {"model_type", {"model.kind"}},
      {"heads", {"model.num_heads"}},
      {"n_head", {"model.num_heads"}},
      {"n_heads", {"model.num_heads"}},
      {"nhead", {"model.num_heads"}},
      {"attention_heads", {"model.num_heads"}},
      {"num_attention_heads", {"model.num_heads"}},
      {"head_dim", {"model.d_head"}},
      {"layers", {"model.num_encoder_layers", "model.num_decoder_layers"}},
      {"depth", {"model.num_encoder_layers", "model.num_decoder_layers"}},
      {"n_layer", {"model.num_encoder_layers", "model.num_decoder_layers"}},
      {"n_layers", {"model.num_encoder_layers", "model.num_decoder_layers"}},
      {"num_layers", {"model.num_encoder_layers", "model.num_decoder_layers"}},
      {"num_hidden_layers", {"model.num_encoder_layers", "model.num_decoder_layers"}},
      {"encoder_layers", {"model.num_encoder_layers"}},
      {"decoder_layers", {"model.num_decoder_layers"}},
      {"hidden", {"model.d_model"}},
      {"hidden_dim", {"model.d_model"}},
      {"hidden_size", {"model.d_model"}},
      {"width", {"model.d_model"}},
      {"dim", {"model.d_model"}},
      {"n_embd", {"model.d_model"}},
      {"embed_dim", {"model.d_model"}},
      {"embedding_dim", {"model.d_model"}},
      {"embedding_size", {"model.d_model"}},
      {"ffn_dim", {"model.d_ff"}},
      {"ff_size", {"model.d_ff"}},
      {"feedforward", {"model.d_ff"}},
      {"dim_feedforward", {"model.d_ff"}},
      {"intermediate_size", {"model.d_ff"}},
      {"p_dropout", {"model.dropout"}},
      {"dropout_rate", {"model.dropout"}},
      {"drop_path", {"model.stochastic_depth"}},
      {"hidden_act", {"model.activation"}},
      {"block_size", {"data.context", "model.max_length"}},
      {"seq_len", {"model.max_length"}},
      {"max_len", {"model.max_length"}},
      {"max_seq_len", {"model.max_length"}},
      {"max_positions", {"model.max_length"}},
      {"max_position_embeddings", {"model.max_length"}},
      {"position_encoding", {"model.positions"}},
      {"pos_encoding", {"model.positions"}},
      {"norm_first", {"model.norm"}},
      {"layer_norm_eps", {"model.layer_norm_epsilon"}},
      {"tied_embeddings", {"model.tie_embeddings"}},
      {"tie_word_embeddings", {"model.tie_embeddings"}},
      // data
      {"dataset", {"data.task"}},
      {"vocab_size", {"data.vocabulary_size", "data.max_vocabulary"}},
      {"sp_model", {"data.subword_file"}},
      {"bpe", {"data.subwords"}},
      {"bpe_dropout", {"data.subword_dropout"}},
      {"min_freq", {"data.min_frequency"}},
      {"lower", {"data.lowercase"}},
      {"val_split", {"data.validation_share"}},
      {"validation_split", {"data.validation_share"}},
      {"tokenizer", {"data.subwords", "data.unit"}},
      {"train_file", {"data.train_text", "data.train_source"}},
      {"validation_file", {"data.validation_text", "data.validation_source"}},
      {"test_file", {"data.test_text", "data.test_source"}},
      {"src", {"data.train_source"}},
      {"trg", {"data.train_target"}},
      {"tgt", {"data.train_target"}},
      {"train_src", {"data.train_source"}},
      {"train_tgt", {"data.train_target"}},
      {"image_size", {"data.image_height", "data.image_width"}},
      {"channels", {"data.image_channels"}},
  };
  return all;
}

bool same_name(std::string_view a, std::string_view b) { return edit_distance(a, b) == 0; }

std::vector<std::string> find_synonym_paths(std::string_view name) {
  for (const Synonym& synonym : synonyms()) {
    if (same_name(name, synonym.name)) return {synonym.paths.begin(), synonym.paths.end()};
  }
  return {};
}

}  // namespace

std::vector<std::string> keys_meant_by(std::string_view name) {
  std::vector<std::string> likely = find_synonym_paths(name), paths;
  for (const ConfigKey& key : config_keys()) {
    if (same_name(name, key.key)) paths.push_back(key.path());
  }
  if (paths.empty()) return likely;
  std::stable_partition(paths.begin(), paths.end(), [&](const std::string& path) {
    return std::ranges::find(likely, path) != likely.end();
  });
  return paths;
}

std::vector<std::string_view> foreign_key_names() {
  std::vector<std::string_view> names;
  for (const Synonym& synonym : synonyms()) names.push_back(synonym.name);
  return names;
}

}  // namespace tapestry
