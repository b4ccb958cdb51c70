#include "train/checkpoint/checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "data/text/subwords.h"
#include "optim/optimizer.h"
#include "train/base/error.h"
#include "train/checkpoint/parameter_file.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/system/machine.h"

namespace tapestry {
namespace {

const std::string optimizer_group = "optimizer/";
const std::string average_group = "average/";

/// Collects copies from arrays of a checkpoint to tensors; makes them only after all have been
/// checked.
class Assignments {
 public:
  explicit Assignments(const ArrayStore& arrays) : arrays_(arrays) {}

  /// Adds the elements of a shard. All elements of the arrays are checked, so that all processes of
  /// a run reject the same checkpoints.
  ///
  /// whole   tensors of the shapes of the arrays
  /// kinds   of the state of an optimizer
  /// throws  CheckpointError if an array is missing, has another shape or element type, a negative
  ///         mean of squares or a value that is not finite, or if the group has other arrays than
  ///         the tensors' and `besides`.
  void add(const ShardState& state, const std::vector<NamedTensor>& whole,
           const std::vector<OptimizerState>& kinds = {}, std::string_view besides = "") {
    std::set<std::string, std::less<>> known{state.group + std::string(besides)};
    for (std::size_t i = 0; i < state.tensors.size(); ++i) {
      const std::string& path = *known.insert(state.group + state.tensors[i].name).first;
      const std::size_t parameter = i % whole.size();
      check(path, whole[parameter].tensor,
            !kinds.empty() && kinds[i / whole.size()].mean_of_squares);
      targets_.push_back({.path = path,
                          .begin = state.ranges[parameter].begin,
                          .tensor = state.tensors[i].tensor});
    }
    for (const auto& [path, array] : arrays_) {
      if (path.starts_with(state.group) && !known.contains(path)) reject_left_over(path);
    }
  }

  void carry_out() {
    for (Target& target : targets_) {
      dispatch(target.tensor.dtype(), [&]<class T>() {
        std::ranges::copy(arrays_.get<T>(target.path).subspan(target.begin, target.tensor.size()),
                          target.tensor.template mutable_values<T>().begin());
      });
    }
  }

 private:
  struct Target {
    std::string path;
    std::size_t begin = 0;  ///< of the elements of the array that are copied
    Tensor tensor{};
  };

  void check(const std::string& path, const Tensor& whole, bool squares) const {
    dispatch(whole.dtype(), [&]<class T>() {
      for (const T value : arrays_.get<T>(path, stored_shape(whole))) {
        if (!std::isfinite(value)) reject_value(path, value, "finite numbers");
        if (squares && value < 0) reject_value(path, value, "a mean of squares");
      }
    });
  }

  [[noreturn]] void reject_value(const std::string& path, double value,
                                 std::string_view expected) const {
    throw CheckpointError(
        fmt::format("{}: {}: found {}, expected {}", arrays_.origin(), path, value, expected),
        "use an earlier checkpoint of the run");
  }

  [[noreturn]] void reject_left_over(const std::string& path) const {
    throw CheckpointError(fmt::format("{}: {}: found an array that does not belong to the model of "
                                      "the checkpoint's config",
                                      arrays_.origin(), path),
                          "use the version of the program that wrote the checkpoint");
  }

