#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/kernels/matmul.h"
#include "autograd/shape.h"
#include "data/corpus.h"
#include "data/metrics/bleu.h"
#include "data/readers/generated_tasks.h"
#include "data/readers/images.h"
#include "data/readers/language_model_corpus.h"
#include "data/readers/parallel_text.h"
#include "data/readers/training_set.h"
#include "data/text/vocabulary.h"
#include "layers/transformer.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace tapestry {

/// Reaction to a loss or gradient that is NaN or infinite: stop; skip the update and continue
/// with the next batch; or roll back to the last scheduled checkpoint (train.save_every) and
/// continue with the next batch. See also TrainOptions::max_nan_steps.
enum class OnNan {
  stop,     ///< the run stops with exit code 6
  skip,     ///< the update is skipped
  rollback  ///< the run continues from the last scheduled checkpoint
};

/// How the processes of a parallel run exchange gradients, see GradientSum.
enum class GradientFormat {
  full,     ///< in the type of the parameters
  bfloat16  ///< sums of micro-batches are rounded to bfloat16, also in one process
};

/// Which compiled kernels a process uses, see autograd/instruction_set.h.
enum class KernelChoice {
  automatic,  ///< TAPESTRY_KERNELS, the set of a resumed checkpoint, or the widest
  baseline,   ///< what every processor of the architecture has
  avx2,       ///< AVX2 and FMA
  avx512      ///< AVX-512
};

/// Options of the training loop. The member initializers are the defaults.
struct TrainOptions {
  std::uint64_t seed = 1;       ///< seeds initial weights, dropout and shuffling
  std::size_t steps = 2000;     ///< optimizer steps, >= 1
  std::size_t epochs = 0;       ///< passes over the training data; 0: `steps`, see resolve_epochs()
  std::size_t batch_size = 64;  ///< sentences per batch, >= 1
  std::size_t batch_tokens = 0;  ///< most tokens per training batch, see BatchTokens; 0: batch_size
  std::size_t accumulate = 1;    ///< batches per step, >= 1
  double label_smoothing = 0.1;  ///< in [0, 1)
  GradientFormat gradient_exchange = GradientFormat::full;  ///< format sent between processes
  double ema_decay = 0.0;    ///< decay of the WeightAverage that is validated, in [0, 1); 0: none
  double clip_norm = 1.0;    ///< maximum global gradient norm, >= 0; 0: none; optimizer.clip_norm
  std::size_t threads = 0;   ///< 0 takes all cores
  double bucket_size = 4.0;  ///< MB of gradients or parameters exchanged at a time, > 0
  KernelChoice kernels = KernelChoice::automatic;  ///< instructions that this process uses
  Matmul matmul = Matmul::automatic;               ///< matrix products that this process uses
  std::size_t log_every = 50;                      ///< steps, >= 1
  std::size_t validate_every = 500;                ///< steps, >= 1
  std::size_t save_every = 500;                    ///< steps, >= 1
  std::size_t keep_last = 3;                       ///< checkpoints, >= 2
  std::size_t keep_best = 1;                       ///< checkpoints, >= 1
  std::size_t average_last = 0;      ///< latest checkpoints averaged at the end of a run; 0: none
  std::string best_metric = "loss";  ///< validation score that determines the best checkpoint
  std::size_t patience = 0;  ///< validations without improvement before the run stops; 0: no limit
  std::chrono::seconds max_time{0};     ///< for this process; 0: no limit
  OnNan on_nan = OnNan::stop;           ///< what happens at a loss or gradient that is not finite
  std::size_t max_nan_steps = 3;        ///< consecutive non-finite steps before the run stops, >= 1
  std::size_t divergence_window = 100;  ///< steps per window, see DivergenceWatch; 0: disabled
  std::size_t max_decode_length = 0;    ///< tokens; 0: source length + 50
  std::size_t exact_match_sequences = 1000;  ///< held-out sequences decoded per validation
  std::size_t samples = 2;                   ///< decoded sequences printed per validation
  BleuTokenizer bleu_tokenizer = BleuTokenizer::mteval_13a;  ///< tokenizer of BLEU in validation
  std::size_t report_every = 0;   ///< validations between reports; 0: none
  std::size_t digest_every = 50;  ///< steps between digests; 0: none
  bool tensorboard = false;       ///< whether to write event files of TensorBoard
  bool detect_anomaly = false;    ///< check for NaN and infinity after every operation
  std::string initialize_from;    ///< run or checkpoint with pretrained parameters; may be empty
  std::string run_dir;            ///< empty: runs/<config file name, no extension>
  DType dtype = DType::float32;   ///< element type of the parameters

