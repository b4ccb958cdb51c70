#include "train/report/computation_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include "autograd/ops/activations.h"
#include "train/format.h"
#include "train/platform/machine.h"
#include "train/report/number_text.h"
#include "train/report/step_text.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

/// Parameters of this many values, and together of that many, are shown with their values.
constexpr std::size_t most_values_of_parameter = 20'000;
constexpr std::size_t most_values_of_parameters = 200'000;

/// Tensors of at most this many values have six digits.
constexpr std::size_t small_tensor = 4096;

std::string_view value_bytes(const Tensor& x) {
  return dispatch(x.dtype(), [&]<class T>() {
    const auto bytes = std::as_bytes(x.values<T>());
    return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  });
}

Json shape_to_json(const Shape& shape) {
  Json extents = Json::array();
  for (std::size_t i = 0; i < shape.rank(); ++i) extents.push_back(shape[i]);
  return extents;
}

/// Tensors by number; equal ones are stored once.
class TensorTable {
 public:
  /// The number of the tensor; null for an absent one.
  Json add(const Tensor& x) {
    if (!x.defined()) return nullptr;
    const std::size_t digest = std::hash<std::string_view>{}(value_bytes(x));
    const auto [begin, end] = numbers_.equal_range(digest);
    for (auto i = begin; i != end; ++i) {
      const Tensor& other = tensors_[i->second];
      if (other.shape() == x.shape() && value_bytes(other) == value_bytes(x)) return i->second;
    }
    numbers_.emplace(digest, tensors_.size());
    tensors_.push_back(x);
    return tensors_.size() - 1;
  }

  Json to_json(const NumberStorage& storage) const {
    Json list = Json::array();
    const std::vector<NumberDigits> digits = choose_digits(storage.characters);
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const std::vector<double> values = tensors_[i].to_vector();
      Json entry{{"shape", shape_to_json(tensors_[i].shape())}};
      if (storage.as_text) {
        const NumberText text = numbers_to_text(values, digits[i]);
        entry["digits"] = static_cast<int>(digits[i]);
        entry["exponent"] = text.exponent;
        entry["text"] = text.text;
      } else {
        entry["values"] = values;
      }
      list.push_back(std::move(entry));
    }
    return list;
  }

 private:
  std::size_t characters(std::size_t i, NumberDigits digits) const {
    return tensors_[i].size() * characters_per_number(digits);
  }

  /// Fewer digits, from the largest tensor on, until all fit.
  std::vector<NumberDigits> choose_digits(std::size_t most) const {
    std::vector<NumberDigits> digits;
    std::vector<std::size_t> order(tensors_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](std::size_t i) { return tensors_[i].size(); });
    std::size_t total = 0;
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      const bool small = tensors_[i].size() <= small_tensor;
      digits.push_back(small ? NumberDigits::six : NumberDigits::four);
      total += characters(i, digits.back());
    }
    for (const std::size_t i : order) {
      if (total <= most || digits[i] == NumberDigits::six) break;
      total -= characters(i, digits[i]);
      digits[i] = NumberDigits::three;
      total += characters(i, digits[i]);
    }
    return digits;
  }

  std::vector<Tensor> tensors_;
  std::multimap<std::size_t, std::size_t> numbers_;  // by digest
};

/// The values of all keys of a config, as in YAML.
std::map<std::string, std::string> key_values(const Config& config) {
  std::map<std::string, std::string> values;
  std::string section;
  const std::string text = dump_config(config);
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    const std::size_t colon = line.find(':');
    if (colon == line.npos) continue;
    if (line.front() != ' ') {
      section = line.substr(0, colon);
    } else {
      values[fmt::format("{}.{}", section, line.substr(2, colon - 2))] =
          line.substr(std::min(colon + 2, line.size()));
    }
  }
  return values;
}

bool contains(const std::vector<std::string_view>& keys, std::string_view key) {
  return std::ranges::find(keys, key) != keys.end();
}

/// Whether a kind of model reads a key of the model section.
bool has_key(const ConfigKind& kind, std::string_view key) {
  if (kind.model_keys) return kind.uses(key);
  return contains(kind.keys, key) || std::ranges::none_of(all_tasks(), [&](const Task* task) {
           return contains(task->kind().keys, key);
         });
}

