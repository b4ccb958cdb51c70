// SPDX-License-Identifier: BSD-3-Clause
#include "train/config/rules.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/instruction_set.h"
#include "optim/optimizer.h"
#include "train/config/choices.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/steps.h"

namespace tapestry {
namespace {

/// Reports keys that the config does not use. Accepts unused keys that have their defaults, since
/// dump_config() writes every key.
void check_unused_keys(const Config& config, const ConfigCheck& check) {
  const std::vector<Field> defaults = fields_of(Config());
  const std::vector<Field> fields = fields_of(config);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const Field& field = fields[i];
    const bool changed = field.printed() != defaults[i].printed();
    if (!changed || field.in_use()) continue;
    const std::string choices = list_in_words(field.condition.values);
    check.reject(
        {field.path(), field.condition.key},
        fmt::format("`{}` is only used with `{}: {}`, found `{}`", field.key, field.condition.key,
                    choices, field.condition.current),
        fmt::format("remove `{}`, or set `{}` to {}", field.key, field.condition.key, choices));
  }
}

void check_data_task(const Config& config, const ConfigCheck& check) {
  const std::vector<std::string> tasks = data_tasks_for(config.model_kind);
  if (std::ranges::find(tasks, config.data.task) != tasks.end()) return;
  std::vector<std::string> kinds;  // kinds that support the task
  for (const ConfigKind& kind : model_kinds()) {
    const auto supported = data_tasks_for(kind.name);
    if (std::ranges::find(supported, config.data.task) != supported.end()) {
      kinds.emplace_back(kind.name);
    }
  }
  const std::string set_kind = fmt::format("set `model.kind` to {}", list_in_words(kinds));
  if (!check.is_set("model.kind")) {
    check.reject(
        {"data.task"},
        fmt::format("`task: {}` needs a `model.kind`, whose default {} does not support it",
                    config.data.task, config.model_kind),
        set_kind);
    return;
  }
  check.reject(
      {"model.kind", "data.task"},
      fmt::format("`kind: {}` does not support `task: {}`", config.model_kind, config.data.task),
      fmt::format("set `data.task` to {}{}{}", list_in_words(tasks), kinds.empty() ? "" : ", or ",
                  kinds.empty() ? "" : set_kind.substr(4)));
}

/// Checks the rules of the data task or the model kind.
void check_chosen_kind(const Config& config, const ConfigCheck& check,
                       const std::vector<ConfigKind>& kinds, const std::string& name) {
  const auto kind = std::ranges::find(kinds, name, &ConfigKind::name);
  if (kind != kinds.end()) kind->check(config, check);
}

void check_heads(const Config& config, const ConfigCheck& check) {
  const std::size_t width = config.model.d_model;
  const std::size_t heads = config.model.num_heads;
  const bool own_width = config.model.d_head != 0;
  if (own_width || config.model.attention != AttentionKind::multi_head) return;
  if (width % heads == 0) return;
  const std::size_t below = width - width % heads;
  const std::string nearest =
      below == 0 ? fmt::format("{}", heads) : fmt::format("{} or {}", below, below + heads);
  check.reject({"model.d_model", "model.num_heads", "model.d_head", "model.attention"},
               fmt::format("`d_model` is {}, not a multiple of `num_heads` ({})", width, heads),
               fmt::format("set `d_model` to {}", nearest));
}

void check_residual_scales(const Config& config, const ConfigCheck& check) {
  if (config.model.skip_scale > 0 || config.model.sublayer_scale > 0) return;
  check.reject({"model.skip_scale", "model.sublayer_scale"},
               "`skip_scale` and `sublayer_scale` are both 0: every layer would output 0",
               "set one of them to a value above 0");
}

void check_parameter_free(const Config& config, const ConfigCheck& check) {
  const TransformerOptions& model = config.model;
  if (model.attention != AttentionKind::parameter_free) return;
  if (model.num_heads != 1) {
    check.reject({"model.attention", "model.num_heads"},
                 fmt::format("`attention: parameter_free` has one head, but `num_heads` is {}",
                             model.num_heads),
                 "set `num_heads` to 1");
  }
  if (model.score == AttentionScore::additive || model.score == AttentionScore::bilinear) {
    check.reject(
        {"model.score", "model.attention"},
        fmt::format("`score: {}` has parameters, but `attention: parameter_free` has no parameters",
                    choice_name(model.score)),
        "set `score` to scaled_dot_product or dot_product, or `attention` to multi_head");
  }
}

void check_rotary(const Config& config, const ConfigCheck& check) {
  const TransformerOptions& model = config.model;
  if (model.positions != PositionKind::rotary) return;
  const bool width_is_wrong_anyway = model.d_head == 0 && model.d_model % model.num_heads != 0;
  if (!width_is_wrong_anyway && head_width(model) % 2 != 0) {
    check.reject(
        {"model.positions", "model.d_head", "model.d_model", "model.num_heads"},
        fmt::format("`positions: rotary` needs an even head width, found {}", head_width(model)),
        fmt::format("set `{}` to {}",
                    model.attention == AttentionKind::multi_head ? "d_head" : "d_model",
                    head_width(model) + 1));
  }
  if (model.score == AttentionScore::additive) {
    check.reject(
        {"model.score", "model.positions"},
        "`positions: rotary` needs a score with dot products, found `score: additive`",
        "set `score` to scaled_dot_product, dot_product or bilinear, or choose other positions");
  }
}

/// Adam converges if beta1^2 < sqrt(beta2): Kingma & Ba 2015, theorem 4.1. Equality is allowed.
void check_betas(const Config& config, const ConfigCheck& check) {
  const OptimizerOptions& options = config.optimizer;
  const bool converges = options.beta1 * options.beta1 <= std::sqrt(options.beta2);
  if (!describe(options.kind).uses("beta2") || converges) return;
  check.reject({"optimizer.beta2", "optimizer.beta1", "optimizer.kind"},
               fmt::format("`beta2` is {}, too small for `beta1` ({}): Adam may not converge",
                           options.beta2, options.beta1),
               "set `beta2` closer to 1, such as `beta2: 0.98` with `beta1: 0.9`");
}

/// Rejects an epsilon that rounds to 0 in float32, since it would not prevent a division by zero.
void check_epsilons(const Config& config, const ConfigCheck& check) {
  if (config.train.dtype != DType::float32) return;
  const auto check_epsilon = [&](std::string_view path, double epsilon) {
    if (static_cast<float>(epsilon) > 0.0F) return;
    const std::string_view key = path.substr(path.find('.') + 1);
    check.reject(
        {path, "train.dtype"},
        fmt::format("`{}` is {}, which is 0 in float32, the element type of the run", key, epsilon),
        fmt::format("set `{}` to 1e-45 or more, or `train.dtype` to float64", key));
  };
  if (describe(config.optimizer.kind).uses("epsilon")) {
    check_epsilon("optimizer.epsilon", config.optimizer.epsilon);
  }
  check_epsilon("model.layer_norm_epsilon", config.model.layer_norm_epsilon);
}

/// batch_tokens groups examples with similar lengths into batches, see batch_lengths().
void check_batch_tokens(const Config& config, const ConfigCheck& check) {
  const bool mixed = config.model.normalization == Normalization::batch_norm;
  if (config.train.batch_tokens == 0 || !mixed) return;
  check.reject(
      {"train.batch_tokens", "model.normalization"},
      "`batch_tokens` groups examples of similar length, but `normalization: batch_norm` needs "
      "batches of mixed length",
      "remove `batch_tokens`, or set `model.normalization` to layer_norm or rms_norm");
}

void check_warmup(const Config& config, const ConfigCheck& check) {
  const ScheduleOptions& schedule = config.schedule;
  const bool required =
      schedule.kind == ScheduleKind::linear_warmup || schedule.kind == ScheduleKind::inverse_sqrt;
  if (required && schedule.warmup_steps == 0) {
    check.reject(
        {"schedule.kind", "schedule.warmup_steps"},
        fmt::format("`kind: {}` needs `warmup_steps` of 1 or more", choice_name(schedule.kind)),
        fmt::format("set `warmup_steps` to {}", std::max<std::size_t>(1, config.train.steps / 10)));
  }
}

void check_decay(const Config& config, const ConfigCheck& check) {
  const ScheduleOptions& schedule = config.schedule;
  if (schedule.kind != ScheduleKind::cosine) return;
  if (schedule.min_learning_rate > schedule.learning_rate) {
    check.reject({"schedule.min_learning_rate", "schedule.learning_rate", "schedule.kind"},
                 fmt::format("`min_learning_rate` is {}, more than `learning_rate` ({})",
                             schedule.min_learning_rate, schedule.learning_rate),
                 fmt::format("set `min_learning_rate` to {} or less", schedule.learning_rate));
  }
  // If the number of steps is not known yet, resolve_epochs() checks the rules about steps.
  const bool steps_are_known = config.train.epochs == 0;
  const bool own_end = schedule.decay_steps != 0;
  const bool relative = config.step_percentages.contains("schedule.decay_steps") ||
                        config.step_percentages.contains("schedule.warmup_steps");
  if (own_end && (steps_are_known || !relative) && leaves_no_decay(config)) {
    check.reject({"schedule.decay_steps", "schedule.warmup_steps", "schedule.kind"},
                 fmt::format("`decay_steps` is {}, not after `warmup_steps` ({})",
                             schedule.decay_steps, schedule.warmup_steps),
                 fmt::format("set `decay_steps` to more than {}, or to 0 for `train.steps`",
                             schedule.warmup_steps));
  }
  if (!own_end && steps_are_known && leaves_no_decay(config)) {
    check.reject(
        {"schedule.warmup_steps", "train.steps", "schedule.kind"},
        fmt::format("`warmup_steps` is {}, which leaves no step of `train.steps` for the decay",
                    schedule.warmup_steps),
        "write a percentage such as 5%, set `decay_steps`, or train for more steps");
  }
}

void check_best_metric(const Config& config, const ConfigCheck& check) {
  const std::string& metric = config.train.best_metric;
  const auto kind = std::ranges::find(model_kinds(), config.model_kind, &ConfigKind::name);
  if (kind == model_kinds().end()) return;
  const std::vector<std::string> metrics = best_metrics_of(*kind);
  if (std::ranges::find(metrics, metric) == metrics.end()) {
    check.reject({"train.best_metric", "model.kind"},
                 fmt::format("`best_metric` is {}, which validation of `kind: {}` does not compute",
                             metric, config.model_kind),
                 fmt::format("set `best_metric` to {}", list_in_words(metrics)));
  }
  const bool decodes =
      std::ranges::find(kind->keys, "train.exact_match_sequences") != kind->keys.end();
  const bool of_outputs = std::ranges::find(kind->scores, metric) != kind->scores.end();
  if (decodes && of_outputs && config.train.exact_match_sequences == 0) {
    check.reject(
        {"train.best_metric", "train.exact_match_sequences"},
        fmt::format(
            "`best_metric` is {}, a score of decoded sequences, but `exact_match_sequences` is 0",
            metric),
        "set `exact_match_sequences` to the number of sequences to decode, such as 1000");
  }
}

void check_kernels(const Config& config, const ConfigCheck& check) {
  if (config.train.kernels == KernelChoice::automatic) return;
  const std::string_view wanted = choice_name(config.train.kernels);
  const auto compiled = compiled_kernels();
  if (std::ranges::find(compiled, wanted) == compiled.end()) {
    check.reject({"train.kernels"},
                 fmt::format("this program was built without {} kernels, expected auto", wanted),
                 fmt::format("it has {}; build with -DTAPESTRY_KERNELS to add kernels",
                             fmt::join(compiled, ", ")));
  } else if (!processor_can_execute(wanted)) {
    check.reject(
        {"train.kernels"},
        fmt::format("this processor cannot execute {} kernels, expected auto or other kernels",
                    wanted),
        "set `kernels` to auto to use the widest kernels that the processor can execute");
  }
}

}  // namespace

void check_rules(const Config& config, const Origins& origins, Diagnostics& errors,
                 bool files_required) {
  check_unused_keys(config, ConfigCheck(origins, errors));
  const auto kind = std::ranges::find(model_kinds(), config.model_kind, &ConfigKind::name);
  ConfigCheck check(origins, errors, kind == model_kinds().end() ? nullptr : &*kind);
  check.files_required = files_required;
  check_data_task(config, check);
  check_chosen_kind(config, check, data_tasks(), config.data.task);
  check_heads(config, check);
  check_residual_scales(config, check);
  check_parameter_free(config, check);
  check_rotary(config, check);
  check_chosen_kind(config, check, model_kinds(), config.model_kind);
  check_betas(config, check);
  check_epsilons(config, check);
  check_batch_tokens(config, check);
  check_warmup(config, check);
  check_decay(config, check);
  check_best_metric(config, check);
  check_kernels(config, check);
}

}  // namespace tapestry
