#include "train/resume_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "train/config/error.h"
#include "train/config/suggest.h"

namespace tapestry {
namespace {

struct Rule {
  std::string_view key;
  ChangeRule rule;
};

using enum ChangeRule;

/// Every key of the config has its line; a test sees to that.
constexpr std::array rules = {
    Rule{"data.task", never},
    Rule{"data.num_symbols", never},
    Rule{"data.min_length", never},
    Rule{"data.max_length", never},
    Rule{"data.train_size", never},
    Rule{"data.validation_size", never},
    Rule{"data.test_size", never},
    Rule{"data.seed", never},
    Rule{"data.train_source", free},
    Rule{"data.train_target", free},
    Rule{"data.validation_source", free},
    Rule{"data.validation_target", free},
    Rule{"data.test_source", free},
    Rule{"data.test_target", free},
    Rule{"data.lowercase", never},
    Rule{"data.min_frequency", never},
    Rule{"data.max_vocabulary", never},
    Rule{"data.shared_vocabulary", never},
    Rule{"data.max_tokens", never},
    Rule{"data.train_text", free},
    Rule{"data.validation_text", free},
    Rule{"data.test_text", free},
    Rule{"data.unit", never},
    Rule{"data.context", never},
    Rule{"data.validation_share", never},
    Rule{"data.train_images", free},
    Rule{"data.validation_images", free},
    Rule{"data.test_images", free},
    Rule{"data.image_height", never},
    Rule{"data.image_width", never},
    Rule{"data.image_channels", never},
    Rule{"data.pixel_maximum", never},
    Rule{"model.kind", never},
    Rule{"model.d_model", never},
    Rule{"model.num_heads", never},
    Rule{"model.attention", never},
    Rule{"model.score", never},
    Rule{"model.d_head", never},
    Rule{"model.window", by_leave},
    Rule{"model.num_encoder_layers", never},
    Rule{"model.num_decoder_layers", never},
    Rule{"model.d_ff", never},
    Rule{"model.dropout", by_leave},
    Rule{"model.embedding_dropout", by_leave},
    Rule{"model.attention_dropout", by_leave},
    Rule{"model.activation_dropout", by_leave},
    Rule{"model.residual_dropout", by_leave},
    Rule{"model.stochastic_depth", by_leave},
    Rule{"model.skip_scale", by_leave},
    Rule{"model.sublayer_scale", by_leave},
    Rule{"model.norm", never},
    Rule{"model.normalization", never},
    Rule{"model.activation", by_leave},
    Rule{"model.positions", never},
    Rule{"model.max_length", never},
    Rule{"model.tie_embeddings", never},
    Rule{"model.pooling", never},
    Rule{"model.patch_size", never},
    Rule{"model.layer_norm_epsilon", by_leave},
    Rule{"optimizer.kind", never},
    Rule{"optimizer.momentum", never},
    Rule{"optimizer.beta1", by_leave},
    Rule{"optimizer.beta2", by_leave},
    Rule{"optimizer.epsilon", by_leave},
    Rule{"optimizer.weight_decay", by_leave},
    Rule{"optimizer.clip_norm", by_leave},
    Rule{"schedule.kind", by_leave},
    Rule{"schedule.learning_rate", by_leave},
    Rule{"schedule.warmup_steps", by_leave},
    Rule{"schedule.decay_steps", by_leave},
    Rule{"schedule.min_learning_rate", by_leave},
    Rule{"train.seed", never},
    Rule{"train.steps", free},
    Rule{"train.batch_size", never},
    Rule{"train.accumulate", by_leave},
    Rule{"train.label_smoothing", by_leave},
    Rule{"train.threads", free},
    Rule{"train.log_every", free},
    Rule{"train.validate_every", free},
    Rule{"train.save_every", free},
    Rule{"train.keep_last", free},
    Rule{"train.patience", free},
    Rule{"train.max_time", free},
    Rule{"train.on_nan", free},
    Rule{"train.max_nan_steps", free},
    Rule{"train.divergence_window", free},
    Rule{"train.max_decode_length", free},
    Rule{"train.exact_match_sequences", free},
    Rule{"train.detect_anomaly", free},
    Rule{"train.initialize_from", never},
    Rule{"train.run_dir", never},
    Rule{"train.dtype", never},
};

bool contains(const std::vector<std::string>& words, const std::string& word) {
  return std::ranges::find(words, word) != words.end();
}

[[noreturn]] void refuse_leave(const std::string& key, const std::string& message,
                               const std::string& hint) {
  refuse_option("--allow-change " + key, message, hint);
}

/// Leave can be given for keys that exist and may change, and for files of data.
void check_leave(const std::string& key) {
  const auto rule = change_rule(key);
  if (!rule) {
    std::vector<std::string> keys;
    for (const Rule& known : rules) keys.emplace_back(known.key);
    const auto meant = closest(key, keys);
    refuse_leave(key, "is no key of a config",
                 meant ? fmt::format("did you mean `{}`?", *meant) : "see configs/README.md");
  }
  if (rule == never) {
    refuse_leave(key, "can never change: the state of the run would mean nothing",
                 "start a new run with it");
  }
}

std::string what_to_do(const ConfigDifference& difference) {
  if (change_rule(difference.key) == by_leave) return "--allow-change " + difference.key;
  return difference.key == "train.run_dir" ? "a run goes on in its own directory"
                                           : "start a new run";
}

/// Rows of key, checkpoint, config and what to do, in columns.
std::string table(const std::vector<ConfigDifference>& differences) {
  std::size_t key = 3, checkpoint = 10, now = 6;
  for (const ConfigDifference& row : differences) {
    key = std::max(key, row.key.size());
    checkpoint = std::max(checkpoint, row.checkpoint.size());
    now = std::max(now, row.now.size());
  }
  const auto line = [&](std::string_view a, std::string_view b, std::string_view c,
                        std::string_view d) {
    return fmt::format("\n  {:<{}}  {:<{}}  {:<{}}  {}", a, key, b, checkpoint, c, now, d);
  };
  std::string text = line("key", "checkpoint", "config", "to change it");
  for (const ConfigDifference& row : differences) {
    text += line(row.key, row.checkpoint, row.now, what_to_do(row));
  }
  return text;
}

}  // namespace

std::optional<ChangeRule> change_rule(std::string_view key) {
  const auto found = std::ranges::find(rules, key, &Rule::key);
  return found == rules.end() ? std::nullopt : std::optional(found->rule);
}

ConfigChanges sort_changes(const std::string& run, const std::vector<ConfigDifference>& differences,
                           const std::vector<std::string>& allowed) {
  for (const std::string& key : allowed) check_leave(key);
  ConfigChanges changes;
  std::vector<ConfigDifference> refused;
  for (const ConfigDifference& difference : differences) {
    const auto rule = change_rule(difference.key);
    const bool granted = rule == by_leave && contains(allowed, difference.key);
    (rule == free ? changes.taken : granted ? changes.allowed : refused).push_back(difference);
  }
  if (!refused.empty()) {
    throw ConfigError({{.place = {.file = run},
                        .message = "the config differs from that of the checkpoint in what the "
                                   "run depends on" +
                                   table(refused),
                        .hint = "go on with the config as it was, or as the last column says"}});
  }
  return changes;
}

std::string to_string(const ConfigDifference& difference) {
  return fmt::format("{}: {} -> {}", difference.key, difference.checkpoint, difference.now);
}

}  // namespace tapestry
