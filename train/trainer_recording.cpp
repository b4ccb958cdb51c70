#include "train/trainer_recording.h"

#include <fmt/format.h>

#include <exception>
#include <new>
#include <utility>

#include "train/models/held_out_results.h"

namespace tapestry {

void TrainerRecording::start(const std::filesystem::path& folder, std::uint64_t last_step) {
  try {
    recorder_.emplace(RunRecorder::Start{.folder = folder,
                                         .config = run_.config,
                                         .parameters = run_.model.parameters,
                                         .metrics_csv = run_.state.metrics.csv(),
                                         .step = run_.state.step,
                                         .last_step = last_step});
  } catch (const std::exception& error) {
    progress_.message(fmt::format("warning: the run is not recorded: {}", error.what()));
    return;
  }
  report_problem();
}

void TrainerRecording::record(const std::function<void(RunRecorder&)>& action) {
  if (!recorder_) return;
  const PartTimer timer(time_use_, TimePart::recording, "recording");
  try {
    action(*recorder_);
  } catch (const std::bad_alloc&) {
    progress_.message("warning: not recorded: not enough memory");
  } catch (const std::exception& error) {
    progress_.message(fmt::format("warning: the recording ends: {}", error.what()));
    recorder_.reset();
  }
  if (recorder_) report_problem();
}

void TrainerRecording::add_validation(const Scores& scores,
                                      const std::vector<LayerAttention>& attention) {
  record([&](RunRecorder& recorder) {
    recorder.add_rows(run_.state.metrics.csv());
    recorder.add(run_.state.step, scores.samples, attention);
  });
}

void TrainerRecording::add_time_use(bool at_once) {
  if (time_use_.seconds(TimePart::forward) == 0.0) return;
  record(
      [&](RunRecorder& recorder) { recorder.add_time_use(run_.state.step, time_use_, at_once); });
}

std::vector<LayerAttention> TrainerRecording::attention() {
  std::vector<LayerAttention> attention;
  record([&](RunRecorder& recorder) {
    if (recorder.shows_attention() && !attention_problem_) attention = attention_of_example();
  });
  return attention;
}

/// The attention weights on a held-out example. What cannot be shown causes one warning.
std::vector<LayerAttention> TrainerRecording::attention_of_example() try {
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

void TrainerRecording::report_problem() {
  if (const auto problem = recorder_->take_problem()) progress_.message("warning: " + *problem);
}

}  // namespace tapestry
