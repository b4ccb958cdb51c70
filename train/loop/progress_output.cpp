#include "train/loop/progress_output.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "train/loop/live_line.h"

namespace tapestry {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

// ---- Text

/// Whether `out` is a terminal that has the escape sequence to erase a line.
bool is_capable_terminal(std::FILE* out) {
  if (isatty(fileno(out)) == 0) return false;
  const char* const type = std::getenv("TERM");
  return type != nullptr && *type != '\0' && std::string_view(type) != "dumb";
}

/// Characters in a line of the terminal, which changes with its window; 0 if it is unknown.
std::size_t terminal_columns(std::FILE* out) {
  winsize size{};
  return ::ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

class TextOutput : public ProgressOutput {
 public:
  explicit TextOutput(std::FILE* file)
      : ProgressOutput(file), terminal_(is_capable_terminal(file)), utf8_(is_utf8_locale()) {}
  ~TextOutput() override { erase_live_line(); }

  void message(const std::string& text) override {
    erase_live_line();
    write_line(text);
  }

  /// At most ten times a second.
  bool shows_step() override {
    if (!terminal_) return false;
    const Clock::time_point now = Clock::now();
    if (now - drawn_ < std::chrono::milliseconds(100)) return false;
    drawn_ = now;
    return true;
  }

  void step(const LiveValues& values) override {
    // The last column stays empty: some terminals begin a new line once it is written.
    const std::size_t columns = terminal_columns(file());
    const std::string text =
        "\r\033[K" + live_line(values, columns > 0 ? columns - 1 : std::string::npos, utf8_);
    // Unlike fmt::print, fputs does not throw if the terminal is closed: the run continues.
    std::fputs(text.c_str(), file());
    std::fflush(file());
  }

 private:
  void erase_live_line() {
    if (terminal_) std::fputs("\r\033[K", file());
  }

  bool terminal_;  ///< whether there is a live line
  bool utf8_;
  Clock::time_point drawn_{};
};

// ---- JSON

/// A number that JSON can express; null if it is not finite.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

class JsonOutput : public ProgressOutput {
 public:
  using ProgressOutput::ProgressOutput;

  void start(const RunStart& run) override {
    write({{"event", "start"},
           {"run_dir", run.run_dir},
           {"kind", run.kind},
           {"first_step", run.first_step},
           {"steps", run.total_steps},
           {"parameters", run.parameters}});
  }

  void message(const std::string& text) override {
    constexpr std::string_view warning = "warning: ";
    const bool warns = text.starts_with(warning);
    write({{"event", "message"},
           {"warning", warns},
           {"text", warns ? text.substr(warning.size()) : text}});
  }

  void metrics(const std::string&, const TrainMetrics& m, const ProgressRates& rates) override {
    write({{"event", "step"},
           {"step", m.step},
           {"epoch", m.epoch},
           {"loss", number(m.loss)},
           {"perplexity", number(m.perplexity)},
           {"learning_rate", number(m.learning_rate)},
           {"gradient_norm", number(m.gradient_norm)},
           {"targets", m.target_tokens},
           {"targets_per_second", number(rates.targets_per_second)},
           {"seconds_left", number(rates.seconds_left)}});
  }

  void validation(const std::string&, const ValidationReport& report) override {
    Json scores = Json::object();
    for (const auto& [name, value] : report.scores) scores[name] = number(value);
    write({{"event", "validation"},
           {"step", report.step},
           {"best", report.best},
           {"scores", std::move(scores)}});
  }

  void checkpoint(std::uint64_t step, const std::string& path) override {
    write({{"event", "checkpoint"}, {"step", step}, {"file", path}});
  }

  void end(std::uint64_t step, int exit_code) override {
    write({{"event", "end"}, {"step", step}, {"exit_code", exit_code}});
  }

 private:
  /// Bytes that are not UTF-8, of a file name, are replaced.
  void write(const Json& event) {
    write_line(event.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
};

}  // namespace

void ProgressOutput::write_line(const std::string& text) {
  errno = 0;
  if (std::fputs((text + "\n").c_str(), file_) >= 0 && std::fflush(file_) == 0) return;
  if (error_ == 0) error_ = errno;
}

std::unique_ptr<ProgressOutput> make_text_output(std::FILE* file) {
  return std::make_unique<TextOutput>(file);
}

std::unique_ptr<ProgressOutput> make_json_output(std::FILE* file) {
  return std::make_unique<JsonOutput>(file);
}

}  // namespace tapestry
