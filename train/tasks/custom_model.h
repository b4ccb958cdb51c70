// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "train/config/kind.h"
#include "train/tasks/task.h"

namespace tapestry {

/// Options of CustomModel.
struct CustomModelOptions {
  std::string kind;  ///< the new value of model.kind
  std::string like;  ///< an existing kind, whose data, batches, scores and answers are used
  std::vector<CustomKey> custom_keys{};  ///< keys of the network, for Config::custom_value()
  /// The built-in keys that the network reads from Config::model, such as "model.d_model". Other
  /// keys of the model section are then rejected in a config unless they have the default, and
  /// rules about these keys, such as the rule that d_model is a multiple of num_heads, do not
  /// apply. If nullopt, uses the keys of `like`. model.kind and model.max_length are always used.
  std::optional<std::vector<std::string>> model_keys{};
  /// Creates the network with its parameters in the scope; must not be empty. Its logits have
  /// NetworkSizes::target values for each label.
  std::function<std::unique_ptr<Network>(const Scope&, const Config&, const NetworkSizes&)>
      make_network;
  /// Reports values that contradict each other. Replaces ConfigKind::check of `like`; may be empty.
  std::function<void(const Config&, const ConfigCheck&)> check{};
};

/// A value of model.kind with a custom network. Training, scoring and inference use the data,
/// batches, scores and answers of an existing kind.
///
/// The results of the network are checked, as for any registered task: a CustomModelError states
/// which function threw an exception, or returned a tensor with a wrong shape or element type.
/// run_program() makes and registers the models of ProgramOptions; other programs do this
/// themselves:
///
///     static const CustomModel model({.kind = "mlp",
///                                     .like = "vision_transformer",
///                                     .make_network = [](const Scope& scope, const Config& config,
///                                                        const NetworkSizes& sizes) {
///                                       return std::make_unique<Mlp>(scope, config, sizes);
///                                     }});
///     register_task(model);
class CustomModel : public Task {
 public:
  /// The kind with these options; register_task() makes it known to the program.
  ///
  /// throws  CustomModelError if the name or make_network is empty, `like` is not an existing kind,
  ///         or a key of model_keys does not exist.
  explicit CustomModel(CustomModelOptions options);
  CustomModel(const CustomModel&) = delete;
  CustomModel& operator=(const CustomModel&) = delete;

  const ConfigKind& kind() const override { return kind_; }
  std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) const override;

  // The following functions return the results of the kind `like`.
  std::vector<const DataSource*> sources() const override { return like_.sources(); }
  TaskWords words(const Config& config) const override { return like_.words(config); }
  std::string describe_vocabularies(const Corpus& corpus) const override {
    return like_.describe_vocabularies(corpus);
  }
  std::string describe_size(const Batch& batch) const override {
    return like_.describe_size(batch);
  }
  const RowLayout& layout() const override { return like_.layout(); }
  const RowLayout& inference_layout() const override { return like_.inference_layout(); }
  TaskTraits traits() const override { return like_.traits(); }
  Scores evaluate(const Model& model, const Config& config, const BatchRules& rules,
                  const EvaluationSet& set, std::size_t decoded) const override {
    return like_.evaluate(model, config, rules, set, decoded);
  }
  std::string format_scores(const Scores& scores, const Config& config) const override {
    return like_.format_scores(scores, config);
  }
  std::vector<std::pair<std::string, std::string>> signatures(const Config& config) const override {
    return like_.signatures(config);
  }
  const TaskAnswers& answers() const override { return like_.answers(); }

 private:
  CustomModelOptions options_;
  const Task& like_;
  ConfigKind kind_;
};

}  // namespace tapestry
