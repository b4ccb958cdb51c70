#include "train/run_recorder.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

#include "data/batch.h"
#include "train/models/held_out_results.h"
#include "train/platform/memory.h"
#include "train/tasks/task.h"

namespace tapestry {

RunRecorder::Files::Files(const std::filesystem::path& folder, const RunParts& run,
                          std::uint64_t last_step)
    : recording(folder / recording_file_name, last_step),
      time_use(folder / time_use_file_name, run.state.step),
      watch(run.model.parameters),
      training_tokens(count_tokens(run.corpus.training(), find_task(run.config).layout())) {
  if (run.config.train.tensorboard) {
    tensorboard.emplace(folder / tensorboard_folder_name, run.config, run.state.metrics.csv());
  }
  if (run.config.train.digest_every > 0) {
    digests.emplace(folder / digest_file_name, run.model.parameters, run.state.step);
  }
}

/// Why a file cannot be written.
std::optional<std::string> RunRecorder::Files::problem() const {
  std::optional<std::string> found = recording.problem();
  if (!found) found = time_use.problem();
  if (!found && tensorboard) found = tensorboard->problem();
  if (!found && digests) found = digests->problem();
  return found;
}

void RunRecorder::start(const std::filesystem::path& folder, std::uint64_t last_step) {
  try {
    files_.emplace(folder, run_, last_step);
  } catch (const std::exception& error) {
    progress_.message(fmt::format("warning: the run is not recorded: {}", error.what()));
    return;
  }
  report_problem();
}

/// Calls `action`, if the run is recorded.
void RunRecorder::guarded(const std::function<void(Files&)>& action) {
  if (!files_) return;
  const PartTimer timer(time_use_, TimePart::recording, "recording");
  try {
    action(*files_);
  } catch (const std::bad_alloc&) {
    progress_.message("warning: not recorded: not enough memory");
  } catch (const std::exception& error) {
    progress_.message(fmt::format("warning: the recording ends: {}", error.what()));
    files_.reset();
  }
  if (files_) report_problem();
}

void RunRecorder::report_problem() {
  std::optional<std::string> problem = files_->problem();
  if (problem == reported_) return;
  if (problem) progress_.message("warning: " + *problem);
  reported_ = std::move(problem);
}

void RunRecorder::before_update() {
  guarded([](Files& files) { files.is_watching = files.watch.before_update(); });
}

void RunRecorder::after_update() {
  guarded([](Files& files) {
    if (files.is_watching) files.watch.after_update();
    files.is_watching = false;
  });
}

void RunRecorder::add_digests() {
  guarded([this](Files& files) {
    const std::uint64_t step = run_.state.step;
    if (files.digests && step % run_.config.train.digest_every == 0) files.digests->add(step);
  });
}

void RunRecorder::add_rows() {
  guarded([this](Files& files) {
    if (files.tensorboard) files.tensorboard->add_rows(run_.state.metrics.csv());
  });
}

void RunRecorder::add_time_use(bool at_once) {
  if (time_use_.seconds(TimePart::forward) == 0.0) return;
  guarded([this, at_once](Files& files) {
    if (at_once) {
      files.time_use.add(run_.state.step, time_use_);
    } else {
      files.time_use.add_if_due(run_.state.step, time_use_);
    }
  });
}

std::vector<LayerAttention> RunRecorder::attention() {
  std::vector<LayerAttention> attention;
  guarded([&](const Files& files) {
    if (files.tensorboard && !attention_problem_) attention = attention_of_example();
  });
  return attention;
}

/// The attention weights on a held-out example. What cannot be shown causes one warning.
std::vector<LayerAttention> RunRecorder::attention_of_example() try {
  auto samples = attention_samples(run_.model, run_.config, codec_, run_.corpus,
                                   {.examples = 1, .most_tokens = 65});
  if (samples.empty()) return {};
  for (const std::string& note : samples.front().notes) {
    if (!attention_notes_.insert(note).second) continue;
    progress_.message(fmt::format("warning: attention: {}", note));
  }
  return std::move(samples.front().layers);
} catch (const std::bad_alloc&) {
  throw;
} catch (const std::exception& error) {
  attention_problem_ = true;
  progress_.message(fmt::format("warning: attention is not recorded: {}", error.what()));
  return {};
}

std::optional<TrainingRecord> RunRecorder::training_record(const Files& files,
                                                           const Scores& scores) const {
  if (!scores.training) return std::nullopt;
  return TrainingRecord{.examples = run_.corpus.training().size(),
                        .tokens = files.training_tokens,
                        .epochs = run_.state.position.epoch,
                        .sample = *scores.training};
}

void RunRecorder::add_validation(const Scores& scores,
                                 const std::vector<LayerAttention>& attention) {
  guarded([&](Files& files) {
    if (files.tensorboard) files.tensorboard->add_rows(run_.state.metrics.csv());
    const ValidationRecord record{.step = run_.state.step,
                                  .resident_bytes = read_resident_bytes(),
                                  .samples = scores.samples,
                                  .blocks = files.watch.measure(),
                                  .training = training_record(files, scores)};
    files.recording.add(record);
    if (files.tensorboard) files.tensorboard->add(record, attention);
  });
}

void RunRecorder::drop_later_steps() {
  guarded([this](Files& files) {
    const std::uint64_t step = run_.state.step;
    files.recording.drop_after(step);
    files.time_use.drop_after(step);
    if (files.digests) files.digests->drop_after(step);
    if (files.tensorboard) files.tensorboard->set_rows(run_.state.metrics.csv());
  });
}

}  // namespace tapestry