  /// bucket_size in bytes.
  std::size_t bucket_bytes() const { return static_cast<std::size_t>(1e6 * bucket_size); }
};

/// How outputs are searched for, see beam_search(). The member initializers are the defaults.
struct DecodingOptions {
  static constexpr std::size_t max_beam_size = 1000;  ///< maximum of beam_size

  std::size_t beam_size = 1;    ///< hypotheses that are extended at once, >= 1; 1: greedy
  double length_penalty = 0.6;  ///< exponent of the length normalization, >= 0
};

/// The data section: the options of all corpora; each task uses some of them.
struct DataOptions {
  std::string task = "copy";                ///< name of a DataSource in train/tasks/
  std::string folder{};                     ///< where relative paths of the config file start
  SymbolOptions symbols{};                  ///< options of copy, reverse and sort
  GeneratedOptions generated{};             ///< options of all generated data
  ParallelTextOptions pairs{};              ///< options of parallel_text
  TextFiles text{};                         ///< options of tasks with one text per part
  WindowOptions windows{};                  ///< options of language models
  WordOptions words{};                      ///< options of the words of all text
  ImageOptions images{};                    ///< options of images
  TrainingSetOptions training{};            ///< options of the training set of all text
  OnBadLine on_bad_line = OnBadLine::stop;  ///< what happens to lines that cannot be used
};

/// The value of a custom key, see CustomKey.
using CustomValue = std::variant<std::uint64_t, double, bool, std::string>;

/// A number of steps given as a percentage of train.steps, such as 5%.
struct StepPercentage {
  double percent;    ///< in (0, 100]
  bool in_override;  ///< given on the command line, not in a config file
};

/// All values of a config file, one member per section.
struct Config {
  DataOptions data;                    ///< section data
  std::string model_kind = "seq2seq";  ///< key model.kind, name of a Task in train/tasks/
  TransformerOptions model;            ///< section model
  OptimizerOptions optimizer;          ///< section optimizer
  ScheduleOptions schedule;            ///< section schedule
  DecodingOptions decoding;            ///< section decoding
  TrainOptions train;                  ///< section train
  /// By path, such as "model.num_experts"; keys that are not in it have their defaults.
  std::map<std::string, CustomValue, std::less<>> custom{};
  /// By path, such as "schedule.warmup_steps": how the number of steps was given. dump_config()
  /// writes the numbers.
  std::map<std::string, StepPercentage, std::less<>> step_percentages{};

