#include "train/config/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "train/config/fields.h"
#include "train/config/kind.h"
#include "train/config/reader.h"
#include "train/config/rules.h"
#include "train/config/text.h"

namespace tapestry {
namespace {

// ---- Names of keys elsewhere.

/// The names of a key in PyTorch, Hugging Face Transformers, fairseq, JoeyNMT, nanoGPT and papers.
struct Synonyms {
  std::string_view path;   ///< of the key
  std::string_view names;  ///< separated by spaces
};

/// A name that may mean several keys means the first of them most likely.
const std::vector<Synonyms>& synonyms() {
  static const std::vector<Synonyms> all{
      {"train.seed", "seed random_seed"},
      {"train.batch_size", "batch bs per_device_train_batch_size"},
      {"train.batch_tokens", "tokens_per_batch max_tokens_per_batch"},
      {"train.epochs", "num_epochs num_train_epochs max_epochs"},
      {"train.steps", "max_steps num_steps iterations max_iters updates max_updates"},
      {"train.accumulate",
       "accumulation grad_accum update_freq accumulation_steps "
       "gradient_accumulation_steps"},
      {"train.label_smoothing", "smoothing"},
      {"train.ema_decay", "ema exponential_smoothing"},
      {"train.threads", "num_threads workers num_workers cores"},
      {"train.dtype", "precision"},
      {"train.log_every", "logging_steps log_interval"},
      {"train.validate_every", "eval_every eval_steps eval_interval validation_freq"},
      {"train.save_every", "save_steps save_interval checkpoint_every"},
      {"train.keep_last", "save_total_limit"},
      {"train.keep_best", "save_top_k keep_best_ckpts"},
      {"train.average_last", "average_checkpoints"},
      {"train.patience", "early_stopping early_stopping_patience"},
      {"train.max_time", "timeout"},
      {"train.initialize_from", "pretrained init_from load_model"},
      {"train.run_dir", "output_dir out_dir save_dir model_dir"},
      {"optimizer.kind", "optim optimizer algorithm"},
      {"optimizer.epsilon", "eps adam_epsilon"},
      {"optimizer.beta1", "adam_beta1 betas"},
      {"optimizer.beta2", "adam_beta2 betas"},
      {"optimizer.weight_decay", "wd l2"},
      {"optimizer.clip_norm", "clip grad_clip gradient_clipping max_grad_norm"},
      {"schedule.learning_rate", "lr max_lr"},
      {"schedule.min_learning_rate", "min_lr"},
      {"schedule.warmup_steps", "warmup num_warmup_steps warmup_ratio"},
      {"schedule.decay_steps", "decay lr_decay_iters"},
      {"schedule.kind", "scheduler scheduling lr_scheduler_type"},
      {"model.kind", "type architecture model_type"},
      {"model.num_heads", "heads n_head n_heads nhead attention_heads num_attention_heads"},
      {"model.d_head", "head_dim"},
      {"model.num_encoder_layers",
       "layers depth n_layer n_layers num_layers num_hidden_layers encoder_layers"},
      {"model.num_decoder_layers",
       "layers depth n_layer n_layers num_layers num_hidden_layers decoder_layers"},
      {"model.d_model",
       "hidden hidden_dim hidden_size width dim n_embd embed_dim embedding_dim "
       "embedding_size"},
      {"model.d_ff", "ffn_dim ff_size feedforward dim_feedforward intermediate_size"},
      {"model.dropout", "p_dropout dropout_rate"},
      {"model.stochastic_depth", "drop_path"},
      {"model.activation", "hidden_act"},
      {"data.context", "block_size"},
      {"model.max_length",
       "block_size seq_len max_len max_seq_len max_positions max_position_embeddings"},
      {"model.positions", "position_encoding pos_encoding"},
      {"model.norm", "norm_first"},
      {"model.layer_norm_epsilon", "layer_norm_eps"},
      {"model.tie_embeddings", "tied_embeddings tie_word_embeddings"},
      {"data.task", "dataset"},
      {"data.vocabulary_size", "vocab_size"},
      {"data.max_vocabulary", "vocab_size"},
      {"data.subword_file", "sp_model"},
      {"data.subwords", "bpe tokenizer"},
      {"data.subword_dropout", "bpe_dropout"},
      {"data.min_frequency", "min_freq"},
      {"data.lowercase", "lower"},
      {"data.validation_share", "val_split validation_split"},
      {"data.unit", "tokenizer"},
      {"data.train_text", "train_file"},
      {"data.train_source", "train_file src train_src"},
      {"data.validation_text", "validation_file"},
      {"data.validation_source", "validation_file"},
      {"data.test_text", "test_file"},
      {"data.test_source", "test_file"},
      {"data.train_target", "trg tgt train_tgt"},
      {"data.image_height", "image_size"},
      {"data.image_width", "image_size"},
      {"data.image_channels", "channels"},
  };
  return all;
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

bool same_name(std::string_view a, std::string_view b) { return edit_distance(a, b) == 0; }

std::vector<std::string> find_synonym_paths(std::string_view name) {
  std::vector<std::string> paths;
  for (const Synonyms& key : synonyms()) {
    const auto is_meant = [&](std::string_view word) { return same_name(name, word); };
    if (std::ranges::any_of(words_of(key.names), is_meant)) paths.emplace_back(key.path);
  }
  return paths;
}

// ---- Values and where they come from.

std::string describe_origin(const std::string& path, const Origins& origins) {
  const auto found = origins.find(path);
  if (found == origins.end()) return "default";
  const Origin& origin = found->second;
  if (origin.in_override) return "command line";
  return fmt::format("{}:{}", origin.place.file, origin.place.line);
}

/// The comment next to the value of a key.
std::string comment_beside(const ExplainedKey& each) {
  std::string text = each.origin;
  if (each.percent) text += fmt::format(", given as {}% of train.steps", *each.percent);
  if (each.value != each.key.default_value) {
    text += fmt::format("; default {}", each.key.default_value);
  }
  return text;
}

std::string comment_above(const ExplainedKey& each) {
  std::string text = fmt::format("{} ({})", each.key.meaning, each.key.expected);
  if (!each.in_use) text += fmt::format("; not used, only with {}", each.key.used_with);
  return text;
}

// ---- The schema.

using Json = nlohmann::ordered_json;

Json to_schema(const WholeNumber& domain) {
  return {{"type", "integer"}, {"minimum", domain.low}, {"maximum", domain.high}};
}

Json to_schema(const StepCount& domain) {
  const Json percentage = {{"type", "string"},
                           {"pattern", R"(^(?!0(\.0+)?%)(100(\.0+)?|[1-9]?[0-9](\.[0-9]+)?)%$)"}};
  return {{"anyOf", {to_schema(static_cast<const WholeNumber&>(domain)), percentage}}};
}

Json to_schema(const RealNumber& domain) {
  Json schema = {{"type", "number"}};
  if (!std::isinf(domain.low)) {
    schema[domain.has_low ? "minimum" : "exclusiveMinimum"] = domain.low;
  }
  if (std::isinf(domain.high)) {
    schema["maximum"] = std::numeric_limits<double>::max();  // not .inf
  } else {
    schema[domain.has_high ? "maximum" : "exclusiveMaximum"] = domain.high;
  }
  return schema;
}

Json to_schema(const NumberOrWord& domain) {
  return {{"anyOf", {to_schema(domain.number), {{"enum", {domain.word}}}}}};
}

Json to_schema(const Duration&) {
  return {{"type", "string"}, {"pattern", "^(?=.)([0-9]+d)?([0-9]+h)?([0-9]+m)?([0-9]+s)?$"}};
}

Json to_schema(const Flag&) { return {{"type", "boolean"}}; }

/// YAML reads an unquoted name such as 2020 as a number.
Json to_schema(const Text&) { return {{"type", {"string", "number", "boolean"}}}; }

/// One value or a list of values.
Json one_or_list(const Json& item) {
  return {{"anyOf", {item, {{"type", "array"}, {"items", item}}}}};
}

Json to_schema(const FilePaths&) { return one_or_list(to_schema(Text())); }

Json to_schema(const WholeNumbers& domain) { return one_or_list(to_schema(domain.number)); }

Json to_schema(const RunPath&) {
  return {{"type", {"string", "number", "boolean"}}, {"pattern", "^(?!~)"}};
}

Json to_schema(const OneOf& domain) { return {{"enum", domain.names}}; }

Json to_schema(const Domain& domain) {
  return std::visit([](const auto& each) { return to_schema(each); }, domain.any());
}

Json value_to_json(const FieldValue& value, const Domain& domain) {
  return std::visit(
      [&]<class T>(const T& each) -> Json {
        if constexpr (std::is_same_v<T, FileList>) {
          return each.names();
        } else if constexpr (std::is_same_v<T, std::optional<double>>) {
          return each ? Json(*each) : Json(domain.print(value));
        } else if constexpr (std::is_same_v<T, std::chrono::seconds>) {
          return domain.print(value);
        } else {
          return each;
        }
      },
      value);
}

std::string description(const Field& field) {
  std::string text(field.meaning);
  const Use& use = field.use;
  if (!use.selector.empty()) {
    text += "; only with " + use.selector + ": " + list_in_words(use.choices);
  }
  return text;
}

/// The values that a key may have, by its path, such as "model.kind".
struct AllowedValues {
  std::string path;
  Json values;  ///< a list
};

/// A schema of the configs in which a key has one of the values, or is missing if `or_missing`.
Json has_value(const AllowedValues& allowed, bool or_missing) {
  const std::size_t dot = allowed.path.find('.');
  const std::string section = allowed.path.substr(0, dot), key = allowed.path.substr(dot + 1);
  Json of_section = {{"properties", {{key, {{"enum", allowed.values}}}}}};
  if (!or_missing) of_section["required"] = {key};
  Json schema = {{"properties", {{section, std::move(of_section)}}}};
  if (!or_missing) schema["required"] = {section};
  return schema;
}

/// The rules between keys that are lists of values: which keys a value of another key uses, and
/// which data and scores a kind of model has.
class KeyRules {
 public:
  /// defaults  of all keys, by path
  explicit KeyRules(const std::map<std::string, Json>& defaults) : defaults_(defaults) {}

  /// A key that is used only with some values of another one has its default with all others.
  void add_use(const Field& field) {
    const Use& use = field.use;
    if (use.selector.empty()) return;
    const Json condition = has({use.selector, use.choices});
    AllowedValues allowed{field.path(), Json::array({defaults_.at(field.path())})};
    if (allowed.values[0] == Json::array()) allowed.values.push_back("");  // a list of no files
    const Json otherwise = has_value(allowed, true);
    for (Json& rule : rules_) {
      if (rule["if"] != condition || !rule.contains("else")) continue;
      rule["else"].merge_patch(otherwise);
      return;
    }
    rules_.push_back({{"if", condition}, {"else", otherwise}});
  }

  /// The data and the scores of each kind of model.
  void add_kinds() {
    std::vector<std::string> metrics(std::begin(common_best_metrics),
                                     std::end(common_best_metrics));
    for (const ConfigKind& kind : model_kinds()) {
      Json of_kind = metrics;
      for (const std::string_view score : kind.scores) of_kind.push_back(score);
      const Json tasks = data_tasks_for(kind.name);
      rules_.push_back(
          {{"if", has({"model.kind", {kind.name}})},
           {"then",
            {{"allOf", {has({"data.task", tasks}), has({"train.best_metric", of_kind})}}}}});
    }
  }

  Json take() { return std::move(rules_); }

 private:
  /// A missing key has its default.
  Json has(const AllowedValues& allowed) const {
    const Json& values = allowed.values;
    const bool of_default = std::ranges::find(values, defaults_.at(allowed.path)) != values.end();
    return has_value(allowed, of_default);
  }

  const std::map<std::string, Json>& defaults_;
  Json rules_ = Json::array();
};

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

std::set<std::string_view> foreign_key_names() {
  std::set<std::string_view> names;
  for (const Synonyms& key : synonyms()) {
    for (const std::string_view name : words_of(key.names)) names.insert(name);
  }
  return names;
}

std::vector<ExplainedKey> explain_config(const std::string& path,
                                         const std::vector<std::string>& overrides) {
  const ConfigWithOrigins loaded = load_config_with_origins(path, overrides);
  const auto& percentages = loaded.config.step_percentages;
  std::vector<ConfigKey> keys = config_keys();
  std::vector<ExplainedKey> explained;
  for_each_field(loaded.config,
                 [&](const Field& field, const FieldValue& value, const Domain& domain) {
                   const std::string name = field.path();
                   const auto percentage = percentages.find(name);
                   explained.push_back({.key = std::move(keys.at(explained.size())),
                                        .value = domain.print(value),
                                        .percent = percentage == percentages.end()
                                                       ? std::nullopt
                                                       : std::optional(percentage->second.percent),
                                        .origin = describe_origin(name, loaded.origins),
                                        .in_use = field.use.in_use()});
                 });
  return explained;
}

std::string to_yaml(const std::vector<ExplainedKey>& keys) {
  std::string text;
  std::string_view section;
  for (const ExplainedKey& each : keys) {
    if (each.key.section != section) {
      text += fmt::format("{}{}:\n", text.empty() ? "" : "\n", each.key.section);
    }
    section = each.key.section;
    const std::string assignment =
        fmt::format("{}{}: {}", each.in_use ? "" : "# ", each.key.key, each.value);
    text += fmt::format("  # {}\n  {:<32} # {}\n", comment_above(each), assignment,
                        comment_beside(each));
  }
  return text;
}

std::string config_schema() {
  Json sections = Json::object();
  std::map<std::string, Json> default_values;
  const Config defaults;
  for_each_field(defaults, [&](const Field& field, const FieldValue& value, const Domain& domain) {
    Json& section = sections[std::string(field.section)];
    if (section.is_null()) {
      section = {{"type", "object"}, {"additionalProperties", false}, {"properties", {}}};
    }
    Json key = to_schema(domain);
    key["description"] = description(field);
    key["default"] = default_values[field.path()] = value_to_json(value, domain);
    section["properties"][std::string(field.key)] = std::move(key);
  });
  KeyRules rules(default_values);
  for_each_field(defaults,
                 [&](const Field& field, const auto&, const auto&) { rules.add_use(field); });
  rules.add_kinds();
  const Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                       {"title", "Config of tapestry"},
                       {"type", "object"},
                       {"additionalProperties", false},
                       {"patternProperties", {{"^x-", {{"type", "object"}}}}},
                       {"properties", std::move(sections)},
                       {"allOf", rules.take()}};
  return schema.dump(2);
}

}  // namespace tapestry
