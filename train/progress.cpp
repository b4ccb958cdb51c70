#include "train/progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/utf8.h"
#include "train/config/text.h"
#include "train/error.h"
#include "train/format.h"
#include "train/platform/standard_streams.h"

namespace tapestry {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from,
                       std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Whether `out` is a terminal that has the escape sequence to erase a line.
bool is_capable_terminal(std::FILE* out) {
  if (out == nullptr || isatty(fileno(out)) == 0) return false;
  const char* const type = std::getenv("TERM");
  return type != nullptr && *type != '\0' && std::string_view(type) != "dumb";
}

/// Characters in a line of the terminal, which changes with its window; 0 if it is unknown.
std::size_t terminal_columns(std::FILE* out) {
  winsize size{};
  return ::ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/// As many parts as fit into `columns` characters, in their order: the last but one is left out
/// first, then from the end. The first is always there, cut if it has to be.
std::string fitting_line(std::vector<std::string> parts, std::size_t columns) {
  const auto line = [&] { return fmt::format("{}", fmt::join(parts, "  ")); };
  if (count_characters(line()) > columns) parts.erase(parts.end() - 2);
  while (parts.size() > 1 && count_characters(line()) > columns) parts.pop_back();
  return std::string(characters(line(), 0, columns));
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

}  // namespace

Progress::Progress(std::FILE* out, std::uint64_t first_step, std::uint64_t total_steps,
                   std::string targets)
    : out_(out),
      terminal_(is_capable_terminal(out)),
      first_step_(first_step),
      total_steps_(total_steps),
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

void Progress::time_to(const std::string& path) {
  timing_.emplace(path, first_step_);
  warn_of_timing();
  started_ = Clock::now();
  begin_interval();
}

void Progress::begin_interval() {
  interval_targets_ = 0;
  interval_steps_ = 0;
  interval_started_ = Clock::now();
}

void Progress::add_timing(std::uint64_t step) {
  if (!timing_ || interval_steps_ == 0 || timing_->problem()) return;
  const Clock::time_point now = Clock::now();
  const double seconds = std::max(seconds_between(interval_started_, now), 1e-9);
  timing_->add({.step = step,
                .elapsed_seconds = seconds_between(started_, now),
                .step_seconds = seconds / static_cast<double>(interval_steps_),
                .targets_per_second = static_cast<double>(interval_targets_) / seconds});
  warn_of_timing();
}

void Progress::warn_of_timing() {
  if (timing_->problem()) message("warning: " + *timing_->problem());
}

void Progress::rolled_back(std::uint64_t step) {
  if (timing_) timing_->drop_after(step);
  begin_interval();
}

void Progress::erase_live_line() {
  if (terminal_) std::fputs("\r\033[K", out_);
}

void Progress::line(const std::string& text) {
  if (log_ != nullptr) log_->info(text);
  if (const auto problem = std::exchange(log_problem_, std::nullopt)) {
    message("warning: " + *problem);
  }
  print(text);
}

/// Prints a line on `out_` alone.
void Progress::print(const std::string& text) {
  if (out_ == nullptr) return;
  erase_live_line();
  errno = 0;
  if (std::fputs((text + "\n").c_str(), out_) >= 0 && std::fflush(out_) == 0) return;
  if (output_error_ == 0) output_error_ = errno;
  // Standard output is closed: the run continues and the log records the failure once.
  if (log_ == nullptr || lost_) return;
  lost_ = true;
  log_->info("warning: standard output could not be written: {}",
             std::generic_category().message(errno));
}

void Progress::log_error(const std::string& text) {
  if (log_ != nullptr) log_->info("error: {}", escaped_lines(text));
}

void Progress::message(const std::string& text) {
  constexpr std::string_view warning = "warning: ";
  line(escaped_lines(text));
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

std::string Progress::speed() const {
  const double seconds = seconds_between(interval_started_, Clock::now());
  const double speed = seconds > 0 ? static_cast<double>(interval_targets_) / seconds : 0.0;
  return fmt::format("{} {}/s", format_count(static_cast<std::uint64_t>(speed)), targets_);
}

std::string Progress::time_left(std::uint64_t step) const {
  const double per_step = seconds_between(started_, Clock::now()) /
                          static_cast<double>(std::max<std::uint64_t>(step - first_step_, 1));
  return format_duration(per_step * static_cast<double>(total_steps_ - step));
}

void Progress::step(std::uint64_t step, std::size_t targets, double loss) {
  interval_targets_ += targets;
  ++interval_steps_;
  print_later_message();
  const Clock::time_point now = Clock::now();
  if (!terminal_ || seconds_between(drawn_, now) < 0.1) return;
  drawn_ = now;
  draw_live_line(step, loss);
}

void Progress::draw_live_line(std::uint64_t step, double loss) {
  std::vector<std::string> parts{fmt::format("step {}/{}", step, total_steps_),
                                 fmt::format("loss {:.4f}", loss), speed(),
                                 fmt::format("{} left", time_left(step))};
  // The last column stays empty: some terminals begin a new line once it is written.
  const std::size_t columns = terminal_columns(out_);
  const std::string text =
      "\r\033[K" + fitting_line(std::move(parts), columns > 0 ? columns - 1 : std::string::npos);
  // Unlike fmt::print, fputs does not throw if the terminal is closed: the run continues.
  std::fputs(text.c_str(), out_);
  std::fflush(out_);
}

void Progress::metrics(const TrainMetrics& m) {
  line(
      fmt::format("step {:>{}}/{}  epoch {}  loss {:.4f}  perplexity {:.3f}  lr {:.2e}  "
                  "gradient {:.3f}  {}  {} left",
                  m.step, std::to_string(total_steps_).size(), total_steps_, m.epoch, m.loss,
                  m.perplexity, m.learning_rate, m.gradient_norm, speed(), time_left(m.step)));
  add_timing(m.step);
  begin_interval();
}

void Progress::validation(std::uint64_t step, const std::string& scores, bool best) {
  line(fmt::format("validation at step {}: {}{}", step, scores, best ? "  (best so far)" : ""));
  begin_interval();
}

}  // namespace tapestry