  /// The value of a custom key, such as "model.num_experts". T is an integer type for
  /// CustomKey::integer, a floating-point type for CustomKey::real, bool for CustomKey::flag and
  /// std::string for the others.
  ///
  /// throws  std::logic_error if no registered kind has a key of this path and type, or if T is too
  ///         small for the value.
  template <class T>
  T custom_value(std::string_view path) const {
    using Stored =
        std::conditional_t<std::is_integral_v<T> && !std::is_same_v<T, bool>, std::uint64_t,
                           std::conditional_t<std::is_floating_point_v<T>, double, T>>;
    const Stored* value = std::get_if<Stored>(&custom_value_or_default(path));
    if (value == nullptr) {
      throw std::logic_error(std::string(path) + ": the key has another type");
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

/// `config` with the process settings of `process`, such as train.threads: keys that do not affect
/// the results of a run and are not stored in checkpoints, see KeyRule.
Config with_process_settings(Config config, const Config& process);

/// Applies train.threads, train.kernels and train.matmul to this process.
///
/// saved  the arithmetic() of the checkpoint that is resumed, which `auto` follows as far as this
///        machine can; empty for a new run
void apply_process_settings(const TrainOptions& options, std::string_view saved = "");

/// Reads the YAML `text`, then `overrides` of the form `section.key=value`; later overrides replace
/// earlier ones. `name` is the file name in error messages. A quoted value in the YAML text means
/// the same as an unquoted one; the value of an override is taken literally, quotes included. A
/// relative path in an override starts at the working directory.
///
/// throws  ConfigError with all problems.
Config parse_config(std::string_view text, const std::string& name,
                    const std::vector<std::string>& overrides = {});

/// Reads a config file as parse_config() does. Relative paths to data become absolute: paths in the
/// file start at `data.folder`, or else at the folder of the config file, paths in overrides at the
/// working directory. An empty `train.run_dir` becomes default_run_dir(). The `config.yaml` in a
/// run directory means the run in that directory, also after it was moved, unless an override
/// names another.
///
/// throws  ConfigError as read_config_file() and parse_config(); if no name of a run
///         directory can be derived from the name of the file.
Config load_config(const std::string& path, const std::vector<std::string>& overrides = {});

/// The valid keys of a config file.
struct KnownKeys {
  /// As in the file; missing and invalid keys have their defaults.
  Config config;
  std::set<std::string, std::less<>> given{};  ///< `section.key`, with a valid value
  /// The first line of load_config()'s error, if any, and the number of further problems.
  std::string problem{};
};

/// Reads what this program knows in a config file that another program, or another version, may
/// have written. Contradictions between keys are not searched for.
///
/// throws  ConfigError if the file cannot be read or has more than Diagnostics::max_size
///         problems.
KnownKeys load_known_keys(const std::string& path);

/// The default run directory of a config file: `runs/<file name without extension>`.
std::string default_run_dir(const std::string& path);

/// Whether an override sets train.run_dir.
bool names_run_dir(const std::vector<std::string>& overrides);

/// The size of the largest config in bytes; a larger one is rejected before it is read.
inline constexpr std::size_t max_config_size = 1u << 20;

/// The text of the config file `path`. Never blocks: pipes and devices are rejected, not read.
///
/// throws  ConfigError if the file is missing, unreadable, not a regular file or too large.
std::string read_config_file(const std::string& path);

/// Whether the value of a key may change when a run is resumed.
enum class ChangeRule {
  free,  ///< affects output, duration or machine, not the results of a step. Data paths are free,
         ///< since files are identified by content
  with_permission,  ///< the state stays valid, but results change: needs --allow-change KEY
  never             ///< the state would be invalid: shapes, vocabulary, task, seed, data order
};

/// A key as shown in help, tables, manual pages and shell completion.
struct ConfigKey {
  std::string section;               ///< `optimizer`
  std::string key;                   ///< `momentum`
  std::string expected;              ///< `a whole number >= 1`
  std::string default_value;         ///< as in YAML
  std::string meaning;               ///< one line of help
  std::string used_with;             ///< `optimizer.kind: sgd`; empty if always
  ChangeRule change;                 ///< whether a resumed run may change it
  std::vector<std::string> choices;  ///< valid words; empty if values are numbers or any text
  bool is_path;                      ///< whether the value is the path of a file

  /// `optimizer.momentum`
  std::string path() const { return section + "." + key; }
};

/// All keys in file order.
std::vector<ConfigKey> config_keys();

/// `config` as YAML text with every key except the custom keys of other kinds; parse_config() of it
/// gives the same config.
std::string dump_config(const Config& config);

/// The value of model.kind in a config if it is not registered here, such as a custom model of
/// another program; nullopt if it is registered or the text cannot be read.
std::optional<std::string> unknown_model_kind(std::string_view text);

/// A path that a config file cannot hold.
struct UnstorablePath {
  std::string key;    ///< `data.train_source`
  std::string path;   ///< the value of the key
  std::string found;  ///< `control character U+000A`
};

/// The first path in `config` with control characters or bytes that are not UTF-8, which
/// parse_config() would reject in the text of dump_config(); such a part may come from the folder
/// of a config file.
std::optional<UnstorablePath> find_unstorable_path(const Config& config);

/// A key with two different values, as YAML text.
struct ConfigDifference {
  std::string key;         ///< `section.key`
  std::string checkpoint;  ///< its value in the config of the checkpoint
  std::string now;         ///< its value in the current config
};

/// The keys whose values differ between the config of a checkpoint and the current one, in file
/// order.
std::vector<ConfigDifference> compare_configs(const Config& checkpoint, const Config& now);

}  // namespace tapestry
