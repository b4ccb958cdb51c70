#include "train/config/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "train/config/fields.h"

namespace tapestry {
namespace {

class Rules {
 public:
  Rules(const Config& config, const Origins& origins, ProblemList& problems)
      : config_(config), origins_(origins), problems_(problems) {}

  void check() const {
    check_unused_keys();
    check_kind();
    check_lengths_of_symbols();
    check_files();
    check_heads();
    check_residual_scales();
    check_parameter_free();
    check_rotary();
    check_positions();
    check_patches();
    check_tied_embeddings();
    check_betas();
    check_warmup();
    check_decay();
  }

 private:
  using Keys = std::initializer_list<std::string_view>;

  void check_unused_keys() const;
  void check_kind() const;
  void check_lengths_of_symbols() const;
  void check_files() const;
  void check_pairs() const;
  void check_heads() const;
  void check_residual_scales() const;
  void check_parameter_free() const;
  void check_rotary() const;
  void check_positions() const;
  void check_patches() const;
  void check_tied_embeddings() const;
  void check_betas() const;
  void check_warmup() const;
  void check_decay() const;

  /// Reports a contradiction between `keys` at the first of them that was given, unless the value
  /// of one of them is bad: then it is not known what the user wants.
  void refuse(Keys keys, std::string message, std::string hint) const;
  bool learns_symbols() const;