/// Whether `operation` is what the value of a key that names operations chooses.
bool chooses(std::string_view key, std::string_view value, std::string_view operation) {
  const auto is = [&](std::string_view more) {
    return operation.starts_with(value) && operation.substr(value.size()) == more;
  };
  if (key == "model.activation") return is("") || is("_dropout");
  if (key == "model.normalization") return is("") || is("_given");
  return true;
}

/// Whether the kind of model is one that register_task() has added.
bool is_custom(const Task& task) {
  const std::vector<std::string> kinds = custom_kinds();
  return std::ranges::find(kinds, task.kind().name) != kinds.end();
}

/// The name of a prediction: a token, or a class.
std::string prediction_name(const ExplainedComputation& e, std::size_t id) {
  const bool classes = find_task(e.config).layout().labels_are_classes;
  const std::size_t token = id + (classes ? static_cast<std::size_t>(first_word_id) : 0);
  const Vocabulary& names = e.codec.target_vocabulary();
  return token < names.size() ? names.token(static_cast<std::int32_t>(token))
                              : fmt::format("{}", id);
}

double norm(const Tensor& x) {
  double sum = 0.0;
  for (const double v : x.to_vector()) sum += v * v;
  return std::sqrt(sum);
}

class Builder {
 public:
  Builder(const ExplainedComputation& explained, std::size_t top)
      : e_(explained),
        task_(find_task(explained.config)),
        custom_(is_custom(task_)),
        top_(top),
        names_(task_.stack_tokens(explained.batch, explained.config, explained.codec)),
        keys_(key_values(explained.config)) {}

  Json build(const NumberStorage& storage) {
    const Json predicted = predictions();
    own_loss_ = !is_mean(predicted);
    Json steps = Json::array();
    for (const TracedStep& step : e_.trace.steps) steps.push_back(step_to_json(step));
    Json data{{"program", fmt::format("tapestry {}", program_version)},
              {"time", format_time(std::time(nullptr))},
              {"model", e_.origin},
              {"kind", task_.kind().name},
              {"custom", custom_},
              {"has_two_stacks", task_.has_two_stacks()},
              {"causal", e_.model.network->causal()},
              {"dtype", name(e_.model.parameters.dtype())},
              {"loss", e_.trace.loss},
              {"own_loss", own_loss_},
              {"labels", e_.labels},
              {"tokens", {{"encoder", names_.encoder}, {"decoder", names_.decoder}}},
              {"outputs", outputs()},
              {"input", input()},
              {"predictions", predicted},
              {"steps", std::move(steps)},
              {"parameters", parameters()}};
    data["tensors"] = tensors_.to_json(storage);
    return data;
  }

 private:
  static Json tokens(const Tokens& names, const std::vector<std::int32_t>& ids) {
    Json list = Json::array();
    for (std::size_t i = 0; i < std::min(names.size(), ids.size()); ++i) {
      list.push_back({{"token", names[i]}, {"id", ids[i]}});
    }
    return list;
  }

  Json input() {
    const Batch& batch = e_.batch;
    Json input = Json::object();
    if (!batch.source.empty()) input["source"] = tokens(names_.encoder, batch.source);
    if (!task_.one_label_per_example()) input["target"] = tokens(names_.decoder, batch.input);
    if (!batch.pixels.empty()) {
      const DataOptions& data = e_.config.data;
      input["image"] = {{"height", data.image_height},
                        {"width", data.image_width},
                        {"channels", data.image_channels},
                        {"patch_size", e_.config.model.patch_size},
                        {"pixels", batch.pixels}};
    }
    return input;
  }

  /// The names of all outputs, columns of the logits; null if they are many.
  Json outputs() const {
    constexpr std::size_t most = 20'000;
    const std::size_t count = e_.trace.logits.shape().back();
    if (count > most) return nullptr;
    Json names = Json::array();
    for (std::size_t id = 0; id < count; ++id) names.push_back(prediction_name(e_, id));
    return names;
  }

