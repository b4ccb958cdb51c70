// SPDX-License-Identifier: BSD-3-Clause
#include "train/report/computation.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "autograd/ops/activations.h"
#include "autograd/tape.h"
#include "data/batch.h"
#include "data/io/number.h"
#include "train/base/format.h"
#include "train/base/program.h"

namespace tapestry {
namespace {

/// Records the operations of a tape and the gradients of their outputs.
class StepRecorder : public TapeObserver {
 public:
  explicit StepRecorder(const Parameters& parameters) {
    for (const auto& [name, tensor] : parameters) parameters_[tensor.identity()] = name;
  }

  void forward_ran(const RecordedCall& call) override {
    TracedStep step{.operation = call.operation,
                    .formula = call.formula,
                    .derivative = call.derivative,
                    .layer = *call.layer_path,
                    .inputs = {},
                    .output = call.output,
                    .gradient = {},
                    .attention = {}};
    for (const Tensor& input : call.inputs) {
      if (input.defined()) step.inputs.push_back(traced(input));
    }
    // Attention begins its trace before the tape records the operation.
    if (tracer_.traces().size() > num_attentions_)
      step.attention = tracer_.traces()[num_attentions_++];
    if (call.operation == logits_reader) logits_step_ = step.inputs.at(0).step;
    indices_[call.output.slot().get()] = steps.size();
    steps.push_back(std::move(step));
  }

  void backward_ran(const GradientSlot& output, const Tensor& dy) override {
    const auto found = indices_.find(&output);
    if (found != indices_.end()) steps[found->second].gradient = dy.clone();
  }

  bool splits_fused() const override { return true; }

  /// The input of the last cross entropy; undefined if there was no cross entropy.
  Tensor logits() const { return logits_step_ ? steps[*logits_step_].output : Tensor(); }

  std::vector<TracedStep> steps;

 private:
  static constexpr std::string_view logits_reader = "cross_entropy";

  TracedInput traced(const Tensor& input) const {
    TracedInput traced{.step = {}, .parameter = {}, .value = input};
    const auto step = indices_.find(input.slot().get());
    if (step != indices_.end()) {
      traced.step = step->second;
    } else if (const auto name = parameters_.find(input.identity()); name != parameters_.end()) {
      traced.parameter = name->second;
    }
    return traced;
  }

  AttentionTracer tracer_;
  std::size_t num_attentions_ = 0;                           // number of attention steps so far
  std::unordered_map<const void*, std::string> parameters_;  // names by tensor identity
  std::unordered_map<const GradientSlot*, std::size_t> indices_;  // step indices by output
  std::optional<std::size_t> logits_step_;
};

}  // namespace

ComputationTrace trace_computation(Model& model, const NetworkInput& input, const Ids& labels) {
  const Network& network = *model.network;
  const Mode mode = Mode::inference();
  model.parameters.zero_grad();
  StepRecorder recorder(model.parameters);
  Tape tape(&recorder);
  const Tensor features = network.features(network.embed(input, mode), input, mode);
  const Loss loss = network.loss(features, labels, {.ignored_id = no_label});
  Tensor logits = recorder.logits();
  if (!logits.defined()) {
    const NoGrad no_grad;
    logits = network.logits(features);
  }
  tape.backward(loss.mean);
  return {
      .steps = std::move(recorder.steps), .logits = std::move(logits), .loss = loss.mean.item()};
}

namespace {

using Json = nlohmann::ordered_json;

/// The maximum number of values shown for one parameter, and for all parameters together.
constexpr std::size_t max_parameter_values = 20'000;
constexpr std::size_t max_values = 200'000;

/// The maximum number of values of a tensor that is written with six digits.
constexpr std::size_t small_tensor = 4096;

/// A number rounded to `digits` significant digits; 0 keeps all digits.
Json number(double value, int digits) {
  if (digits == 0) return value;
  if (std::isnan(value)) return nullptr;
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return parse_number<double>(fmt::format("{:.{}g}", value, digits)).value();
}

/// The tensors of the data. Steps refer to them by index.
class TensorTable {
 public:
  /// Adds a tensor and returns its index; null for an undefined tensor.
  Json add(const Tensor& x) {
    if (!x.defined()) return nullptr;
    tensors_.push_back(x);
    return tensors_.size() - 1;
  }

