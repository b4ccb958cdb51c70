// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/progress.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "data/io/memory.h"
#include "data/io/utf8.h"
#include "train/base/error.h"
#include "train/base/format.h"
#include "train/checkpoint/run_directory.h"
#include "train/system/standard_streams.h"

namespace tapestry {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// The reason in an spdlog error, whose text ends with the message of errno.
std::string reason_in(const std::string& error) {
  const std::size_t colon = error.rfind(": ");
  return colon == error.npos ? error : error.substr(colon + 2);
}

/// Creates the file, which spdlog then opens again by its name. throws OutputError.
void require_log_file(const std::string& path) {
  if (open_run_file(path, O_WRONLY | O_CREAT | O_APPEND).is_open()) return;
  throw OutputError(fmt::format("{}: {}", path, run_file_problem(errno, path)),
                    "delete it, or move it away");
}

/// Whether `out` is a terminal that supports the escape sequence to erase a line.
bool is_capable_terminal(std::FILE* out) {
  if (out == nullptr || isatty(fileno(out)) == 0) return false;
  const char* const type = std::getenv("TERM");
  return type != nullptr && *type != '\0' && std::string_view(type) != "dumb";
}

/// The current width of the terminal in characters; 0 if it is unknown.
std::size_t terminal_columns(std::FILE* out) {
  winsize size{};
  return ::ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

constexpr std::string_view warning_prefix = "warning: ";

}  // namespace

Progress::Progress(std::FILE* out, std::uint64_t first_step, std::uint64_t total_steps,
                   std::string targets, ProgressFormat format)
    : out_(out),
      format_(format),
      has_live_line_(format == ProgressFormat::text && is_capable_terminal(out)),
      first_step_(first_step),
      total_steps_(total_steps),
      last_step_(first_step),
      targets_(std::move(targets)),
      started_(Clock::now()),
      interval_started_(started_) {}

Progress::~Progress() { erase_live_line(); }

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

// ---- Writing.

/// Writes a line to the log, and the line or its event to the output.
void Progress::report(const std::string& line, const Json& event) {
  log(line);
  if (format_ == ProgressFormat::json) return write_event(event);
  erase_live_line();
  write_line(line);
}

/// Writes a line to the log.
void Progress::log(const std::string& text) {
  if (log_ != nullptr) log_->info(text);
  if (const auto problem = std::exchange(log_problem_, std::nullopt)) {
    message("warning: " + *problem);
  }
}

/// Writes an event if the format is JSON. Bytes of file names that are not UTF-8 are replaced;
/// non-finite numbers become null.
void Progress::write_event(const Json& event) {
  if (format_ != ProgressFormat::json) return;
  write_line(event.dump(-1, ' ', false, Json::error_handler_t::replace));
}

/// Writes and flushes a line. The log records the first failure.
void Progress::write_line(const std::string& text) {
  if (out_ == nullptr) return;
  errno = 0;
  const bool written = std::fputs((text + "\n").c_str(), out_) >= 0 && std::fflush(out_) == 0;
  const auto problem = [this] {
    return "standard output could not be written: " +
           std::generic_category().message(output_error_);
  };
  if (!written && output_error_ == 0) {
    output_error_ = errno;
    // EPIPE is no problem: the reader of the pipe needs no more lines.
    if (output_error_ != EPIPE) warn(problem());
  }
  if (output_error_ == 0 || log_ == nullptr || std::exchange(lost_, true)) return;
  log_->info("warning: {}", problem());
}

/// Whether to redraw the live line: at most ten times a second.
bool Progress::is_live_line_due() {
  if (!has_live_line_) return false;
  const Clock::time_point now = Clock::now();
  if (now - drawn_ < std::chrono::milliseconds(100)) return false;
  drawn_ = now;
  return true;
}

void Progress::draw_live_line(std::uint64_t step) {
  const LiveValues values{.step = step,
                          .total_steps = total_steps_,
                          .loss = losses_.smoothed(),
                          .time_left = format_duration(seconds_left(step)),
                          .speed = speed(),
                          .past = losses_.parts(),
                          .best = best_,
                          .resident_bytes = read_resident_bytes()};
  // The last column stays empty: some terminals begin a new line once it is written.
  const std::size_t columns = terminal_columns(out_);
  erase_live_line();
  // Unlike fmt::print, fputs does not throw if the terminal is closed: the run continues.
  std::fputs(
      live_line(values, columns > 0 ? columns - 1 : std::string::npos, is_utf8_locale()).c_str(),
      out_);
  std::fflush(out_);
}

void Progress::erase_live_line() {
  if (has_live_line_) std::fputs("\r\033[K", out_);
}

void Progress::log_error(const std::string& text) {
  if (log_ != nullptr) log_->info("error: {}", escaped_lines(text));
}

void Progress::message(const std::string& text) {
  const std::string line = escaped_lines(text);
  const bool is_warning = text.starts_with(warning_prefix);
  report(line, {{"event", "message"},
                {"warning", is_warning},
                {"text", is_warning ? line.substr(warning_prefix.size()) : line}});
  if (warns_ && is_warning) warn(text.substr(warning_prefix.size()));
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

// ---- Events of a run.

void Progress::start(const RunStart& run) {
  write_event({{"event", "start"},
               {"run_dir", run.run_dir},
               {"kind", run.kind},
               {"first_step", run.first_step},
               {"steps", run.total_steps},
               {"parameters", run.parameters}});
}

void Progress::step(std::uint64_t step, std::size_t targets, double loss) {
  last_step_ = step;
  interval_targets_ += targets;
  ++interval_steps_;
  losses_.add(loss);
  print_later_message();
  if (is_live_line_due()) draw_live_line(step);
}

std::optional<StepSpeed> Progress::metrics(const TrainMetrics& m) {
  const double left = seconds_left(m.step);
  report(fmt::format("step {:>{}}/{}  epoch {}  loss {}  lr {:.2e}  "
                     "gradient {}  {}  {} left",
                     m.step, std::to_string(total_steps_).size(), total_steps_, m.epoch,
                     format_value(m.loss - m.smoothing, 4), m.learning_rate,
                     format_value(m.gradient_norm, 3), speed(), format_duration(left)),
         {{"event", "step"},
          {"step", m.step},
          {"epoch", m.epoch},
          {"loss", m.loss},
          {"perplexity", m.perplexity},
          {"learning_rate", m.learning_rate},
          {"gradient_norm", m.gradient_norm},
          {"targets", m.target_tokens},
          {"targets_per_second", targets_per_second()},
          {"seconds_left", left}});
  const auto result = interval_speed();
  begin_interval();
  return result;
}

void Progress::validation(const ValidationReport& validation) {
  report(fmt::format("validation at step {}: {}{}", validation.step, validation.text,
                     validation.best ? "  (best so far)" : ""),
         {{"event", "validation"},
          {"step", validation.step},
          {"best", validation.best},
          {"scores", validation.scores}});
  begin_interval();
}

void Progress::checkpoint(std::uint64_t step, const std::string& path) {
  write_event({{"event", "checkpoint"}, {"step", step}, {"file", path}});
}

void Progress::end(int exit_code) {
  write_event({{"event", "end"}, {"step", last_step_}, {"exit_code", exit_code}});
}

}  // namespace tapestry
