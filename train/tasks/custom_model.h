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
  std::string like;  ///< the existing kind that has the same data, batches, scores and answers
  std::vector<CustomKey> custom_keys{};  ///< keys of the network, for Config::custom_value()
  /// The keys of all models that the network reads from Config::model, such as "model.d_model".
  /// Other keys of the model section are then refused in a config unless they have the default, and
  /// rules about them, such as that d_model is a multiple of num_heads, do not apply. nullopt: the
  /// keys of `like`. model.kind and model.max_length are always used.
  std::optional<std::vector<std::string>> model_keys{};
  /// Creates the network with its parameters in the scope; must not be empty. Its logits have
  /// NetworkSizes::target values for each label.
  std::function<std::unique_ptr<Network>(const Scope&, const Config&, const NetworkSizes&)>
      make_network;
  /// Reports values that contradict each other, in place of ConfigKind::check of `like`; may be
  /// empty.
  std::function<void(const Config&, const ConfigCheck&)> check{};
};

/// A value of model.kind with a custom network, which is otherwise trained, scored and
/// applied like an existing kind: it has its data, batches, scores and answers.
///
/// The results of the network are checked, as those of any registered task: a CustomModelError says
/// which function has thrown, or returned a tensor of another shape or element type than expected.
/// run_program() makes and registers the models of ProgramOptions; other programs do it themselves:
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
  /// throws  CustomModelError if the name or make_network is empty, `like` is no kind or a key of
  ///         model_keys does not exist.
  explicit CustomModel(CustomModelOptions options);
  CustomModel(const CustomModel&) = delete;
  CustomModel& operator=(const CustomModel&) = delete;

  const ConfigKind& kind() const override { return kind_; }
  std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                        const NetworkSizes& sizes) const override;

  // As the kind that it is like.
  std::vector<const DataSource*> sources() const override { return like_.sources(); }
  std::string example_noun(const Config& config) const override {
    return like_.example_noun(config);
  }
  std::string target_noun(const Config& config) const override { return like_.target_noun(config); }
  std::string describe_vocabularies(const Corpus& corpus) const override {
    return like_.describe_vocabularies(corpus);
  }
  std::string describe_size(const Batch& batch) const override {
    return like_.describe_size(batch);
  }
  const RowLayout& layout() const override { return like_.layout(); }
  const RowLayout& inference_layout() const override { return like_.inference_layout(); }
  bool reads_images() const override { return like_.reads_images(); }
  bool reads_source() const override { return like_.reads_source(); }
  bool one_label_per_example() const override { return like_.one_label_per_example(); }
  bool has_encoder() const override { return like_.has_encoder(); }
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
  std::vector<ShownExample> show(const TrainedModel& trained,
                                 const std::vector<Example>& examples) const override {
    return like_.show(trained, examples);
  }
  Example read_text(std::string_view text, const TextCodec& codec) const override {
    return like_.read_text(text, codec);
  }
  TokenLimit token_limit(const Config& config) const override { return like_.token_limit(config); }
  LengthWords length_words() const override { return like_.length_words(); }
  bool generates_text() const override { return like_.generates_text(); }
  const LineCommand* command() const override { return like_.command(); }
  const char* input_hint() const override { return like_.input_hint(); }
  std::optional<Example> read_line(const std::string& line, std::size_t number,
                                   const std::string& place,
                                   const TrainedModel& trained) const override {
    return like_.read_line(line, number, place, trained);
  }
  std::vector<std::string> answer(const TrainedModel& trained,
                                  const std::vector<Example>& examples) const override {
    return like_.answer(trained, examples);
  }
  std::vector<std::string> rank(const TrainedModel& trained, const std::vector<Example>& examples,
                                std::size_t count) const override {
    return like_.rank(trained, examples, count);
  }
  Example with_own_target(Example example, const Model& model,
                          const Config& config) const override {
    return like_.with_own_target(std::move(example), model, config);
  }
  StackTokens stack_tokens(const Batch& batch, const Config& config,
                           const TextCodec& codec) const override {
    return like_.stack_tokens(batch, config, codec);
  }

 private:
  CustomModelOptions options_;
  const Task& like_;
  ConfigKind kind_;
};

}  // namespace tapestry