  Json to_json(bool exact) const {
    Json list = Json::array();
    for (const Tensor& x : tensors_) {
      const int digits = exact ? 0 : x.size() <= small_tensor ? 6 : 4;
      Json values = Json::array();
      for (const double value : x.to_vector()) values.push_back(number(value, digits));
      Json entry{{"shape", x.shape()}};
      if (!exact) entry["digits"] = digits;
      entry["values"] = std::move(values);
      list.push_back(std::move(entry));
    }
    return list;
  }

 private:
  std::vector<Tensor> tensors_;
};

/// Whether register_task() added the kind of model.
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

/// Builds the JSON of an explained computation.
class ComputationJson {
 public:
  ComputationJson(const ExplainedComputation& explained, std::size_t top)
      : explained_(explained),
        task_(find_task(explained.config)),
        is_custom_(is_custom(task_)),
        num_top_(top),
        token_names_(
            task_.answers().stack_tokens(explained.batch, explained.config, explained.codec)) {}

  Json make(bool exact) {
    Json steps = Json::array();
    for (const TracedStep& step : explained_.trace.steps) steps.push_back(step_to_json(step));
    Json data{{"program", fmt::format("tapestry {}", program_version)},
              {"time", format_time(std::time(nullptr))},
              {"model", explained_.origin},
              {"kind", task_.kind().name},
              {"custom", is_custom_},
              {"has_two_stacks", task_.traits().has_two_stacks()},
              {"causal", explained_.model.network->causal()},
              {"dtype", name(explained_.model.parameters.dtype())},
              {"loss", explained_.trace.loss},
              {"labels", explained_.labels},
              {"tokens", {{"encoder", token_names_.encoder}, {"decoder", token_names_.decoder}}},
              {"outputs", outputs()},
              {"input", input()},
              {"predictions", predictions()},
              {"steps", std::move(steps)},
              {"parameters", parameters()}};
    data["tensors"] = tensors_.to_json(exact);
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
    const Batch& batch = explained_.batch;
    Json input = Json::object();
    if (!batch.source.empty()) input["source"] = tokens(token_names_.encoder, batch.source);
    if (!task_.traits().one_label_per_example)
      input["target"] = tokens(token_names_.decoder, batch.input);
    if (!batch.pixels.empty()) {
      const DataOptions& data = explained_.config.data;
      input["image"] = {{"height", data.images.image_height},
                        {"width", data.images.image_width},
                        {"channels", data.images.image_channels},
                        {"patch_size", explained_.config.model.patch_size},
                        {"pixels", batch.pixels}};
    }
    return input;
  }

  /// The names of the columns of the logits; null if there are more than `max_outputs`.
  Json outputs() const {
    constexpr std::size_t max_outputs = 20'000;
    const std::size_t count = explained_.trace.logits.shape().back();
    if (count > max_outputs) return nullptr;
    Json names = Json::array();
    for (std::size_t id = 0; id < count; ++id) names.push_back(prediction_name(explained_, id));
    return names;
  }

  Json predictions() const {
    // Computed in float64, since -log(p) of a probability rounded to float32 would have few correct
    // digits.
    const Tensor exact = explained_.trace.logits.to(DType::float64);
    const std::vector<double> probabilities = softmax(exact).to_vector(),
                              log_probabilities = log_softmax(exact).to_vector(),
                              logits = explained_.trace.logits.to_vector();
    const std::size_t width = exact.shape().back();
    Json list = Json::array();
    for (std::size_t i = 0; i < probabilities.size() / width; ++i) {
      const std::span row(probabilities.data() + i * width, width);
      std::vector<std::size_t> order(width);
      std::iota(order.begin(), order.end(), std::size_t{0});
      const std::size_t count = std::min(num_top_, width);
      std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(count),
                                [&](std::size_t a, std::size_t b) {
                                  return std::pair(-row[a], a) < std::pair(-row[b], b);
                                });
      const auto entry = [&](std::size_t id) {
        return Json{{"token", prediction_name(explained_, id)},
                    {"id", id},
                    {"logit", logits[i * width + id]},
                    {"probability", row[id]}};
      };
      Json top = Json::array();
      for (std::size_t k = 0; k < count; ++k) top.push_back(entry(order[k]));
      const std::int32_t id = explained_.batch.labels.at(i);
      Json label;
      if (id != no_label) {
        label = entry(static_cast<std::size_t>(id));
        label["loss"] = -log_probabilities[i * width + static_cast<std::size_t>(id)];
      }
      list.push_back({{"label", std::move(label)}, {"top", std::move(top)}});
    }
    return list;
  }

