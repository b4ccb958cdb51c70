// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/run_recorder.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <exception>
#include <new>
#include <utility>

#include "data/batch.h"
#include "data/io/memory.h"
#include "train/recording/event_log.h"
#include "train/recording/run_events.h"
#include "train/recording/tensorboard.h"
#include "train/tasks/task.h"

namespace tapestry {

RunRecorder::Files::Files(const std::filesystem::path& folder, const RunParts& run,
                          std::uint64_t last_validation)
    : events(folder / events_file_name, run.state.step, last_validation),
      watch(run.model.parameters),
      training_tokens(count_tokens(run.corpus.training(), find_task(run.config).layout())) {
  if (run.config.train.tensorboard) {
    tensorboard.emplace(folder / tensorboard_folder_name, run.state.metrics.csv());
  }
}

/// The reason why a file cannot be written.
std::optional<std::string> RunRecorder::Files::problem() const {
  if (events.problem()) return events.problem();
  return tensorboard ? tensorboard->problem() : std::nullopt;
}

void RunRecorder::start(const std::filesystem::path& folder, std::uint64_t last_validation) {
  try {
    files_.emplace(folder, run_, last_validation);
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
  const std::uint64_t step = run_.state.step, every = run_.config.train.digest_every;
  if (every == 0 || step % every != 0) return;
  guarded([&](Files& files) {
    const bool with_names = !std::exchange(files.has_digests, true);
    tapestry::add_digests(files.events, step, run_.model.parameters, with_names);
  });
}

void RunRecorder::add_rows() {
  guarded([this](Files& files) {
    if (files.tensorboard) files.tensorboard->add_rows(run_.state.metrics.csv());
  });
}

void RunRecorder::add_speed(const std::optional<StepSpeed>& speed) {
  if (!speed) return;
  guarded([&](Files& files) { tapestry::add_speed(files.events, run_.state.step, *speed); });
}

void RunRecorder::add_time(bool at_once) {
  if (time_use_.seconds(TimePart::forward) == 0.0) return;
  guarded([this, at_once](Files& files) {
    if (at_once) {
      files.time.add(files.events, run_.state.step, time_use_);
    } else {
      files.time.add_if_due(files.events, run_.state.step, time_use_);
    }
  });
}

void RunRecorder::add_validation(const Scores& scores) {
  guarded([&](Files& files) {
    ValidationRecord record{.step = run_.state.step,
                            .resident_bytes = read_resident_bytes(),
                            .samples = scores.samples,
                            .blocks = files.watch.measure()};
    if (scores.training) {
      record.training = TrainingRecord{.examples = run_.corpus.training().size(),
                                       .tokens = files.training_tokens,
                                       .epochs = run_.state.position.epoch,
                                       .sample = *scores.training};
    }
    files.events.add(record.step, "validation", to_json(record));
    if (!files.tensorboard) return;
    files.tensorboard->add_rows(run_.state.metrics.csv());
    files.tensorboard->add(record);
  });
}

void RunRecorder::drop_later_steps() {
  guarded([this](Files& files) {
    const std::uint64_t step = run_.state.step;
    files.events.drop_after(step, step);
    files.has_digests = false;
    if (files.tensorboard) files.tensorboard->set_rows(run_.state.metrics.csv());
  });
}

}  // namespace tapestry
