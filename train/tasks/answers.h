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
#include "data/text/codec.h"
#include "layers/model.h"
#include "train/config/config.h"
#include "train/inference/attention_view.h"
#include "train/inference/evaluator.h"

namespace tapestry {

/// A model restored from a checkpoint, with its config and codec.
struct TrainedModel {
  Config config;                 ///< of the run
  TextCodec codec;               ///< between text and ids
  std::unique_ptr<Model> model;  ///< never null
  DataIdentity data;             ///< of the training data
  std::uint64_t step;            ///< steps of training
};

/// The number of tokens that a model can read at once, and the key of the config that sets it.
struct TokenLimit {
  std::size_t tokens = 0;  ///< maximum number of tokens
  const char* key = "";    ///< the key, such as "model.max_length"
};

/// A command that reads lines of standard input and answers each with one line.
struct LineCommand {
  const char* name;      ///< `tapestry NAME RUN`
  const char* purpose;   ///< one line of help
  const char* footer;    ///< more help; may be empty
  bool ranks = false;    ///< whether its tasks have top_answers(), for the option --top
  bool decodes = false;  ///< whether its tasks use the section decoding of the config, for options
  const char* memory_hint =
      "give it shorter lines, or more memory (see `ulimit -v`)";  ///< hint for std::bad_alloc
};

/// A line has more tokens than the model can read.
class LongLine : public DataError {
 public:
  /// The error for a line of which `cut` is the part that the model can read.
  LongLine(const std::string& message, std::string hint, Example cut)
      : DataError(message, std::move(hint)), cut_(std::move(cut)) {}

  /// The example of the first tokens of the line, as many as the model can read.
  const Example& cut() const { return cut_; }

 private:
  Example cut_;
};

/// How a task turns text into examples, and examples into answers. Every function has a default;
/// a task overrides those that its commands need.
class TaskAnswers {
 public:
  virtual ~TaskAnswers() = default;

  /// The command that answers lines; null by default.
  virtual const LineCommand* command() const { return nullptr; }
  /// Encodes a text as an example, as the data source would, without a translation or class. Empty
  /// if the text has no words.
  ///
  /// throws  DataError if the text is not valid UTF-8; std::logic_error by default.
  virtual Example read_text(std::string_view text, const TextCodec& codec) const;
  /// The model's positions; for a language-model corpus the tokens of a window if that is less,
  /// because later positions are not trained.
  virtual TokenLimit token_limit(const Config& config) const;
  /// Encodes a line as an example; nullopt if the answer to the line is an empty line. `number` is
  /// the line number, from 1, and `place` names the line in messages.
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
  /// The answers of a command that ranks: one line for each example with its `count` most likely
  /// answers and their probabilities, separated by tabs.
  ///
  /// throws  std::logic_error by default.
  virtual std::vector<std::string> top_answers(const TrainedModel& trained,
                                               const std::vector<Example>& examples,
                                               std::size_t count) const;
  /// The examples with the model's outputs; none by default.
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

}  // namespace tapestry