  /// The stack of a custom model that has `count` tokens: "encoder" or "decoder". Null if neither
  /// stack has `count` tokens, or if both have `count` different tokens.
  Json stack_with(std::size_t count) const {
    const bool encoder = token_names_.encoder.size() == count,
               decoder = token_names_.decoder.size() == count;
    if (encoder && decoder && token_names_.encoder != token_names_.decoder) return nullptr;
    return decoder ? Json("decoder") : encoder ? Json("encoder") : Json();
  }

  /// The tokens that the rows of a step's output belong to: "encoder", "decoder" or "patches"; null
  /// if the rows are not tokens.
  Json rows(const TracedStep& step) {
    const Shape& shape = step.output.shape();
    if (shape.rank() < 2) return nullptr;
    const std::string_view layer = step.layer;
    const std::size_t count = shape[shape.rank() - 2];
    if (is_custom_) return stack_with(count);
    const auto fits = [&](const Tokens& names) { return names.size() == count; };
    bool encoder = layer.starts_with("encoder") || layer.starts_with("source_") ||
                   layer.ends_with("cross_attn.k_proj") || layer.ends_with("cross_attn.v_proj");
    // With tied embeddings, the first embedding step reads the source.
    if (step.operation == "embedding" && task_.traits().has_two_stacks())
      encoder = num_embeddings_++ == 0;
    if (encoder && fits(token_names_.encoder)) return "encoder";
    if (fits(token_names_.decoder)) return "decoder";
    if (fits(token_names_.encoder)) return "encoder";
    if (layer.starts_with("patches") && count + 1 == token_names_.encoder.size()) return "patches";
    return nullptr;
  }

  Json attention(const TracedStep& step) {
    const AttentionTrace& trace = *step.attention;
    const bool encoder = step.layer.starts_with("encoder");
    const bool cross = step.layer.ends_with("cross_attn");
    const Shape& scores = trace.products.shape();  // (1, heads, queries, keys)
    return {{"heads", trace.num_heads},
            {"scale", trace.scale},
            {"queries", is_custom_ ? stack_with(scores[2])
                        : encoder  ? "encoder"
                                   : "decoder"},
            {"keys", is_custom_         ? stack_with(scores[3])
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
    json["shape"] = input.value.shape();
    return json;
  }

  Json step_to_json(const TracedStep& step) {
    Json inputs = Json::array();
    for (const TracedInput& input : step.inputs) inputs.push_back(input_to_json(input));
    Json json{{"operation", step.operation},
              {"layer", step.layer},
              {"formula", step.formula},
              {"gradient_formula", step.derivative},
              {"inputs", std::move(inputs)},
              {"rows", rows(step)},
              {"logits", step.output.identity() == explained_.trace.logits.identity()},
              {"output", tensors_.add(step.output)},
              {"gradient", tensors_.add(step.gradient)}};
    if (step.attention) json["attention"] = attention(step);
    return json;
  }

  /// All parameters with their norms. Small parameters also have values and gradients.
  Json parameters() {
    Json all = Json::object();
    std::size_t values = 0;
    for (const auto& [path, parameter] : explained_.model.parameters) {
      const Tensor gradient = parameter.grad();
      Json json{{"shape", parameter.shape()},
                {"norm", norm(parameter)},
                {"gradient_norm", gradient.defined() ? Json(norm(gradient)) : Json()}};
      const bool shown =
          parameter.size() <= max_parameter_values && values + parameter.size() <= max_values;
      if (shown) {
        values += parameter.size();
        json["value"] = tensors_.add(parameter);
        json["gradient"] = tensors_.add(gradient);
      }
      all[path] = std::move(json);
    }
    return all;
  }

  const ExplainedComputation& explained_;
  const Task& task_;
  bool is_custom_;  // see is_custom()
  std::size_t num_top_;
  StackTokens token_names_;
  TensorTable tensors_;
  std::size_t num_embeddings_ = 0;  // number of embedding steps so far
};

}  // namespace

nlohmann::ordered_json computation_json(const ExplainedComputation& explained, std::size_t top,
                                        bool exact) {
  return ComputationJson(explained, top).make(exact);
}

}  // namespace tapestry
