#include "train/report/speed.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <utility>

#include "train/recording/json_values.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using Json = nlohmann::ordered_json;

constexpr double shortest = 1.0;  // seconds of training; a shorter run says nothing about speed

/// A sentence, and the share of the time that it is about.
struct Finding {
  double share = 0.0;
  std::string text;
};

// ---- Parts of the time

/// A part of the time that is worth a finding.
struct PartAdvice {
  TimePart part;
  double least;  ///< share
  const char* what;
  std::string advice;  ///< with the values of the keys; empty: none
};

/// Whether validation decodes sequences.
bool decodes(const Config& config) {
  const auto& keys = find_task(config).kind().keys;
  return config.train.exact_match_sequences > 0 &&
         std::ranges::find(keys, "train.exact_match_sequences") != keys.end();
}

std::vector<PartAdvice> part_advice(const Config& config) {
  const TrainOptions& train = config.train;
  const std::string validations =
      fmt::format("raise train.validate_every ({})", train.validate_every);
  return {
      {TimePart::batches, 0.1, "Waiting for batches",
       "they are prepared on a thread beside those of the computation: leave it a core "
       "(train.threads one less than the cores), or make the steps longer (a larger model or "
       "train.batch_size)."},
      {TimePart::validation, 0.1, "Validation",
       decodes(config)
           ? fmt::format("{}, or lower train.exact_match_sequences ({}), the number of sequences "
                         "that are decoded.",
                         validations, train.exact_match_sequences)
           : validations + "."},
      {TimePart::saving, 0.1, "Saving checkpoints",
       fmt::format("raise train.save_every ({}); a validation that is among the best is saved as "
                   "well, so {}, too.",
                   train.save_every, validations)},
      {TimePart::reports, 0.1, "Writing reports",
       train.report_every == 0
           ? ""
           : fmt::format("raise train.report_every ({}), or set it to 0.", train.report_every)},
      {TimePart::recording, 0.05, "Recording",
       fmt::format(
           "{} and train.log_every ({}){}{}.", validations, train.log_every,
           train.digest_every == 0
               ? ""
               : fmt::format("; raise train.digest_every ({}) or set it to 0", train.digest_every),
           train.tensorboard ? "; set train.tensorboard to false" : "")},
      {TimePart::anomaly_checks, 0.0, "The checks of train.detect_anomaly",
       "it is meant for finding the cause of a NaN: set it to false."},
  };
}

/// How many cores the run lacked because other programs used them; 0 if it is not known.
double cores_lacking(const ProcessTimeUse& use) {
  if (!use.other_seconds) return 0.0;
  const double others = *use.other_seconds / use.seconds;
  const double lacking = static_cast<double>(use.threads) + others - static_cast<double>(use.cores);
  return lacking > 0.25 && others > 0.25 ? lacking : 0.0;
}

void add_parts(const ProcessTimeUse& use, const Config& config, std::vector<Finding>& found) {
  for (const auto& [part, least, what, advice] : part_advice(config)) {
    const double share = use.part(part) / use.seconds;
    if (share <= 0.0 || share < least || advice.empty()) continue;
    // Batches wait for a core as well: find_cores() names the cause.
    if (part == TimePart::batches && cores_lacking(use) > 0.0) continue;
    found.push_back(
        {share, fmt::format("{} took {:.0f} % of the time: {}", what, 100 * share, advice)});
  }
}

// ---- Cores

std::string threads_text(std::size_t threads) {
  return fmt::format("{} thread{}", threads, threads == 1 ? "" : "s");
}

/// At most one finding on threads and cores.
std::optional<Finding> find_cores(const ProcessTimeUse& use) {
  if (!use.processor_seconds || !use.other_seconds) return std::nullopt;
  const double own = *use.processor_seconds / use.seconds,
               others = *use.other_seconds / use.seconds;
  const auto threads = static_cast<double>(use.threads), cores = static_cast<double>(use.cores);
  if (threads > cores) {
    return Finding{1 - cores / threads,
                   fmt::format("The run had {} on {} cores: set train.threads to {}.",
                               threads_text(use.threads), use.cores, use.cores)};
  }
  if (const double lacking = cores_lacking(use); lacking > 0.0) {
    const auto left = static_cast<std::size_t>(std::max(1.0, cores - others + 0.5));
    return Finding{
        lacking / threads,
        fmt::format(
            "Other programs kept {:.1f} of {} cores busy, so that the run, with {}, got "
            "{:.1f}{}: stop these programs{}.",
            others, use.cores, threads_text(use.threads), own,
            own > 0.0 && threads / own >= 1.5 && own + others >= 0.75 * cores
                ? fmt::format(" (alone it may be up to {:.1f} times as fast)", threads / own)
                : "",
            left < use.threads ? fmt::format(" or set train.threads to {}", left)
                               : " or train later")};
  }
  if (cores - others >= threads + 0.75) {
    return Finding{0.5, fmt::format("train.threads is {} of {} cores, and other programs used "
                                    "{:.1f}: set train.threads to 0 for all cores; the results "
                                    "stay the same, bit by bit.",
                                    use.threads, use.cores, others)};
  }
  const double waiting = 1 - own / threads;
  if (use.threads > 1 && waiting > 0.35) {
    return Finding{waiting,
                   fmt::format("The {} waited for {:.0f} % of the time, though cores were free: "
                               "the operations are too small to be divided, or something else "
                               "than computing took the time. A larger train.batch_size uses them "
                               "better; `tapestry plan` measures fewer threads.",
                               threads_text(use.threads), 100 * waiting)};
  }
  return std::nullopt;
}