  const ArrayStore& arrays_;
  std::vector<Target> targets_;
};

/// Adds whole arrays with the elements of the shard to a checkpoint.
void put_shard(ArrayStore& arrays, const ShardState& state,
               const std::vector<NamedTensor>& parameters) {
  for (std::size_t i = 0; i < state.tensors.size(); ++i) {
    const std::size_t parameter = i % parameters.size();
    const Tensor& whole = parameters[parameter].tensor;
    dispatch(whole.dtype(), [&]<class T>() {
      const std::span<const std::byte> own = std::as_bytes(state.tensors[i].tensor.values<T>());
      StoredArray array{.type = element_type_of<T>, .shape = stored_shape(whole), .bytes = {}};
      if (own.size() == whole.size() * sizeof(T)) {
        array.bytes.assign(own.begin(), own.end());
      } else {
        array.bytes.resize(whole.size() * sizeof(T));
        std::ranges::copy(
            own, array.bytes.begin() +
                     static_cast<std::ptrdiff_t>(state.ranges[parameter].begin * sizeof(T)));
      }
      arrays.put(state.group + state.tensors[i].name, std::move(array));
    });
  }
}

/// group  of the values of the parameters
void add_model(Assignments& assignments, const Model& model, const std::string& group) {
  const auto add_whole = [&](const std::string& path, const std::vector<NamedTensor>& tensors) {
    const std::vector<ElementRange> ranges(tensors.size());  // from the first element on
    assignments.add({.group = path, .tensors = tensors, .ranges = ranges}, tensors);
  };
  add_whole(group, model.parameters.list());
  add_whole(buffers_group, model.parameters.buffers());
}

/// side  "source" or "target"
void put_vocabulary(ArrayStore& arrays, std::string_view side, const Vocabulary& words) {
  arrays.put_text(fmt::format("data/{}_vocabulary", side), words.to_text());
  if (!words.subwords()) return;
  arrays.put_text(fmt::format("data/{}_subwords", side), words.subwords()->serialized());
}

/// The vocabulary of a side, "source" or "target".
Vocabulary saved_vocabulary(const ArrayStore& arrays, std::string_view side) {
  const std::string path = fmt::format("data/{}_vocabulary", side);
  const std::string subwords = fmt::format("data/{}_subwords", side);
  try {
    Vocabulary words = Vocabulary::from_text(arrays.get_text(path));
    if (!arrays.contains(subwords)) return words;
    auto model = std::make_shared<const SubwordModel>(arrays.get_text(subwords), subwords);
    return Vocabulary::with_subwords(words, std::move(model));
  } catch (const DataError& error) {
    throw CheckpointError(fmt::format("{}: {}: {}", arrays.origin(), path, error.what()),
                          error.hint());
  }
}

std::string to_text(const DataIdentity& data) {
  std::string text;
  for (const auto& [key, file] : data.files) {
    text += fmt::format("{} {} {:016x}\n", key, file.bytes, file.digest);
  }
  return text;
}

std::map<std::string, FileDigest> saved_files(const ArrayStore& arrays) {
  std::map<std::string, FileDigest> files;
  std::istringstream lines(arrays.get_text("data/files"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string key;
    FileDigest file;
    if (!(words >> key >> file.bytes >> std::hex >> file.digest) || words >> std::ws) {
      throw CheckpointError(fmt::format("{}: data/files: found `{}`, expected key, size and digest",
                                        arrays.origin(), excerpt(line)),
                            "use an earlier checkpoint of the run");
    }
    files[key] = file;
  }
  return files;
}

/// Format version 1 stored less training state; the missing fields keep their initial values.
bool has_version_1(const ArrayStore& arrays) { return !arrays.contains("train/history"); }

const std::string pending_path = "train/validation_pending";
const std::string before_end_sums = "train/before_end_sums";
const std::string before_end_counts = "train/before_end_counts";

/// The arrays are there only at the end of a run.
void put_before_end(ArrayStore& arrays, const BeforeEnd& before) {
  arrays.put<double>(before_end_sums,
                     std::array{before.running.loss_sum, before.running.nll_sum, before.best_value},
                     {3});
  arrays.put<std::uint64_t>(before_end_counts,
                            std::array{before.running.tokens, before.best_step.value_or(0),
                                       before.metrics_begin, before.metrics_end},
                            {4});
}

std::optional<BeforeEnd> saved_before_end(const ArrayStore& arrays) {
  if (!arrays.contains(before_end_sums)) return std::nullopt;
  const auto& sums = arrays.get<double>(before_end_sums, {3});
  const auto& counts = arrays.get<std::uint64_t>(before_end_counts, {4});
  BeforeEnd before{.running = {.loss_sum = sums[0], .nll_sum = sums[1], .tokens = counts[0]},
                   .best_value = sums[2],
                   .metrics_begin = counts[2],
                   .metrics_end = counts[3]};
  if (std::isfinite(before.best_value)) before.best_step = counts[1];
  return before;
}

/// throws  CheckpointError if the added rows are not rows of the table.
void require_rows(const BeforeEnd& before, std::string_view csv, const ArrayStore& arrays) {
  const auto begins_row = [&](std::uint64_t at) {
    return at > 0 && at <= csv.size() && csv[at - 1] == '\n';
  };
  if (before.metrics_begin <= before.metrics_end && begins_row(before.metrics_begin) &&
      begins_row(before.metrics_end)) {
    return;
  }
  throw CheckpointError(
      fmt::format("{}: {}: found bytes {} to {} of train/metrics, expected whole rows",
                  arrays.origin(), before_end_counts, before.metrics_begin, before.metrics_end),
      "use an earlier checkpoint of the run");
}

void put_state(ArrayStore& arrays, const TrainingState& state) {
  arrays.put_scalar("train/step", state.step);
  arrays.put_scalar("train/epoch", state.position.epoch);
  arrays.put_scalar("train/batch", static_cast<std::uint64_t>(state.position.batch));
  arrays.put_scalar("train/running_loss_sum", state.running.loss_sum);
  arrays.put_scalar("train/running_nll_sum", state.running.nll_sum);
  arrays.put_scalar("train/running_tokens", state.running.tokens);
  arrays.put_scalar("train/best_loss", state.best_value);
  arrays.put_scalar("train/best_step", state.best_step.value_or(0));
  arrays.put_scalar("train/validations_since_best", state.validations_since_best);
  arrays.put_scalar("train/nan_steps", state.nan_steps);
  arrays.put_scalar("train/scheduled_save", state.scheduled_save);
  const DivergenceWatch::State watch = state.divergence.state();
  arrays.put<double>("train/divergence", watch, {watch.size()});
  arrays.put_text("train/history", state.history);
  arrays.put_text("train/metrics", state.metrics.csv());
  if (state.validation_pending) arrays.put_scalar(pending_path, std::uint64_t{1});
  if (state.before_end) put_before_end(arrays, *state.before_end);
}

TrainingState saved_state(const ArrayStore& arrays) {
  const auto count = [&](const char* path) { return arrays.get_scalar<std::uint64_t>(path); };
  TrainingState state;
  state.step = saved_step(arrays);
  state.position = saved_position(arrays);
  state.running = {.loss_sum = arrays.get_scalar<double>("train/running_loss_sum"),
                   .nll_sum = arrays.get_scalar<double>("train/running_nll_sum"),
                   .tokens = count("train/running_tokens")};
  state.best_value = arrays.get_scalar<double>("train/best_loss");
  if (std::isfinite(state.best_value)) state.best_step = count("train/best_step");
  state.metrics =
      MetricsTable(arrays.get_text("train/metrics"), arrays.origin() + ": train/metrics");
  state.history = saved_history(arrays);
  state.validations_since_best = validations_since_best(arrays);
  if (!has_version_1(arrays)) {
    state.nan_steps = count("train/nan_steps");
    state.scheduled_save = count("train/scheduled_save");
    DivergenceWatch::State watch;
    std::ranges::copy(arrays.get<double>("train/divergence", {watch.size()}), watch.begin());
    state.divergence = DivergenceWatch(watch);
  }
  state.validation_pending = has_pending_validation(arrays);
  state.before_end = saved_before_end(arrays);
  if (state.before_end) require_rows(*state.before_end, state.metrics.csv(), arrays);
  return state;
}

}  // namespace

ArrayShape stored_shape(const Tensor& tensor) {
  return {tensor.shape().begin(), tensor.shape().end()};
}

std::vector<ShardState> shard_states(const RunParts& run) {
  std::vector<ShardState> states{{.group = optimizer_group,
                                  .tensors = run.optimizer.state(),
                                  .ranges = run.optimizer.ranges()}};
  if (run.average != nullptr) {
    states.push_back(
        {.group = average_group, .tensors = run.average->state(), .ranges = run.average->ranges()});
  }
  return states;
}

ArrayStore collect_arrays(const RunParts& run) {
  ArrayStore arrays;
  arrays.put_text("program_version", program_version);
  arrays.put_text("run_id", run.state.run_id);
  arrays.put_text("config", dump_config(with_process_settings(run.config, Config{})));
  arrays.put_text("arithmetic", arithmetic());
  put_vocabulary(arrays, "source", run.corpus.source_vocabulary);
  put_vocabulary(arrays, "target", run.corpus.target_vocabulary);
  arrays.put_scalar("data/fingerprint", run.corpus.fingerprint);
  arrays.put_text("data/files", to_text(identify(run.corpus)));
  put_tensors(arrays, "parameters", run.model.parameters.list());
  put_tensors(arrays, "buffers", run.model.parameters.buffers());
  for (const ShardState& state : shard_states(run)) {
    put_shard(arrays, state, run.model.parameters.list());
  }
  arrays.put_scalar("optimizer/steps", run.optimizer.steps());

  put_state(arrays, run.state);
  return arrays;
}

bool continues_state(const OptimizerOptions& before, const OptimizerOptions& now) {
  return describe(before.kind).state(before) == describe(now.kind).state(now);
}

bool has_other_batches(const Config& before, const Config& now) {
  const bool by_examples = before.train.batch_tokens == 0 && now.train.batch_tokens == 0;
  return before.train.batch_tokens != now.train.batch_tokens ||
         (by_examples && before.train.batch_size != now.train.batch_size) ||
         before.data.generated.train_size != now.data.generated.train_size ||
         before.data.training.corpus_weights != now.data.training.corpus_weights;
}

void restore(const ArrayStore& arrays, const RunParts& run) {
  Assignments assignments(arrays);
  add_model(assignments, run.model, parameters_group);
  const bool same_average = run.average != nullptr && inference_group(arrays) == average_group;
  const bool same_optimizer = continues_state(saved_config(arrays).optimizer, run.config.optimizer);
  for (const ShardState& state : shard_states(run)) {
    const bool of_optimizer = state.group == optimizer_group;
    if (!(of_optimizer ? same_optimizer : same_average)) continue;
    const OptimizerOptions& options = run.config.optimizer;
    assignments.add(
        state, run.model.parameters.list(),
        of_optimizer ? describe(options.kind).state(options) : std::vector<OptimizerState>{},
        of_optimizer ? "steps" : "");
  }
  TrainingState state = saved_state(arrays);
  state.run_id = saved_run_id(arrays);
  if (state.run_id.empty()) state.run_id = run.state.run_id;
  const auto optimizer_steps = arrays.get_scalar<std::uint64_t>("optimizer/steps");

  assignments.carry_out();
  if (run.average != nullptr && !same_average) run.average->reset();
  if (same_optimizer) run.optimizer.set_steps(optimizer_steps);
  run.state = std::move(state);
}

std::uint64_t digest_of_shard_states(const ArrayStore& arrays) {
  Xxh3 digest;
  for (const auto& [path, array] : arrays) {
    if (!path.starts_with(optimizer_group) && !path.starts_with(average_group)) continue;
    digest.add(array.bytes.data(), array.bytes.size());
  }
  return digest.value();
}

Config saved_config(const ArrayStore& arrays) {
  const std::string text = arrays.get_text("config");
  try {
    return parse_config(text, "config of the checkpoint");
  } catch (const ConfigError& error) {
    if (const auto kind = unknown_model_kind(text)) {
      throw CheckpointError(
          fmt::format("{}: model.kind `{}` is unknown to this program", arrays.origin(), *kind),
          "use the program that wrote the run");
    }
    // Hints are for people who write a config. This one was written by another program or version.
    std::vector<Diagnostic> problems = error.diagnostics();
    for (Diagnostic& problem : problems) problem.hint.clear();
    throw CheckpointError(fmt::format("{}: its config cannot be used: {}", arrays.origin(),
                                      ConfigError(problems).what()),
                          "use the program that wrote the checkpoint, in the same version");
  }
}

DataIdentity data_identity(const ArrayStore& arrays) {
  DataIdentity data{.fingerprint = arrays.get_scalar<std::uint64_t>("data/fingerprint")};
  if (!has_version_1(arrays)) data.files = saved_files(arrays);
  return data;
}

FixedVocabularies saved_vocabularies(const ArrayStore& arrays) {
  return {.source = saved_vocabulary(arrays, "source"),
          .target = saved_vocabulary(arrays, "target")};
}

std::uint64_t validations_since_best(const ArrayStore& arrays) {
  if (has_version_1(arrays)) return 0;
  return arrays.get_scalar<std::uint64_t>("train/validations_since_best");
}

bool has_pending_validation(const ArrayStore& arrays) { return arrays.contains(pending_path); }

std::string saved_history(const ArrayStore& arrays) {
  return has_version_1(arrays) ? "" : arrays.get_text("train/history");
}

std::string saved_run_id(const ArrayStore& arrays) {
  return arrays.contains("run_id") ? arrays.get_text("run_id") : "";
}

std::string saved_arithmetic(const ArrayStore& arrays) {
  return has_version_1(arrays) ? "" : arrays.get_text("arithmetic");
}

std::uint64_t saved_step(const ArrayStore& arrays) {
  return arrays.get_scalar<std::uint64_t>("train/step");
}

BatchPosition saved_position(const ArrayStore& arrays) {
  return {.epoch = arrays.get_scalar<std::uint64_t>("train/epoch"),
          .batch = static_cast<std::size_t>(arrays.get_scalar<std::uint64_t>("train/batch"))};
}

void restore_model(const ArrayStore& arrays, const Model& model) {
  Assignments assignments(arrays);
  add_model(assignments, model, inference_group(arrays));
  assignments.carry_out();
}

}  // namespace tapestry