  const Config& config_;
  const Origins& origins_;
  ProblemList& problems_;
};

void Rules::refuse(Keys keys, std::string message, std::string hint) const {
  const Place* place = nullptr;
  for (const std::string_view key : keys) {
    const auto origin = origins_.find(key);
    if (origin == origins_.end()) continue;
    if (!origin->second.valid) return;
    if (place == nullptr) place = &origin->second.place;
  }
  // Defaults do not contradict one another, so one of the keys was given.
  if (place != nullptr) problems_.add(*place, std::move(message), std::move(hint));
}

bool Rules::learns_symbols() const {
  const TaskKind task = config_.data.task;
  return task == TaskKind::copy || task == TaskKind::reverse || task == TaskKind::sort;
}

/// A key may be given with its default value anywhere, so that a dumped config, which has every
/// key, can be read again.
void Rules::check_unused_keys() const {
  std::vector<std::string> defaults;
  const Config plain;
  for_each_field(plain, [&](const Field&, const auto& value, const auto& domain) {
    defaults.push_back(domain.print(value));
  });
  std::size_t index = 0;
  for_each_field(config_, [&](const Field& field, const auto& value, const auto& domain) {
    const bool changed = domain.print(value) != defaults[index++];
    if (!changed || field.use.in_use()) return;
    const std::string choices = list_in_words(field.use.choices);
    refuse({field.path(), field.use.selector},
           fmt::format("`{}` is used with `{}: {}` only, found `{}`", field.key, field.use.selector,
                       choices, field.use.current),
           fmt::format("remove `{}`, or set `{}` to {}", field.key, field.use.selector, choices));
  });
}

/// Which tasks give the examples that each kind of model learns from.
std::vector<TaskKind> tasks_for(ModelKind kind) {
  using enum TaskKind;
  switch (kind) {
    case ModelKind::seq2seq:
      return {copy, reverse, sort, toy_translation, parallel_text};
    case ModelKind::language_model:
    case ModelKind::masked_language_model:
      return {text, toy_sentences};
    case ModelKind::classifier:
      return {labelled_text, toy_agreement};
    case ModelKind::vision_transformer:
      break;
  }
  return {images};
}

void Rules::check_kind() const {
  const std::vector<TaskKind> tasks = tasks_for(config_.model.kind);
  if (std::ranges::find(tasks, config_.data.task) != tasks.end()) return;
  std::vector<std::string> names;
  for (const TaskKind task : tasks) names.emplace_back(choice_name(task));
  refuse({"model.kind", "data.task"},
         fmt::format("`kind: {}` cannot learn the task {}", choice_name(config_.model.kind),
                     choice_name(config_.data.task)),
         fmt::format("set `data.task` to {}, or `model.kind` to another", list_in_words(names)));
}

void Rules::check_lengths_of_symbols() const {
  const DataOptions& data = config_.data;
  if (!learns_symbols() || data.min_length <= data.max_length) return;
  refuse({"data.min_length", "data.max_length", "data.task"},
         fmt::format("`min_length` is {}, more than `max_length` ({})", data.min_length,
                     data.max_length),
         fmt::format("set `min_length` to {} or less, or raise `max_length`", data.max_length));
}

void Rules::check_files() const {
  const DataOptions& data = config_.data;
  const auto need = [&](const char* key, const std::string& file) {
    if (!file.empty()) return;
    refuse({"data.task", key}, fmt::format("task {} needs {}", choice_name(data.task), key),
           fmt::format("name the file here or on the command line: {}=FILE", key));
  };
  if (data.task == TaskKind::parallel_text) return check_pairs();
  if (data.task == TaskKind::text || data.task == TaskKind::labelled_text) {
    need("data.train_text", data.train_text);
  }
  if (data.task == TaskKind::images) need("data.train_images", data.train_images);
}

void Rules::check_pairs() const {
  const DataOptions& data = config_.data;
  std::vector<std::string> missing;
  if (data.train_source.empty()) missing.push_back("data.train_source");
  if (data.train_target.empty()) missing.push_back("data.train_target");
  if (data.validation_source.empty()) missing.push_back("data.validation_source");
  if (data.validation_target.empty()) missing.push_back("data.validation_target");
  if (!missing.empty()) {
    refuse({"data.task", "data.train_source", "data.train_target", "data.validation_source",
            "data.validation_target"},
           fmt::format("task parallel_text needs {}", fmt::join(missing, ", ")),
           fmt::format("name the files here or on the command line: {}=FILE",
                       fmt::join(missing, "=FILE ")));
  }
  if (data.test_source.empty() != data.test_target.empty()) {
    refuse({"data.test_source", "data.test_target", "data.task"},
           fmt::format("a test set needs two files, `{}` is missing",
                       data.test_source.empty() ? "test_source" : "test_target"),
           "name both files, or none");
  }
}

void Rules::check_heads() const {
  const std::size_t width = config_.model.d_model;
  const std::size_t heads = config_.model.num_heads;
  const bool own_width = config_.model.d_head != 0;
  if (own_width || config_.model.attention != AttentionKind::multi_head) return;
  if (width % heads == 0) return;
  const std::size_t below = width - width % heads;
  const std::string nearest =
      below == 0 ? fmt::format("{}", heads) : fmt::format("{} or {}", below, below + heads);
  refuse({"model.d_model", "model.num_heads", "model.d_head", "model.attention"},
         fmt::format("`d_model` is {}, not a multiple of `num_heads` ({})", width, heads),
         fmt::format("set `d_model` to {}", nearest));
}

void Rules::check_residual_scales() const {
  if (config_.model.skip_scale > 0 || config_.model.sublayer_scale > 0) return;
  refuse({"model.skip_scale", "model.sublayer_scale"},
         "`skip_scale` and `sublayer_scale` are both 0: nothing would pass through a layer",
         "set one of them to more than 0");
}

void Rules::check_parameter_free() const {
  const TransformerOptions& model = config_.model;
  if (model.attention != AttentionKind::parameter_free) return;
  if (model.num_heads != 1) {
    refuse(
        {"model.attention", "model.num_heads"},
        fmt::format("`attention: parameter_free` has one head, `num_heads` is {}", model.num_heads),
        "set `num_heads` to 1");
  }
  if (model.score == AttentionScore::additive || model.score == AttentionScore::bilinear) {
    refuse({"model.score", "model.attention"},
           fmt::format("`score: {}` has parameters, `attention: parameter_free` has none",
                       choice_name(model.score)),
           "set `score` to scaled_dot_product or dot_product, or `attention` to multi_head");
  }
}

void Rules::check_rotary() const {
  const TransformerOptions& model = config_.model;
  if (model.positions != PositionKind::rotary) return;
  const bool width_is_wrong_anyway = model.d_head == 0 && model.d_model % model.num_heads != 0;
  if (!width_is_wrong_anyway && head_width(model) % 2 != 0) {
    refuse({"model.positions", "model.d_head", "model.d_model", "model.num_heads"},
           fmt::format("`positions: rotary` turns pairs of numbers, a head's width is {}",
                       head_width(model)),
           fmt::format("set `{}` to {}",
                       model.attention == AttentionKind::multi_head ? "d_head" : "d_model",
                       head_width(model) + 1));
  }
  if (model.score == AttentionScore::additive) {
    refuse({"model.score", "model.positions"},
           "`positions: rotary` works through dot products, `score: additive` has none",
           "set `score` to scaled_dot_product, dot_product or bilinear, or choose other positions");
  }
}

void Rules::check_positions() const {
  const std::size_t positions = config_.model.max_length;
  const auto needs = [&](const char* key, std::size_t tokens) {
    refuse(
        {std::string("data.") + key, "model.max_length", "data.task"},
        fmt::format("`{}` is {}, and with `<bos>` or `<eos>` {} tokens; `model.max_length` is {}",
                    key, tokens, tokens + 1, positions),
        fmt::format("set `model.max_length` to {} or more", tokens + 1));
  };
  const DataOptions& data = config_.data;
  const bool text = data.task == TaskKind::parallel_text;
  if (learns_symbols() && data.max_length >= positions) needs("max_length", data.max_length);
  if (text && data.max_tokens >= positions) needs("max_tokens", data.max_tokens);
  // A language model reads all tokens of a window but the last, which is a label alone.
  const bool predicts_next = config_.model.kind == ModelKind::language_model;
  const std::size_t tokens_read = data.context + (predicts_next ? 0 : 1);
  if (data.task == TaskKind::text && tokens_read > positions) {
    refuse({"data.context", "model.max_length", "data.task"},
           fmt::format("`context` is {}, and {} tokens are read at once; `model.max_length` is {}",
                       data.context, tokens_read, positions),
           fmt::format("set `model.max_length` to {} or more", tokens_read));
  }
  if (config_.train.max_decode_length > positions) {
    refuse({"train.max_decode_length", "model.max_length"},
           fmt::format("`max_decode_length` is {}, more than `model.max_length` ({})",
                       config_.train.max_decode_length, positions),
           fmt::format("set `model.max_length` to {} or more", config_.train.max_decode_length));
  }
}

void Rules::check_patches() const {
  if (config_.model.kind != ModelKind::vision_transformer) return;
  const DataOptions& data = config_.data;
  const std::size_t side = config_.model.patch_size;
  if (data.image_height % side != 0 || data.image_width % side != 0) {
    return refuse({"model.patch_size", "data.image_height", "data.image_width", "model.kind"},
                  fmt::format("`patch_size` is {}, which does not divide images of {} x {}", side,
                              data.image_height, data.image_width),
                  "set `patch_size` to a number that divides height and width");
  }
  const std::size_t tokens = (data.image_height / side) * (data.image_width / side) + 1;
  if (tokens <= config_.model.max_length) return;
  refuse({"model.max_length", "model.patch_size", "data.image_height", "data.image_width",
          "model.kind"},
         fmt::format("an image has {} patches, and with the class token {} tokens; "
                     "`model.max_length` is {}",
                     tokens - 1, tokens, config_.model.max_length),
         fmt::format("set `model.max_length` to {} or more", tokens));
}

void Rules::check_tied_embeddings() const {
  if (config_.model.tie_embeddings != TiedEmbeddings::all) return;
  if (config_.data.task == TaskKind::toy_translation) {
    refuse({"model.tie_embeddings", "data.task"},
           "`tie_embeddings: all` needs one vocabulary, task toy_translation has two",
           "set `tie_embeddings` to target");
  }
  if (config_.data.task == TaskKind::parallel_text && !config_.data.shared_vocabulary) {
    refuse({"model.tie_embeddings", "data.shared_vocabulary", "data.task"},
           "`tie_embeddings: all` needs one vocabulary, `data.shared_vocabulary` is false",
           "set `data.shared_vocabulary` to true, or `tie_embeddings` to target");
  }
}

/// Adam converges if beta1^2 < sqrt(beta2): Kingma & Ba 2015, theorem 4.1.
void Rules::check_betas() const {
  const OptimizerOptions& options = config_.optimizer;
  const bool converges = options.beta1 * options.beta1 <= std::sqrt(options.beta2);
  if (options.kind == OptimizerKind::sgd || converges) return;
  refuse({"optimizer.beta2", "optimizer.beta1", "optimizer.kind"},
         fmt::format("`beta2` is {}, too small for `beta1` ({}): Adam may not converge",
                     options.beta2, options.beta1),
         "set `beta2` nearer to 1 than `beta1`, such as 0.98 and 0.9");
}

void Rules::check_warmup() const {
  const ScheduleOptions& schedule = config_.schedule;
  const bool required =
      schedule.kind == ScheduleKind::linear_warmup || schedule.kind == ScheduleKind::inverse_sqrt;
  if (required && schedule.warmup_steps == 0) {
    refuse({"schedule.kind", "schedule.warmup_steps"},
           fmt::format("`kind: {}` needs `warmup_steps` of 1 or more", choice_name(schedule.kind)),
           fmt::format("set `warmup_steps` to {}",
                       std::max<std::size_t>(1, config_.train.steps / 10)));
  }
}

void Rules::check_decay() const {
  const ScheduleOptions& schedule = config_.schedule;
  if (schedule.kind != ScheduleKind::cosine) return;
  if (schedule.min_learning_rate > schedule.learning_rate) {
    refuse({"schedule.min_learning_rate", "schedule.learning_rate", "schedule.kind"},
           fmt::format("`min_learning_rate` is {}, more than `learning_rate` ({})",
                       schedule.min_learning_rate, schedule.learning_rate),
           fmt::format("set `min_learning_rate` to {} or less", schedule.learning_rate));
  }
  const bool own_end = schedule.decay_steps != 0;
  if (own_end && schedule.decay_steps <= schedule.warmup_steps) {
    refuse({"schedule.decay_steps", "schedule.warmup_steps", "schedule.kind"},
           fmt::format("`decay_steps` is {}, not after `warmup_steps` ({})", schedule.decay_steps,
                       schedule.warmup_steps),
           fmt::format("set `decay_steps` to more than {}, or to 0 for `train.steps`",
                       schedule.warmup_steps));
  }
  if (!own_end && schedule.warmup_steps >= config_.train.steps) {
    refuse({"schedule.warmup_steps", "train.steps", "schedule.kind"},
           fmt::format("`warmup_steps` is {}, which leaves no step of `train.steps` to decay in",
                       schedule.warmup_steps),
           "lower `warmup_steps`, set `decay_steps`, or train for longer");
  }
}

}  // namespace

void check_rules(const Config& config, const Origins& origins, ProblemList& problems) {
  Rules(config, origins, problems).check();
}

}  // namespace tapestry