// ---- Padding

std::optional<Finding> find_padding(const ProcessTimeUse& use, const Config& config) {
  if (use.positions == 0) return std::nullopt;
  const double share = static_cast<double>(use.padding) / static_cast<double>(use.positions);
  if (share < 0.3) return std::nullopt;
  const char* advice =
      config.train.batch_tokens == 0
          ? "set train.batch_tokens, for batches of examples of similar length, in "
            "place of train.batch_size; `tapestry plan` tells what is left of it."
          : "a smaller train.batch_tokens makes batches of more equal lengths.";
  return Finding{
      share, fmt::format("Padding is {:.0f} % of the tokens of batches: {}", 100 * share, advice)};
}

// ---- Runs without time_use.csv

std::optional<Finding> find_time_outside_of_steps(const std::vector<RunProcess>& processes,
                                                  const Config& config) {
  double all = 0.0, steps = 0.0;
  for (const RunProcess& process : processes) {
    all += process.seconds;
    steps += process.step_seconds;
  }
  if (all < shortest || steps >= 0.75 * all) return std::nullopt;
  return Finding{
      1 - steps / all,
      fmt::format("{:.0f} % of the time was spent on validations, saves and reports. A larger "
                  "train.validate_every or train.save_every{} leaves more for training.",
                  100 * (1 - steps / all),
                  decodes(config) ? ", or a smaller train.exact_match_sequences," : "")};
}

/// The last warning that other programs used the cores.
std::optional<Finding> find_busy_cores(const std::vector<LogLine>& log) {
  for (auto line = log.rbegin(); line != log.rend(); ++line) {
    if (line->warning && line->text.find("other programs") != line->text.npos) {
      return Finding{0.0, fmt::format("Training was slowed down at {}: {}", line->time,
                                      line->text.substr(line->text.find(' ') + 1))};
    }
  }
  return std::nullopt;
}

std::optional<Finding> find_anomaly_detection(const Config& config) {
  if (!config.train.detect_anomaly) return std::nullopt;
  return Finding{0.0,
                 "train.detect_anomaly was on: it checks the result of every operation for NaN and "
                 "infinity, which slows down each step. It is meant for finding the cause of a "
                 "NaN."};
}

}  // namespace

std::optional<ProcessTimeUse> total_time_use(const std::vector<ProcessTimeUse>& processes) {
  if (processes.empty()) return std::nullopt;
  ProcessTimeUse total = processes.front();
  const auto add = [](std::optional<double>& sum, const std::optional<double>& value) {
    sum = sum && value ? std::optional(*sum + *value) : std::nullopt;
  };
  for (std::size_t i = 1; i < processes.size(); ++i) {
    const ProcessTimeUse& process = processes[i];
    total.step = process.step;
    total.seconds += process.seconds;
    add(total.processor_seconds, process.processor_seconds);
    add(total.other_seconds, process.other_seconds);
    total.threads = process.threads;  // of the last one
    total.cores = process.cores;
    total.positions += process.positions;
    total.padding += process.padding;
    std::ranges::transform(total.parts, process.parts, total.parts.begin(), std::plus());
  }
  return total;
}

std::vector<std::string> speed_findings(const RunHistory& history, const Config& config) {
  std::vector<Finding> found;
  const auto add = [&](std::optional<Finding> finding) {
    if (finding) found.push_back(std::move(*finding));
  };
  const auto use = total_time_use(history.time_use);
  if (use && use->seconds >= shortest) {
    add_parts(*use, config, found);
    // Other processes may have had other threads and cores.
    if (history.time_use.back().seconds >= shortest) add(find_cores(history.time_use.back()));
    add(find_padding(*use, config));
  } else if (!use) {
    add(find_time_outside_of_steps(history.processes, config));
    add(find_busy_cores(history.log));
    add(find_anomaly_detection(config));
  }
  std::ranges::stable_sort(found, std::greater(), &Finding::share);
  std::vector<std::string> texts;
  for (Finding& finding : found) texts.push_back(std::move(finding.text));
  return texts;
}

Json speed_json(const std::vector<ProcessTimeUse>& processes) {
  const auto use = total_time_use(processes);
  if (!use) return nullptr;
  Json parts = Json::array();
  for (std::size_t i = 0; i < time_part_names.size(); ++i) {
    parts.push_back({{"name", time_part_names[i]}, {"seconds", json_number(use->parts[i])}});
  }
  const auto number = [](const std::optional<double>& value) {
    return value ? json_number(*value) : Json(nullptr);
  };
  return {{"seconds", json_number(use->seconds)},
          {"parts", std::move(parts)},
          {"processor_seconds", number(use->processor_seconds)},
          {"other_seconds", number(use->other_seconds)},
          {"threads", use->threads},
          {"cores", use->cores},
          {"positions", use->positions},
          {"padding", use->padding},
          {"processes", processes.size()}};
}

}  // namespace tapestry
