// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/corpus.h"
#include "data/io/error.h"
#include "data/text/tokenizer.h"
#include "layers/model.h"
#include "train/config/config.h"
#include "train/inference/attention_view.h"
#include "train/inference/evaluator.h"
#include "train/tasks/data_source.h"

namespace tapestry {

/// A model restored from a checkpoint, with its config and codec.
struct TrainedModel {
  Config config;                 ///< config of the run
  TextCodec codec;               ///< between text and ids
  std::unique_ptr<Model> model;  ///< never null
  DataIdentity data;             ///< identity of the training data
  std::uint64_t step;            ///< number of training steps
};

/// The maximum length of a model's input in tokens, and the config key that sets it.
struct TokenLimit {
  std::size_t tokens = 0;  ///< maximum number of tokens
  const char* key = "";    ///< the key, such as "model.max_length"
};

/// A command that reads lines of standard input and prints one answer line for each line.
struct LineCommand {
  const char* name;      ///< name of the command, as in `tapestry NAME RUN`
  const char* purpose;   ///< help text of one line
  const char* footer;    ///< additional help text; may be empty
  bool ranks = false;    ///< whether tasks have top_answers(), for the option --top
  bool decodes = false;  ///< whether tasks use the config section decoding, for options
  const char* memory_hint =
      "give it shorter lines, or more memory (see `ulimit -v`)";  ///< hint for std::bad_alloc
};

/// A line has more tokens than the model can read.
class LongLine : public DataError {
 public:
  /// cut  the example of the part of the line that the model can read
  LongLine(const std::string& message, std::string hint, Example cut)
      : DataError(message, std::move(hint)), cut_(std::move(cut)) {}

  /// The example of the tokens at the start of the line that the model can read.
  const Example& cut() const { return cut_; }

 private:
  Example cut_;
};

/// Turns text into examples, and examples into answers. Every function has a default; a task
/// overrides the functions that its commands need.
class TaskAnswers {
 public:
  virtual ~TaskAnswers() = default;

  /// The command that answers lines; null by default.
  virtual const LineCommand* command() const { return nullptr; }
  /// Encodes a text like the data source, as an example without a translation or class. The example
  /// is empty if the text has no words.
  ///
  /// throws  DataError if the text is not valid UTF-8; std::logic_error by default.
  virtual Example read_text(std::string_view text, const TextCodec& codec) const;
  /// The number of the model's positions, or the number of tokens in a training window if it is
  /// smaller, since later positions are not trained.
  virtual TokenLimit token_limit(const Config& config) const;
  /// Encodes a line as an example. Returns nullopt if the answer to the line is an empty line.
  /// `number` is the line number, from 1, and `place` names the line in messages.
  ///
  /// throws  DataError if the line cannot be read; LongLine if it is too long.
  virtual std::optional<Example> read_line(const std::string& line, std::size_t number,
                                           const std::string& place,
                                           const TrainedModel& trained) const;
  /// The answers to examples, one line each. Each answer is independent of the other examples.
  ///
  /// throws  std::logic_error by default.
  virtual std::vector<std::string> answer(const TrainedModel& trained,
                                          const std::vector<Example>& examples) const;
  /// The ranked answers: one line per example with its `count` most likely answers and their
  /// probabilities, separated by tabs.
  ///
  /// throws  std::logic_error by default.
  virtual std::vector<std::string> top_answers(const TrainedModel& trained,
                                               const std::vector<Example>& examples,
                                               std::size_t count) const;
  /// The examples and the model's outputs; returns an empty list by default.
  virtual std::vector<ShownExample> show(const TrainedModel& trained,
                                         const std::vector<Example>& examples) const;
  /// Sets the target of the example to the model's own output, for tasks whose networks read
  /// targets.
  virtual Example with_own_target(Example example, const Model&, const Config&) const {
    return example;
  }
  /// The names of the tokens in a batch of one example.
  virtual StackTokens stack_tokens(const Batch& batch, const Config& config,
                                   const TextCodec& codec) const;
};

/// The questions that `tapestry config new` asks for a task with the user's data.
struct TaskQuestions {
  /// A data file.
  struct File {
    std::string_view key;       ///< "data.train_source"
    std::string_view question;  ///< "Training text"
    bool required = true;       ///< whether an empty answer is rejected
  };
  /// A whole number of at least 1.
  struct Number {
    std::string_view key;             ///< "data.image_height"
    std::string_view question;        ///< "Height of an image in pixels"
    std::string_view default_answer;  ///< the value if the answer is empty
  };

