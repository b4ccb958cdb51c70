// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "autograd/kernels/matmul.h"
#include "autograd/shape.h"
#include "data/corpus.h"
#include "data/file_list.h"
#include "data/metrics/bleu.h"
#include "data/readers/generated_corpus.h"
#include "data/readers/images.h"
#include "data/readers/language_model_corpus.h"
#include "data/readers/parallel_text.h"
#include "data/readers/symbol_tasks.h"
#include "data/readers/training_set.h"
#include "data/text/vocabulary.h"
#include "layers/transformer.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace tapestry {

/// Reaction to a loss or gradient that is NaN or infinite.
enum class OnNan {
  stop,     ///< the run stops with exit code 6
  skip,     ///< the update is skipped
  rollback  ///< the run reloads the last scheduled checkpoint and continues with the next batch
};

/// Format of the gradients that processes of a parallel run exchange, see GradientSum.
enum class GradientFormat {
  full,     ///< the type of the parameters
  bfloat16  ///< sums over micro-batches are rounded to bfloat16, even in a run with one process
};

/// Which compiled kernels a process uses, see autograd/instruction_set.h.
enum class KernelChoice {
  automatic,  ///< TAPESTRY_KERNELS if set, else the kernels of the resumed checkpoint, else the
              ///< widest supported
  baseline,   ///< instructions that every processor of the architecture has
  avx2,       ///< AVX2 and FMA
  avx512      ///< AVX-512
};

// The member initializers of the option structs are the defaults. train/config/fields.cpp describes
// each key.

/// Options of the training loop.
struct TrainOptions {
  /// @{ Each member is the key of the same name in the section train, see train/config/fields.cpp.
  std::uint64_t seed = 1;
  std::size_t steps = 2000;
  std::size_t epochs = 0;  ///< if not 0, `steps` is unknown until resolve_epochs()
  std::size_t batch_size = 64;
  std::size_t batch_tokens = 0;  ///< see BatchTokens
  std::size_t accumulate = 1;
  double label_smoothing = 0.1;
  GradientFormat gradient_exchange = GradientFormat::full;
  double ema_decay = 0.0;  ///< see WeightAverage
  double clip_norm = 1.0;  ///< in the section optimizer
  std::size_t threads = 0;
  double bucket_size = 4.0;  ///< in MB, see bucket_bytes()
  KernelChoice kernels = KernelChoice::automatic;
  Matmul matmul = Matmul::automatic;
  std::size_t log_every = 50;
  std::size_t validate_every = 500;
  std::size_t save_every = 500;
  std::size_t keep_last = 3;
  std::size_t keep_best = 1;
  std::size_t average_last = 0;
  std::string best_metric = "loss";
  std::size_t patience = 0;
  std::chrono::seconds max_time{0};
  OnNan on_nan = OnNan::stop;
  std::size_t max_nan_steps = 3;
  std::size_t divergence_window = 100;  ///< see DivergenceWatch
  std::size_t max_decode_length = 0;
  std::size_t exact_match_sequences = 1000;
  std::size_t samples = 2;
  BleuTokenizer bleu_tokenizer = BleuTokenizer::mteval_13a;
  std::size_t report_every = 0;
  std::size_t digest_every = 50;
  bool tensorboard = false;
  bool detect_anomaly = false;
  std::string initialize_from;
  std::string run_dir;  ///< load_config() replaces an empty value with default_run_dir()
  DType dtype = DType::float32;
  /// @}

  /// bucket_size in bytes.
  std::size_t bucket_bytes() const { return static_cast<std::size_t>(1e6 * bucket_size); }
};

/// Options of beam_search().
struct DecodingOptions {
  static constexpr std::size_t max_beam_size = 1000;  ///< maximum of beam_size

  /// @{ Each member is the key of the same name in the section decoding, see
  /// train/config/fields.cpp.
  std::size_t beam_size = 1;
  double length_penalty = 0.6;
  /// @}
};

/// The section data: options of all data sources. Each data.task uses a subset of the options.
struct DataOptions {
  std::string task = "copy";                ///< name of a DataSource in train/tasks/
  std::string folder{};                     ///< base folder of relative paths in the config file
  SymbolOptions symbols{};                  ///< copy, reverse and sort
  GeneratedOptions generated{};             ///< all generated data
  ParallelTextOptions pairs{};              ///< parallel_text
  TextFiles text{};                         ///< tasks with one text per part
  WindowOptions windows{};                  ///< language models
  WordOptions words{};                      ///< vocabularies of all text
  ImageOptions images{};                    ///< images
  TrainingSetOptions training{};            ///< training sets of all text
  OnBadLine on_bad_line = OnBadLine::stop;  ///< reaction to lines that cannot be used
};

/// The value of a custom key, see CustomKey.
using CustomValue = std::variant<std::uint64_t, double, bool, std::string>;

/// A number of steps given as a percentage of train.steps, such as 5%.
struct StepPercentage {
  double percent;    ///< in (0, 100]
  bool in_override;  ///< whether it was given on the command line instead of a config file
};

/// All values of a config file, one member per section.
struct Config {
  DataOptions data;                    ///< section data
  std::string model_kind = "seq2seq";  ///< key model.kind, name of a Task in train/tasks/
  /// @{ Each member is the section of the same name.
  TransformerOptions model;
  OptimizerOptions optimizer;
  ScheduleOptions schedule;
  DecodingOptions decoding;
  TrainOptions train;
  /// @}
  /// Values of custom keys by path, such as "model.num_experts". Keys without a value have their
  /// defaults.
  std::map<std::string, CustomValue, std::less<>> custom{};
  /// Step counts given as percentages, by path, such as "schedule.warmup_steps". dump_config()
  /// writes the resolved numbers.
  std::map<std::string, StepPercentage, std::less<>> step_percentages{};

  /// The value of a custom key, such as "model.num_experts". T is an integer type for WholeNumber,
  /// a floating-point type for RealNumber, bool for Flag and std::string for other domains.
  ///
  /// throws  std::logic_error if no registered kind has a key with this path and type, or if T is
  ///         too small for the value.
  template <class T>
  T custom_value(std::string_view path) const {
    using Stored =
        std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::uint64_t,
                           std::conditional_t<std::is_floating_point_v<T>, double, T>>;
    const Stored* value = std::get_if<Stored>(&custom_value_or_default(path));
    if (value == nullptr) {
      throw std::logic_error(std::string(path) + ": the key has a different type");
    }
    if constexpr (std::is_same_v<Stored, std::uint64_t>) {
      if (!std::in_range<T>(*value)) {
        throw std::logic_error(std::string(path) + ": the type is too small for the value " +
                               std::to_string(*value));
      }
    }
    return static_cast<T>(*value);
  }

 private:
  const CustomValue& custom_value_or_default(std::string_view path) const;
};

/// A copy of `config` with the process settings of `process`. Process settings, such as
/// train.threads, do not affect the results of a run and are not stored in checkpoints, see
/// SavePolicy.
Config with_process_settings(Config config, const Config& process);

/// Applies train.threads, train.kernels and train.matmul to this process.
///
/// saved  arithmetic() of the resumed checkpoint, whose kernels and matrix products `auto` selects
///        if this machine supports them; empty for a new run
void apply_process_settings(const TrainOptions& options, std::string_view saved = "");

}  // namespace tapestry
