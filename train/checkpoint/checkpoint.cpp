// SPDX-License-Identifier: BSD-3-Clause
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

#include "autograd/kernels/parallel.h"
#include "data/io/error.h"
#include "data/io/file.h"
#include "data/io/utf8.h"
#include "data/text/subwords.h"
#include "optim/optimizer.h"
#include "train/base/error.h"
#include "train/base/program.h"
#include "train/checkpoint/arithmetic.h"
#include "train/checkpoint/parameter_file.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/known_keys.h"
#include "train/config/load.h"

namespace tapestry {
namespace {

[[noreturn]] void reject_array(const ArrayStore& arrays, const std::string& path,
                               const std::string& what, std::string hint) {
  throw CheckpointError(fmt::format("{}: {}: found {}", arrays.origin(), path, what),
                        std::move(hint));
}

/// throws  CheckpointError if is_valid(double) is false for a value of an array below `prefix`.
template <class Test>
void require_values(const ArrayStore& arrays, const std::string& prefix, const Test& is_valid,
                    std::string_view expected) {
  for (const auto& [path, array] : arrays) {
    if (!path.starts_with(prefix)) continue;
    const std::optional<double> invalid = visit_elements(array, [&](const auto& values) {
      for (const auto value : values) {
        if (!is_valid(static_cast<double>(value))) return std::optional<double>(value);
      }
      return std::optional<double>();
    });
    if (!invalid) continue;
    reject_array(arrays, path, fmt::format("{}, expected {}", *invalid, expected),
                 "use an earlier checkpoint of the run");
  }
}

/// Copies the arrays of a group to tensors: whole arrays, or only a shard's elements.
class GroupCopy {
 public:
  /// whole  tensors with the shapes of the arrays, one per range
  GroupCopy(const ShardState& state, const std::vector<NamedTensor>& whole) : group_(state.group) {
    for (std::size_t i = 0; i < state.tensors.size(); ++i) {
      const std::size_t parameter = state.parameter(i);
      targets_.push_back({.path = state.path(i),
                          .whole = whole[parameter].tensor,
                          .begin = state.ranges[parameter].begin,
                          .tensor = state.tensors[i].tensor});
    }
  }

  /// Copies whole arrays.
  GroupCopy(const std::string& group, const std::vector<NamedTensor>& tensors)
      : GroupCopy({.group = group,
                   .tensors = tensors,
                   .ranges = std::vector<ElementRange>(tensors.size())},
                  tensors) {}

  /// Checks all elements of the arrays, including elements outside the shard, so that all processes
  /// of a run reject the same checkpoints.
  ///
  /// throws  CheckpointError if an array is missing, has a different shape or element type or a
  ///         non-finite value, or if the group has an unexpected array.
  void check(const ArrayStore& arrays) const {
    std::set<std::string, std::less<>> known{optimizer_steps};
    for (const Target& target : targets_) {
      dispatch(target.whole.dtype(),
               [&]<class T>() { arrays.get<T>(target.path, stored_shape(target.whole)); });
      known.insert(target.path);
    }
    for (const auto& [path, array] : arrays) {
      if (!path.starts_with(group_) || known.contains(path)) continue;
      reject_array(arrays, path,
                   "an array that does not belong to the model of the checkpoint's config",
                   "use the version of the program that wrote the checkpoint");
    }
    const auto is_finite = [](double value) { return std::isfinite(value); };
    require_values(arrays, group_, is_finite, "finite numbers");
  }

  /// Copies the arrays; call check() first. Does not allocate memory, so it cannot fail halfway.
  void carry_out(const ArrayStore& arrays) {
    for (Target& target : targets_) {
      dispatch(target.tensor.dtype(), [&]<class T>() {
        std::ranges::copy(arrays.get<T>(target.path).subspan(target.begin, target.tensor.size()),
                          target.tensor.template mutable_values<T>().begin());
      });
    }
  }

 private:
  struct Target {
    std::string path;
    Tensor whole;           ///< tensor with the shape of the array
    std::size_t begin = 0;  ///< index of the first copied element of the array
    Tensor tensor;
  };

