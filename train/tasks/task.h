#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/batch.h"
#include "data/batch_schedule.h"
#include "data/corpus.h"
#include "layers/embedding.h"
#include "layers/model.h"
#include "train/inference/attention_view.h"
#include "train/inference/evaluator.h"
#include "train/tasks/data_source.h"

namespace tapestry {

/// A model from a checkpoint, with what it takes to use it.
struct TrainedModel {
  Config config;
  TextCodec codec;
  std::unique_ptr<Model> model;
  DataIdentity data;  ///< that it was trained on
  std::uint64_t step;
};

/// What the data make of a network's sizes.
struct NetworkSizes {
  std::size_t source = 0;  ///< entries of the vocabulary that is read
  std::size_t target = 0;  ///< entries of the vocabulary, or classes, that scores are for
  ImageShape image{};
};

/// The number of tokens that a model can read at once, and the key of the config that sets it.
struct TokenLimit {
  std::size_t tokens = 0;
  const char* key = "";
};

/// A command that answers the lines of standard input, each with a line.
struct LineCommand {
  const char* name;     ///< `tapestry NAME RUN`
  const char* purpose;  ///< one line of help
  const char* footer;   ///< more help; may be empty
  const char* memory_hint =
      "give it shorter lines, or more memory (see `ulimit -v`)";  ///< if there is not enough
};

/// An example as `tapestry evaluate` prints it.
struct ShownExample {
  std::string input, output, expected;
};

/// What a run is about: a value of `model.kind`. A task says which data it learns from, how
/// examples become batches, what network learns from them with what loss (Network::loss), how it is
/// scored, and how it answers a line of input. All that is special about a task is in its
/// file; the rest of the program asks this interface.
///
/// To add a task: derive from this class in train/tasks/NAME.cpp, and add it to the list in
/// train/tasks/all_tasks.cpp.
class Task {
 public:
  virtual ~Task() = default;

  // ---- Config

  /// The value of `model.kind`, with the keys of `model` and `train` that not all tasks use.
  virtual const ConfigKind& kind() const = 0;
  /// The values of `data.task` to learn from.
  virtual std::vector<const DataSource*> sources() const = 0;

  // ---- Words

  /// What the user calls the examples: "pairs", "sentences", "images" or "windows".
  virtual std::string example_noun(const Config& config) const = 0;
  /// What the user calls the things that have a label each: "tokens", or the examples.
  virtual std::string target_noun(const Config&) const { return "tokens"; }
  /// "vocabularies of 103 and 97"
  virtual std::string describe_vocabularies(const Corpus& corpus) const = 0;
  /// "64 x 5 x 6 tokens": how large a batch is.
  virtual std::string describe_size(const Batch& batch) const;

  // ---- Batches and network

  virtual const RowLayout& layout() const = 0;
  /// The layout for examples that are used and not learnt: nothing is masked.
  virtual const RowLayout& inference_layout() const { return layout(); }
  /// The network, for tokens of which pad_id fills up short sequences.
  virtual std::unique_ptr<Network> make_network(const Scope& scope, const Config& config,
                                                const NetworkSizes& sizes) const = 0;
  virtual bool reads_images() const { return false; }
  /// Whether batches have a source of tokens.
  virtual bool reads_source() const { return false; }
  /// Whether each example has one label alone, and not one a token.
  virtual bool one_label_per_example() const { return false; }
  /// Whether the network has a stack that sees tokens on both sides.
  virtual bool has_encoder() const { return true; }

  // ---- Scores

  /// decoded  so many examples, spread evenly over the set, are decoded for scores that need it
  virtual Scores evaluate(const Model& model, const Config& config, const BatchRules& rules,
                          const Vocabulary& targets, const std::vector<Example>& examples,
                          std::size_t decoded) const;
  /// "loss 0.1234  perplexity 1.131  tokens 96.10 %"
  virtual std::string format_scores(const Scores& scores, const Config& config) const;
  /// The examples with what the model makes of them.
  virtual std::vector<ShownExample> show(const TrainedModel& trained,
                                         const std::vector<Example>& examples) const;

  // ---- Answers

  /// The example that a text is to the model: what the data would make of it, with neither a
  /// translation nor the right class. Empty if the text has no word.
  /// throws  DataError if the text is not valid UTF-8.
  virtual Example read_text(std::string_view text, const TextCodec& codec) const;
  /// Positions of the model, or for a language-model corpus the tokens of a window, because later
  /// positions are not trained.
  virtual TokenLimit token_limit(const Config& config) const;
  /// Parts of the message about an example that is longer: "sentence", "to read" and another way
  /// out.
  struct LengthWords {
    const char *example, *tokens, *more_hint;
  };
  virtual LengthWords length_words() const {
    return {.example = "sentence", .tokens = "to read", .more_hint = ""};
  }

  /// The command that answers lines; none by default.
  virtual const LineCommand* command() const { return nullptr; }
  /// What standard input should be.
  virtual const char* input_hint() const;
  /// What the model reads of a line, or nothing for one that an empty line answers. `number` is
  /// that of the line, from 1, and `place` names it in messages. throws DataError.
  virtual std::optional<Example> read_line(const std::string& line, std::size_t number,
                                           const std::string& place,
                                           const TrainedModel& trained) const;
  /// The answers to examples, a line each. One does not depend on the others.
  virtual std::vector<std::string> answer(const TrainedModel& trained,
                                          const std::vector<Example>& examples) const;

  /// The example with the target that the model itself gives it, for tasks whose networks read
  /// targets.
  virtual Example with_own_target(Example example, const Model&, const Config&) const {
    return example;
  }
  /// The names of the tokens in a batch of one example.
  virtual StackTokens stack_tokens(const Batch& batch, const Config& config,
                                   const TextCodec& codec) const;
};

/// All tasks, in the order in which their kinds are listed to the user.
const std::vector<const Task*>& all_tasks();

/// The task of a value of model.kind. throws std::invalid_argument if there is none.
const Task& find_task(std::string_view model_kind);
const Task& find_task(const Config& config);

/// The sizes for a corpus with these vocabularies.
NetworkSizes network_sizes(const Config& config, const Vocabulary& source,
                           const Vocabulary& target);
NetworkSizes network_sizes(const Config& config, const Corpus& corpus);

/// Makes the network of a config, see Model.
MakeNetwork network_maker(const Config& config, const NetworkSizes& sizes);

/// How the examples of a run become batches in an epoch.
///
/// vocabulary  entries of the target vocabulary
BatchRules batch_rules(const Config& config, std::size_t vocabulary, std::uint64_t epoch = 0);

/// The batch of one example for inference: nothing is masked.
Batch inference_batch(const Task& task, const Example& example);

/// The moments of a batch norm are those of the whole training set only if every batch is a fair
/// sample of it: sorted by length, the batches of configs/reverse.yaml taught 30 % and not
/// 100 %.
BatchLengths batch_lengths(const Config& config);

/// throws  DataError if a model has no positions for all tokens of an example of the corpus, naming
///         the first.
void require_fitting_examples(const Corpus& corpus, const Config& config);

}  // namespace tapestry
