#include "train/loop/progress.h"

#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/system/machine.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The reason of an error of spdlog, which ends with the text of errno.
std::string reason_in(const std::string& error) {
  const std::size_t colon = error.rfind(": ");
  return colon == error.npos ? error : error.substr(colon + 2);
}

/// throws  OutputError if there is something else than a regular file, such as a pipe, which would
///         block when it is opened.
void require_log_file(const std::string& path) {
  std::error_code ignored;
  const auto status = std::filesystem::status(path, ignored);
  if (!std::filesystem::exists(status) || std::filesystem::is_regular_file(status)) return;
  throw OutputError(fmt::format("{}: found {}, expected a regular file", path,
                                std::filesystem::is_directory(status)
                                    ? "a folder"
                                    : "a pipe, socket or device, or a link to one"),
                    "delete it, or move it away");
}

std::unique_ptr<ProgressOutput> make_output(std::FILE* out, ProgressFormat format) {
  if (out == nullptr) return nullptr;
  return format == ProgressFormat::json ? make_json_output(out) : make_text_output(out);
}

}  // namespace

Progress::Progress(std::FILE* out, std::uint64_t first_step, std::uint64_t total_steps,
                   std::string targets, ProgressFormat format)
    : output_(make_output(out, format)),
      first_step_(first_step),
      total_steps_(total_steps),
      last_step_(first_step),
      targets_(std::move(targets)),
      started_(Clock::now()),
      interval_started_(started_) {}

Progress::~Progress() = default;

void Progress::log_to(const std::string& path) {
  require_log_file(path);
  try {
    log_ = std::make_shared<spdlog::logger>(
        "run", std::make_shared<spdlog::sinks::basic_file_sink_mt>(path));
  } catch (const spdlog::spdlog_ex& error) {
    throw OutputError(fmt::format("{}: could not be opened: {}", path, reason_in(error.what())),
                      "check the run directory");
  }
  log_->set_error_handler([this, path](const std::string& error) {
    if (std::exchange(log_failed_, true)) return;
    log_problem_ = fmt::format("{}: could not be written: {}; lines of the log are missing", path,
                               reason_in(error));
  });
  log_->set_pattern("%Y-%m-%d %H:%M:%S  %v");
  log_->flush_on(spdlog::level::info);
}

void Progress::start_timing() {
  started_ = Clock::now();
  begin_interval();
}

void Progress::begin_interval() {
  interval_targets_ = 0;
  interval_steps_ = 0;
  interval_started_ = Clock::now();
}

std::optional<StepSpeed> Progress::interval_speed() const {
  if (interval_steps_ == 0) return std::nullopt;
  const double seconds = std::max(seconds_between(interval_started_, Clock::now()), 1e-9);
  return StepSpeed{.seconds_per_step = seconds / static_cast<double>(interval_steps_),
                   .targets_per_second = static_cast<double>(interval_targets_) / seconds};
}

void Progress::rolled_back(std::uint64_t step) {
  last_step_ = step;
  begin_interval();
}

/// Writes a line to the log.
void Progress::log(const std::string& text) {
  if (log_ != nullptr) log_->info(text);
  if (const auto problem = std::exchange(log_problem_, std::nullopt)) {
    message("warning: " + *problem);
  }
}

/// Calls `report` with the output, if there is one. If standard output is closed, the run continues
/// and the log records the failure once.
void Progress::output(const std::function<void(ProgressOutput&)>& report) {
  if (output_ == nullptr) return;
  report(*output_);
  if (output_->error() == 0 || log_ == nullptr || lost_) return;
  lost_ = true;
  log_->info("warning: standard output could not be written: {}",
             std::generic_category().message(output_->error()));
}

void Progress::log_error(const std::string& text) {
  if (log_ != nullptr) log_->info("error: {}", escaped_lines(text));
}

void Progress::message(const std::string& text) {
  constexpr std::string_view warning = "warning: ";
  const std::string line = escaped_lines(text);
  log(line);
  output([&](ProgressOutput& out) { out.message(line); });
  if (warns_ && text.starts_with(warning)) warn(text.substr(warning.size()));
}

void Progress::message_later(std::chrono::seconds delay,
                             std::function<std::optional<std::string>()> text) {
  later_ = Clock::now() + delay;
  later_text_ = std::move(text);
}

void Progress::print_later_message() {
  if (!later_text_ || Clock::now() < later_) return;
  const auto text = std::exchange(later_text_, nullptr)();
  if (text) message(*text);
}

double Progress::targets_per_second() const {
  const double seconds = seconds_between(interval_started_, Clock::now());
  return seconds > 0 ? static_cast<double>(interval_targets_) / seconds : 0.0;
}

std::string Progress::speed() const {
  return fmt::format("{} {}/s", format_count(static_cast<std::uint64_t>(targets_per_second())),
                     targets_);
}

double Progress::seconds_left(std::uint64_t step) const {
  const double per_step = seconds_between(started_, Clock::now()) /
                          static_cast<double>(std::max<std::uint64_t>(step - first_step_, 1));
  return per_step * static_cast<double>(total_steps_ - step);
}

void Progress::start(const RunStart& run) {
  output([&](ProgressOutput& out) { out.start(run); });
}

void Progress::step(std::uint64_t step, std::size_t targets, double loss) {
  last_step_ = step;
  interval_targets_ += targets;
  ++interval_steps_;
  losses_.add(loss);
  print_later_message();
  if (output_ == nullptr || !output_->shows_step()) return;
  output_->step({.step = step,
                 .total_steps = total_steps_,
                 .loss = losses_.smoothed(),
                 .time_left = format_duration(seconds_left(step)),
                 .speed = speed(),
                 .past = losses_.parts(),
                 .best = best_,
                 .resident_bytes = read_resident_bytes()});
}

std::optional<StepSpeed> Progress::metrics(const TrainMetrics& m) {
  const std::string line = fmt::format(
      "step {:>{}}/{}  epoch {}  loss {:.4f}  perplexity {:.3f}  lr {:.2e}  "
      "gradient {:.3f}  {}  {} left",
      m.step, std::to_string(total_steps_).size(), total_steps_, m.epoch, m.loss, m.perplexity,
      m.learning_rate, m.gradient_norm, speed(), format_duration(seconds_left(m.step)));
  log(line);
  const ProgressRates rates{.targets_per_second = targets_per_second(),
                            .seconds_left = seconds_left(m.step)};
  output([&](ProgressOutput& out) { out.metrics(line, m, rates); });
  const auto result = interval_speed();
  begin_interval();
  return result;
}

void Progress::validation(const ValidationReport& report) {
  const std::string line = fmt::format("validation at step {}: {}{}", report.step, report.text,
                                       report.best ? "  (best so far)" : "");
  log(line);
  output([&](ProgressOutput& out) { out.validation(line, report); });
  begin_interval();
}

void Progress::checkpoint(std::uint64_t step, const std::string& path) {
  output([&](ProgressOutput& out) { out.checkpoint(step, path); });
}

void Progress::end(int exit_code) {
  output([&](ProgressOutput& out) { out.end(last_step_, exit_code); });
}

}  // namespace tapestry
