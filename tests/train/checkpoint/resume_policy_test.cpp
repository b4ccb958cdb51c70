#include "train/checkpoint/resume_policy.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "train/config/error.h"

namespace tapestry {
namespace {

std::string refusal(const std::vector<ConfigDifference>& differences,
                    const std::vector<std::string>& allowed = {}) {
  try {
    sort_changes("runs/x", differences, allowed);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST_CASE("every key has a change rule, and other names have none") {
  for (const ConfigKey& key : config_keys()) {
    CAPTURE(key.key);
    CHECK(change_rule(key.section + "." + key.key).has_value());
  }
  CHECK_FALSE(change_rule("model.width").has_value());
}

TEST_CASE("the lists of keys that change freely or with permission are exactly as reviewed") {
  const auto keys_with = [](ChangeRule rule) {
    std::vector<std::string> keys;
    for (const ConfigKey& key : config_keys()) {
      const std::string path = key.section + "." + key.key;
      if (change_rule(path) == rule) keys.push_back(path);
    }
    std::ranges::sort(keys);
    return keys;
  };
  CHECK(keys_with(ChangeRule::free) == std::vector<std::string>{"data.cache",
                                                                "data.folder",
                                                                "data.subword_file",
                                                                "data.target_subword_file",
                                                                "data.test_images",
                                                                "data.test_source",
                                                                "data.test_target",
                                                                "data.test_text",
                                                                "data.train_images",
                                                                "data.train_source",
                                                                "data.train_target",
                                                                "data.train_text",
                                                                "data.validation_images",
                                                                "data.validation_source",
                                                                "data.validation_target",
                                                                "data.validation_text",
                                                                "decoding.beam_size",
                                                                "decoding.length_penalty",
                                                                "train.average_last",
                                                                "train.bucket_size",
                                                                "train.detect_anomaly",
                                                                "train.digest_every",
                                                                "train.divergence_window",
                                                                "train.epochs",
                                                                "train.exact_match_sequences",
                                                                "train.keep_best",
                                                                "train.keep_last",
                                                                "train.kernels",
                                                                "train.log_every",
                                                                "train.matmul",
                                                                "train.max_decode_length",
                                                                "train.max_nan_steps",
                                                                "train.max_time",
                                                                "train.on_nan",
                                                                "train.patience",
                                                                "train.report_every",
                                                                "train.samples",
                                                                "train.save_every",
                                                                "train.steps",
                                                                "train.tensorboard",
                                                                "train.threads",
                                                                "train.validate_every"});
  CHECK(keys_with(ChangeRule::with_permission) ==
        std::vector<std::string>{"data.corpus_weights",
                                 "data.subword_alpha",
                                 "data.subword_dropout",
                                 "data.train_size",
                                 "model.activation",
                                 "model.activation_dropout",
                                 "model.attention_dropout",
                                 "model.dropout",
                                 "model.embedding_dropout",
                                 "model.layer_norm_epsilon",
                                 "model.residual_dropout",
                                 "model.skip_scale",
                                 "model.stochastic_depth",
                                 "model.sublayer_scale",
                                 "model.window",
                                 "optimizer.beta1",
                                 "optimizer.beta2",
                                 "optimizer.clip_norm",
                                 "optimizer.epsilon",
                                 "optimizer.kind",
                                 "optimizer.momentum",
                                 "optimizer.weight_decay",
                                 "schedule.decay_steps",
                                 "schedule.kind",
                                 "schedule.learning_rate",
                                 "schedule.min_learning_rate",
                                 "schedule.warmup_steps",
                                 "train.accumulate",
                                 "train.batch_size",
                                 "train.batch_tokens",
                                 "train.best_metric",
                                 "train.bleu_tokenizer",
                                 "train.ema_decay",
                                 "train.gradient_exchange",
                                 "train.label_smoothing"});
}

TEST_CASE("changes of free keys are accepted, others need permission") {
  const ConfigDifference steps{"train.steps", "10", "20"};
  const ConfigDifference dropout{"model.dropout", "0.1", "0.2"};
  const ConfigChanges changes = sort_changes("runs/x", {steps, dropout}, {"model.dropout"});
  REQUIRE(changes.taken.size() == 1);
  REQUIRE(changes.allowed.size() == 1);
  CHECK(to_string(changes.taken[0]) == "train.steps: 10 -> 20");
  CHECK(to_string(changes.allowed[0]) == "model.dropout: 0.1 -> 0.2");
}

TEST_CASE("all refused changes are one table with what to do for each") {
  CHECK(refusal({{"model.d_model", "16", "32"},
                 {"train.steps", "10", "20"},
                 {"schedule.learning_rate", "0.001", "0.0025"},
                 {"train.run_dir", "\"a\"", "\"b\""}}) ==
        "runs/x: the config differs from the checkpoint in keys that affect the run\n"
        "  key                     checkpoint  config  to change it\n"
        "  model.d_model           16          32      start a new run\n"
        "  schedule.learning_rate  0.001       0.0025  --allow-change schedule.learning_rate\n"
        "  train.run_dir           \"a\"         \"b\"     a run is resumed in its own directory\n"
        "hint: resume with the saved config, or follow the last column");
}

TEST_CASE("permission for unknown keys and keys that can never change is refused") {
  CHECK(refusal({}, {"model.dropuot"}) ==
        "command line: --allow-change model.dropuot: is not a config key\n"
        "hint: did you mean `model.dropout`?");
  CHECK(refusal({}, {"lr"}) ==
        "command line: --allow-change lr: is not a config key\n"
        "hint: did you mean `schedule.learning_rate`?");
  CHECK(refusal({}, {"colour"}) ==
        "command line: --allow-change colour: is not a config key\n"
        "hint: see configs/README.md");
  CHECK(refusal({}, {"model.d_model"}) ==
        "command line: --allow-change model.d_model: cannot change: the saved state would be "
        "invalid\n"
        "hint: start a new run with it");
}

TEST_CASE("permission for unchanged keys and free keys has no effect") {
  const ConfigChanges changes =
      sort_changes("runs/x", {}, {"model.dropout", "train.steps", "data.train_source"});
  CHECK(changes.taken.empty());
  CHECK(changes.allowed.empty());
}

}  // namespace
}  // namespace tapestry