  std::string_view description;   ///< in the list of tasks: "classify sentences"
  std::vector<File> files;        ///< in the order of the questions
  std::vector<Number> numbers{};  ///< asked for after the files
  /// Derives keys and values from the first file, so that the user is not asked for them. May be
  /// null; the result may be empty. Throws DataError.
  std::vector<std::pair<std::string, std::string>> (*measure)(const std::string& path) = nullptr;
  /// Keys and YAML values that are set without a question: `data.task`, and keys whose defaults
  /// suit few users. Does not contain `model.kind`.
  std::vector<std::pair<std::string_view, std::string_view>> values;
};

/// The sizes of a network that depend on the data.
struct NetworkSizes {
  std::size_t source = 0;  ///< size of the input vocabulary
  std::size_t target = 0;  ///< number of logits: size of the output vocabulary, or classes
  ImageShape image{};      ///< shape of the input images
};

/// A held-out set and the data needed to score it.
struct EvaluationSet {
  const std::vector<Example>& examples;  ///< the examples
  const std::vector<std::string>&
      target_texts;        ///< targets as text, may be empty; see ExampleLines
  const TextCodec& codec;  ///< between text and ids
  WorkShare share{};       ///< this process's share of the evaluation
};

/// Words and hints for messages about a task.
struct TaskWords {
  std::string examples;              ///< "pairs", "sentences", "images" or "windows"
  std::string targets = "tokens";    ///< labelled items: "tokens", or the same as `examples`
  std::string example = "sentence";  ///< one example, in messages about long examples
  std::string tokens = "to read";    ///< which tokens are counted: "found 70 tokens to read"
  std::string long_example_hint{};   ///< additional hint about long training examples; may be empty
  /// The expected content of standard input.
  std::string input_hint = "give it text, one sentence per line, such as `< FILE`";
};

/// Inputs and outputs of a network.
struct TaskTraits {
  bool reads_images = false;           ///< batches have pixels
  bool reads_source = false;           ///< batches have source tokens
  bool one_label_per_example = false;  ///< an example has one label instead of one label per token
  bool has_encoder = true;             ///< the network has an encoder, with bidirectional attention
  bool generates_text = false;         ///< the logits at a position predict the next token

  /// Whether the network has an encoder for sources and a decoder for targets.
  bool has_two_stacks() const { return reads_source && !one_label_per_example; }
};

/// A value of `model.kind`. A task defines the supported data sources, the conversion of examples
/// to batches, the network and its loss (Network::loss), the scores, and the answers to text
/// (TaskAnswers). All code that is specific to a task is in its file; the rest of the program uses
/// Task and TaskAnswers.
///
/// To add a task: derive from this class in train/tasks/NAME.cpp, and add it to the list in
/// train/tasks/all_tasks.cpp; outside this library, add it to ProgramOptions::tasks. A model that
/// differs from an existing kind only in its network is a CustomModel.
class Task {
 public:
  virtual ~Task() = default;

  // ---- Config

  /// The value of `model.kind`, and the keys of `model` and `train` that only some tasks use.
  virtual const ConfigKind& kind() const = 0;
  /// The supported values of `data.task`.
  virtual std::vector<const DataSource*> sources() const = 0;
  /// The questions of `tapestry config new` for a config of this task; null, the default, if the
  /// command does not offer the task.
  virtual const TaskQuestions* questions() const { return nullptr; }

  // ---- Messages

  /// The nouns for this task in messages.
  virtual TaskWords words(const Config& config) const = 0;
  /// Describes the sizes of the vocabularies, such as "vocabularies of 103 and 97".
  virtual std::string describe_vocabularies(const Corpus& corpus) const = 0;
  /// Describes the size of a batch, such as "64 x 5 x 6 tokens".
  virtual std::string describe_size(const Batch& batch) const;

  // ---- Batches and network

  /// The layout of examples in batches for training and evaluation.
  virtual const RowLayout& layout() const = 0;
  /// The layout for inference, which does not mask tokens.
  virtual const RowLayout& inference_layout() const { return layout(); }
  /// Creates the network. Short sequences are padded with pad_id.
  virtual std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                                const NetworkSizes& sizes) const = 0;
  /// Inputs and outputs of the network.
  virtual TaskTraits traits() const { return {}; }

  // ---- Scores

  /// The scores of a model on a held-out set, including kind().scores. All processes that share the
  /// work get equal scores.
  ///
  /// rules    batch_rules() of the run
  /// decoded  number of evenly spaced examples to decode, for scores that need decoding
  virtual Scores evaluate(const Model& model, const Config& config, const BatchRules& rules,
                          const EvaluationSet& set, std::size_t decoded) const;
  /// The scores on one line, such as "loss 0.1234  perplexity 1.131  accuracy 96.10 %".
  virtual std::string format_scores(const Scores& scores, const Config& config) const;
  /// The signatures of text metrics among kind().scores, by name: name and signature in the format
  /// of sacreBLEU, so that others can reproduce the scores.
  virtual std::vector<std::pair<std::string, std::string>> signatures(const Config&) const {
    return {};
  }

  /// Encodes texts and answers them. The default neither encodes nor answers texts.
  virtual const TaskAnswers& answers() const;
};

/// All tasks, in the order in which messages list their kinds.
const std::vector<const Task*>& all_tasks();

/// Adds a custom task, which must exist until the program ends. run_program() calls this for the
/// models and tasks of ProgramOptions, and reports errors.
///
/// throws  CustomModelError if its kind or one of its keys already exists, or if a key is invalid,
///         see CustomKey::definition_error().
void register_task(const Task& task);

/// The kinds that register_task() has added.
std::vector<std::string> custom_kinds();

/// The task with this value of model.kind.
///
/// throws  std::invalid_argument if it does not exist.
const Task& find_task(std::string_view model_kind);
/// The task of config.model_kind.
///
/// throws  std::invalid_argument if it does not exist.
const Task& find_task(const Config& config);

/// The network sizes for a corpus with these vocabularies.
NetworkSizes network_sizes(const Config& config, const Vocabulary& source,
                           const Vocabulary& target);
/// The network sizes for a corpus.
NetworkSizes network_sizes(const Config& config, const Corpus& corpus);

/// Creates the network of a config, see Model. Each call of a custom network checks its results.
///
/// throws  CustomModelError if a custom network fails.
MakeNetwork network_maker(const Config& config, const NetworkSizes& sizes);

/// Applies a custom network to a batch to find errors in its code before a run begins. Does nothing
/// for the networks of this library.
///
/// throws  CustomModelError.
void try_network(const Config& config, const Model& model, const Batch& batch);

}  // namespace tapestry