  Json predictions() const {
    // In float64, since the loss has few exact digits if it is computed from rounded probabilities.
    const Tensor exact = e_.trace.logits.copied(DType::float64);
    const std::vector<double> probabilities = softmax(exact).to_vector(),
                              log_probabilities = log_softmax(exact).to_vector(),
                              logits = e_.trace.logits.to_vector();
    const std::size_t width = exact.shape().back();
    Json list = Json::array();
    for (std::size_t i = 0; i < probabilities.size() / width; ++i) {
      const std::span of_position(probabilities.data() + i * width, width);
      std::vector<std::size_t> order(width);
      std::iota(order.begin(), order.end(), std::size_t{0});
      const std::size_t count = std::min(top_, width);
      std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                                [&](std::size_t a, std::size_t b) {
                                  return std::pair(-of_position[a], a) <
                                         std::pair(-of_position[b], b);
                                });
      const auto entry = [&](std::size_t id) {
        return Json{{"token", prediction_name(e_, id)},
                    {"id", id},
                    {"logit", logits[i * width + id]},
                    {"probability", of_position[id]}};
      };
      Json top = Json::array();
      for (std::size_t k = 0; k < count; ++k) top.push_back(entry(order[k]));
      const std::int32_t id = e_.batch.labels.at(i);
      Json label;
      if (id != no_label) {
        label = entry(static_cast<std::size_t>(id));
        label["loss"] = -log_probabilities[i * width + static_cast<std::size_t>(id)];
      }
      list.push_back({{"label", std::move(label)}, {"top", std::move(top)}});
    }
    return list;
  }

  /// Whether the loss is the mean of the losses of the labels, up to rounding in float32.
  bool is_mean(const Json& predicted) const {
    double sum = 0.0;
    std::size_t labels = 0;
    for (const Json& prediction : predicted) {
      if (prediction["label"].is_null()) continue;
      sum += prediction["label"]["loss"].get<double>();
      ++labels;
    }
    const double mean = sum / static_cast<double>(std::max<std::size_t>(labels, 1));
    if (!std::isfinite(mean) || !std::isfinite(e_.trace.loss)) {
      return e_.trace.steps.back().operation == "cross_entropy";
    }
    return std::abs(e_.trace.loss - mean) <= 1e-4 * mean + 1e-6;
  }

  /// The stack of a model of another program that has `count` tokens; null if both or none have.
  Json stack_with(std::size_t count) const {
    const bool encoder = names_.encoder.size() == count, decoder = names_.decoder.size() == count;
    if (encoder && decoder && names_.encoder != names_.decoder) return nullptr;
    return decoder ? Json("decoder") : encoder ? Json("encoder") : Json();
  }

  /// The stack whose tokens are the rows of a step's output, and which of them is the first row;
  /// null if the rows are not tokens.
  Json rows(const TracedStep& step) {
    const Shape& shape = step.output.shape();
    if (shape.rank() < 2) return nullptr;
    const std::string_view layer = step.layer;
    const std::size_t count = shape[shape.rank() - 2];
    if (custom_) return stack_with(count);
    const auto fits = [&](const Tokens& names) { return names.size() == count; };
    bool encoder = layer.starts_with("encoder") || layer.starts_with("source_") ||
                   layer.ends_with("cross_attn.k_proj") || layer.ends_with("cross_attn.v_proj");
    // With tied embeddings, the first one is that of the source.
    if (step.operation == "embedding" && task_.has_two_stacks()) encoder = embeddings_++ == 0;
    if (encoder && fits(names_.encoder)) return "encoder";
    if (fits(names_.decoder)) return "decoder";
    if (fits(names_.encoder)) return "encoder";
    if (layer.starts_with("patches") && count + 1 == names_.encoder.size()) return "patches";
    return nullptr;
  }

  Json attention(const TracedStep& step) {
    const AttentionTrace& trace = *step.attention;
    const bool encoder = step.layer.starts_with("encoder");
    const bool cross = step.layer.ends_with("cross_attn");
    const Shape& scores = trace.products.shape();  // (1, heads, queries, keys)
    return {{"heads", trace.num_heads},
            {"scale", trace.scale},
            {"formula", custom_ ? score_formula(step.operation) : score_formula(e_.config)},
            {"queries", custom_   ? stack_with(scores[2])
                        : encoder ? "encoder"
                                  : "decoder"},
            {"keys", custom_            ? stack_with(scores[3])
                     : encoder || cross ? "encoder"
                                        : "decoder"},
            {"products", tensors_.add(trace.products)},
            {"scores", tensors_.add(trace.scores)},
            {"biased", tensors_.add(trace.biased)},
            {"masked", tensors_.add(trace.masked)},
            {"weights", tensors_.add(trace.weights)},
            {"dweights", tensors_.add(trace.dweights)},
            {"dscores", tensors_.add(trace.dscores)}};
  }

  Json input_to_json(const TracedInput& input) {
    Json json = Json::object();
    if (input.step) {
      json["step"] = *input.step;
    } else if (!input.parameter.empty()) {
      json["parameter"] = input.parameter;
    } else {
      json["constant"] = tensors_.add(input.value);
    }
    json["shape"] = shape_to_json(input.value.shape());
    return json;
  }

  StepText describe(const TracedStep& step) const {
    StepText text = custom_ ? custom_step_text(step.operation, step.layer)
                            : step_text(step.operation, step.layer, e_.config);
    if (step.operation == "embedding") add_scale(text, step.scale, step.output.shape().back());
    if (step.operation == "cross_entropy" && own_loss_) set_own_cross_entropy(text);
    return text;
  }

  /// The keys of a step with their values. A model of another program reads those that it lists.
  Json shown_keys(const TracedStep& step, const StepText& text) const {
    const ConfigKind& kind = task_.kind();
    Json keys = Json::array();
    if (custom_ && !kind.model_keys) return keys;
    for (const std::string& key : text.keys) {
      const auto found = keys_.find(key);
      if (found == keys_.end() || !has_key(kind, key)) continue;
      if (custom_ && !chooses(key, found->second, step.operation)) continue;
      keys.push_back({key, found->second});
    }
    return keys;
  }

  Json step_to_json(const TracedStep& step) {
    const StepText text = describe(step);
    Json inputs = Json::array();
    for (const TracedInput& input : step.inputs) inputs.push_back(input_to_json(input));
    Json json{{"operation", step.operation},
              {"layer", step.layer},
              {"title", text.title},
              {"formula", text.formula},
              {"gradient_formula", text.gradient},
              {"keys", shown_keys(step, text)},
              {"files", text.files},
              {"inputs", std::move(inputs)},
              {"rows", rows(step)},
              {"logits", step.output.identity() == e_.trace.logits.identity()},
              {"output", tensors_.add(step.output)},
              {"gradient", tensors_.add(step.gradient)}};
    if (step.attention) json["attention"] = attention(step);
    return json;
  }

  /// The parameters that steps read. Small ones have values.
  Json parameters() {
    Json all = Json::object();
    std::size_t values = 0;
    for (const auto& [path, parameter] : e_.model.parameters) {
      const Tensor gradient = parameter.gradient();
      Json json{{"shape", shape_to_json(parameter.shape())},
                {"norm", norm(parameter)},
                {"gradient_norm", gradient.defined() ? Json(norm(gradient)) : Json()}};
      const bool shown = parameter.size() <= most_values_of_parameter &&
                         values + parameter.size() <= most_values_of_parameters;
      if (shown) {
        values += parameter.size();
        json["value"] = tensors_.add(parameter);
        json["gradient"] = tensors_.add(gradient);
      }
      all[path] = std::move(json);
    }
    return all;
  }

  const ExplainedComputation& e_;
  const Task& task_;
  bool custom_;            // a model of another program
  bool own_loss_ = false;  // the loss is not the mean of those of the labels
  std::size_t top_;
  StackTokens names_;
  std::map<std::string, std::string> keys_;
  TensorTable tensors_;
  std::size_t embeddings_ = 0;  // steps so far
};

}  // namespace

nlohmann::ordered_json computation_json(const ExplainedComputation& explained, std::size_t top,
                                        const NumberStorage& storage) {
  return Builder(explained, top).build(storage);
}

}  // namespace tapestry