  std::string group_;
  std::vector<Target> targets_;
};

/// Adds whole arrays to a checkpoint. Elements outside the shard are 0. Copies on all threads,
/// because training waits for the copy.
void put_shard(ArrayStore& arrays, const ShardState& state,
               const std::vector<NamedTensor>& parameters) {
  std::vector<StoredArray> copies(state.tensors.size());
  const kernels::UncancellableScope whole_copy;
  kernels::parallel_for(copies.size(), [&](std::size_t i) {
    const std::size_t parameter = state.parameter(i);
    const Tensor& whole = parameters[parameter].tensor;
    dispatch(whole.dtype(), [&]<class T>() {
      const std::span<const std::byte> own = std::as_bytes(state.tensors[i].tensor.values<T>());
      StoredArray& array = copies[i];
      array = {.type = element_type_of<T>, .shape = stored_shape(whole), .bytes = {}};
      if (own.size() == whole.size() * sizeof(T)) {
        array.bytes.assign(own.begin(), own.end());
      } else {
        array.bytes.resize(whole.size() * sizeof(T));
        std::ranges::copy(
            own, array.bytes.begin() +
                     static_cast<std::ptrdiff_t>(state.ranges[parameter].begin * sizeof(T)));
      }
    });
  });
  for (std::size_t i = 0; i < copies.size(); ++i) arrays.put(state.path(i), std::move(copies[i]));
}

/// Lists the copies from `group` to the parameters of a model, and from "buffers/" to the buffers.
std::vector<GroupCopy> copies_to(const Model& model, const std::string& group) {
  return {GroupCopy(group, model.parameters.list()),
          GroupCopy(buffers_group, model.parameters.buffers())};
}

ShardState optimizer_state(const RunParts& run) {
  return {
      .group = optimizer_group, .tensors = run.optimizer.state(), .ranges = run.optimizer.ranges()};
}

ShardState average_state(const RunParts& run) {
  return {.group = average_group, .tensors = run.average->state(), .ranges = run.average->ranges()};
}

/// throws  CheckpointError if an element of the optimizer's second moments is negative.
void require_means_of_squares(const ArrayStore& arrays, const OptimizerOptions& options) {
  const auto is_mean_of_squares = [](double value) { return value >= 0; };
  for (const OptimizerState& state : describe(options.kind).state(options)) {
    if (!state.mean_of_squares) continue;
    require_values(arrays, fmt::format("{}{}/", optimizer_group, state.name), is_mean_of_squares,
                   "a mean of squares");
  }
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

/// Whether a checkpoint has format version 1, which stores less of the training state. Missing
/// fields keep their initial values.
bool is_version_1(const ArrayStore& arrays) { return !arrays.contains("train/history"); }

const std::string pending_path = "train/validation_pending";
const std::string before_end_sums = "train/before_end_sums";
const std::string before_end_counts = "train/before_end_counts";

/// Adds the arrays that exist only at the end of a run.
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

/// throws  CheckpointError if the byte range of the added rows does not consist of whole rows.
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

/// Calls f(path, number, version) for the numbers of a training state. `version` is the first
/// format version that stores the number.
template <class State, class F>
void for_each_number(State& state, const F& f) {
  f("train/step", state.step, 1);
  f("train/epoch", state.position.epoch, 1);
  f("train/batch", state.position.batch, 1);
  f("train/running_loss_sum", state.running.loss_sum, 1);
  f("train/running_nll_sum", state.running.nll_sum, 1);
  f("train/running_tokens", state.running.tokens, 1);
  f("train/best_loss", state.best_value, 1);  // value of train.best_metric, which may not be a loss
  f("train/validations_since_best", state.validations_since_best, 2);
  f("train/nan_steps", state.nan_steps, 2);
  f("train/scheduled_save", state.scheduled_save, 2);
}

void put_state(ArrayStore& arrays, const TrainingState& state) {
  for_each_number(state, [&](const char* path, auto number, int /*version*/) {
    arrays.put_scalar(path, number);
  });
  arrays.put_scalar("train/best_step", state.best_step.value_or(0));
  const DivergenceWatch::State watch = state.divergence.state();
  arrays.put<double>("train/divergence", watch, {watch.size()});
  arrays.put_text("train/history", state.history);
  arrays.put_text("train/metrics", state.metrics.csv());
  if (state.validation_pending) arrays.put_scalar(pending_path, std::uint64_t{1});
  if (state.before_end) put_before_end(arrays, *state.before_end);
}

TrainingState saved_state(const ArrayStore& arrays) {
  TrainingState state;
  const bool version_1 = is_version_1(arrays);
  for_each_number(state, [&]<class T>(const char* path, T& number, int version) {
    if (version == 1 || !version_1) number = arrays.get_scalar<T>(path);
  });
  if (std::isfinite(state.best_value)) {
    state.best_step = arrays.get_scalar<std::uint64_t>("train/best_step");
  }
  state.metrics =
      MetricsTable(arrays.get_text("train/metrics"), arrays.origin() + ": train/metrics");
  state.history = saved_history(arrays);
  if (!version_1) {
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
  std::vector<ShardState> states{optimizer_state(run)};
  if (run.average != nullptr) states.push_back(average_state(run));
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
  arrays.put_scalar(optimizer_steps, run.optimizer.steps());
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
  const bool has_average = run.average != nullptr && inference_group(arrays) == average_group;
  const bool same_optimizer = continues_state(saved_config(arrays).optimizer, run.config.optimizer);
  const auto& parameters = run.model.parameters.list();
  std::vector<GroupCopy> copies = copies_to(run.model, parameters_group);
  if (same_optimizer) copies.emplace_back(optimizer_state(run), parameters);
  if (has_average) copies.emplace_back(average_state(run), parameters);

  for (const GroupCopy& copy : copies) copy.check(arrays);
  if (same_optimizer) require_means_of_squares(arrays, run.config.optimizer);
  TrainingState state = saved_state(arrays);
  state.run_id = saved_run_id(arrays);
  if (state.run_id.empty()) state.run_id = run.state.run_id;
  const auto steps = arrays.get_scalar<std::uint64_t>(optimizer_steps);

  for (GroupCopy& copy : copies) copy.carry_out(arrays);
  if (run.average != nullptr && !has_average) run.average->reset();
  if (same_optimizer) run.optimizer.set_steps(steps);
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
    // Omits the hint of the config error, since it is for authors of configs, but another program
    // or version wrote this config.
    std::vector<Diagnostic> problems = error.diagnostics();
    for (Diagnostic& problem : problems) problem.hint.clear();
    throw CheckpointError(fmt::format("{}: its config cannot be used: {}", arrays.origin(),
                                      ConfigError(problems).what()),
                          "use the same version of the program that wrote the checkpoint");
  }
}

DataIdentity data_identity(const ArrayStore& arrays) {
  DataIdentity data{.fingerprint = arrays.get_scalar<std::uint64_t>("data/fingerprint")};
  if (!is_version_1(arrays)) data.files = saved_files(arrays);
  return data;
}

FixedVocabularies saved_vocabularies(const ArrayStore& arrays) {
  return {.source = saved_vocabulary(arrays, "source"),
          .target = saved_vocabulary(arrays, "target")};
}

std::uint64_t validations_since_best(const ArrayStore& arrays) {
  if (is_version_1(arrays)) return 0;
  return arrays.get_scalar<std::uint64_t>("train/validations_since_best");
}

bool has_pending_validation(const ArrayStore& arrays) { return arrays.contains(pending_path); }

std::string saved_history(const ArrayStore& arrays) {
  return is_version_1(arrays) ? "" : arrays.get_text("train/history");
}

std::string saved_run_id(const ArrayStore& arrays) {
  return arrays.contains("run_id") ? arrays.get_text("run_id") : "";
}

std::string saved_arithmetic(const ArrayStore& arrays) {
  return is_version_1(arrays) ? "" : arrays.get_text("arithmetic");
}

std::uint64_t saved_step(const ArrayStore& arrays) {
  return arrays.get_scalar<std::uint64_t>("train/step");
}

BatchPosition saved_position(const ArrayStore& arrays) {
  return {.epoch = arrays.get_scalar<std::uint64_t>("train/epoch"),
          .batch = static_cast<std::size_t>(arrays.get_scalar<std::uint64_t>("train/batch"))};
}

void restore_model(const ArrayStore& arrays, const Model& model) {
  std::vector<GroupCopy> copies = copies_to(model, inference_group(arrays));
  for (const GroupCopy& copy : copies) copy.check(arrays);
  for (GroupCopy& copy : copies) copy.carry_out(arrays);
}

}  // namespace tapestry
