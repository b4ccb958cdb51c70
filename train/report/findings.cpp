#include "train/report/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "train/format.h"
#include "train/recording/json_values.h"
#include "train/report/speed.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

constexpr std::size_t fewest_validations = 4;  // fewer say nothing about a trend

/// A number as the charts and tables of the page show it: that of json_number(), formatted like
/// short() in page/elements.js.
std::string shown(double value) {
  if (!std::isfinite(value)) return "not finite";
  const auto stored = json_number(value).get<double>();
  if (stored == 0.0) return "0";
  const double size = std::abs(stored);
  const std::string sign = stored < 0.0 ? "-" : "";
  if (size >= 1000.0 && size < 1e6) {
    return sign + format_count(static_cast<std::uint64_t>(std::floor(size + 0.5)));
  }
  if (size >= 1e-4 && size < 1e6) return sign + fmt::format("{:.4g}", size);
  const std::string text = fmt::format("{:.2e}", size);
  const std::size_t at = text.find('e');
  return fmt::format("{}{}e{}", sign, text.substr(0, at), std::stoi(text.substr(at + 1)));
}

/// The points of a curve with finite values; none if the run has no such curve.
Curve finite_points(const RunHistory& history, std::string_view name, bool validation) {
  Curve points;
  for (const NamedCurve& curve : history.curves) {
    if (curve.name != name || curve.validation != validation) continue;
    for (std::size_t i = 0; i < curve.curve.values.size(); ++i) {
      if (!std::isfinite(curve.curve.values[i])) continue;
      points.steps.push_back(curve.curve.steps[i]);
      points.values.push_back(curve.curve.values[i]);
    }
  }
  return points;
}

/// The mean of the values with steps in (begin, end].
std::optional<double> mean_between(const Curve& curve, std::uint64_t begin, std::uint64_t end) {
  double sum = 0.0;
  std::size_t count = 0;
  for (std::size_t i = 0; i < curve.steps.size(); ++i) {
    if (curve.steps[i] <= begin || curve.steps[i] > end) continue;
    sum += curve.values[i];
    ++count;
  }
  return count == 0 ? std::nullopt : std::optional(sum / static_cast<double>(count));
}

/// What a run has recorded of its fit to the training and the validation set.
struct Fit {
  Curve training, validation;      ///< the losses, where they are finite
  Curve accuracy;                  ///< on the validation set
  const TrainingRecord* record{};  ///< of the training set at the last validation; null if none
  const Config& config;            ///< of the run
};

/// The mean training loss over the steps between validation `i` and the one before it, since that
/// of a batch is noisy.
std::optional<double> training_loss_at(const Fit& fit, std::size_t i) {
  return mean_between(fit.training, i == 0 ? 0 : fit.validation.steps[i - 1],
                      fit.validation.steps[i]);
}

/// What the validation accuracy has done since a step, as a further sentence: of a model that
/// overfits, loss and accuracy often part. Empty if it is not known.
std::string accuracy_since(std::uint64_t step, const Curve& accuracy) {
  constexpr double worth_naming = 0.002;
  const auto at = std::ranges::find(accuracy.steps, step);
  if (at == accuracy.steps.end() || at + 1 == accuracy.steps.end()) return "";
  const double then = accuracy.values[static_cast<std::size_t>(at - accuracy.steps.begin())];
  const double now = accuracy.values.back();
  const std::string change = fmt::format("{:.1f} % to {:.1f} %", 100 * then, 100 * now);
  if (now - then > worth_naming) {
    return fmt::format(
        " But the validation accuracy still rises, from {}: more predictions are right, and the "
        "wrong ones are more certain. If accuracy counts, set train.best_metric to token_accuracy.",
        change);
  }
  if (then - now > worth_naming) {
    return fmt::format(" The validation accuracy has fallen as well, from {}.", change);
  }
  return fmt::format(" The validation accuracy has stayed at {:.1f} %.", 100 * now);
}

/// What the run has recorded of its training set at the last validation; null if nothing.
const TrainingRecord* training_record(const RunHistory& history) {
  const bool known = !history.records.empty() && history.records.back().training;
  return known ? &*history.records.back().training : nullptr;
}

/// "once", "12 times"
std::string passes_text(std::uint64_t epochs) {
  return epochs == 1 ? "once" : fmt::format("{} times", format_count(epochs));
}

/// The size of the training set as a further sentence; empty if it is not known.
std::string training_set_text(const TrainingRecord* training, const Config& config) {
  if (training == nullptr) return "";
  const std::string tokens =
      training->tokens == 0 ? "" : fmt::format(" ({} tokens)", format_count(training->tokens));
  const std::string read =
      training->epochs == 0 ? "not all of them have been read yet"
                            : fmt::format("each has been read {}", passes_text(training->epochs));
  return fmt::format(" The training set has {} {}{}; {}.", format_count(training->examples),
                     find_task(config).words(config).examples, tokens, read);
}

/// The accuracy on both sets at the last validation as a further sentence; empty if it is not
/// known.
std::string accuracies_text(const TrainingRecord* training, const Curve& validation) {
  if (training == nullptr || training->sample.examples == 0 || validation.values.empty()) return "";
  return fmt::format(
      " The accuracy is {:.1f} % on training examples and {:.1f} % on the validation set.",
      100 * training->sample.accuracy, 100 * validation.values.back());
}

/// training_set_text() and accuracies_text().
std::string sets_text(const Fit& fit) {
  return training_set_text(fit.record, fit.config) + accuracies_text(fit.record, fit.accuracy);
}

/// What to try for a smaller difference between the losses on both sets: "a larger model.dropout
/// (now 0.1), a smaller model or more training data". Many passes over few examples suggest more
/// data first.
std::string overfitting_remedy(const Fit& fit) {
  constexpr std::uint64_t many_epochs = 10;
  constexpr double large_dropout = 0.3;
  const TrainingRecord* training = fit.record;
  const double dropout = fit.config.model.dropout;
  const bool data_first = training != nullptr && training->epochs >= many_epochs;
  const std::string by_model =
      dropout < large_dropout
          ? fmt::format("a larger model.dropout (now {}){} a smaller model", shown(dropout),
                        data_first ? " or" : ",")
          : fmt::format("a smaller model (model.dropout is {} already)", shown(dropout));
  return data_first ? "more training data first, then " + by_model
                    : by_model + " or more training data";
}

/// Why overfitting cannot be determined from fewer than fewest_validations.
std::string too_few_validations(std::size_t count) {
  if (count == 0) {
    return "Overfitting cannot be determined without validations: they need a validation set and a "
           "train.validate_every below train.steps.";
  }
  return fmt::format(
      "Overfitting cannot be determined from {} validation{}: at least {} are needed; lower "
      "train.validate_every.",
      count, count == 1 ? "" : "s", fewest_validations);
}

/// The step of the validation since which the training loss has been far below the validation loss;
/// nullopt if the last validation has no such gap.
std::optional<std::uint64_t> gap_since(const Fit& fit) {
  std::optional<std::uint64_t> since;
  for (std::size_t i = fit.validation.steps.size(); i-- > 0;) {
    const double validation = fit.validation.values[i];
    const double training = training_loss_at(fit, i).value_or(validation);
    if (validation - training <= 0.2 || validation <= 1.5 * training) break;
    since = fit.validation.steps[i];
  }
  return since;
}

/// The finding if the last validation loss is the lowest.
std::string at_lowest(const Fit& fit) {
  const std::string last = shown(fit.validation.values.back());
  const auto since = gap_since(fit);
  if (!since) {
    return fmt::format("No sign of overfitting: the last validation loss, {}, is the lowest.{}",
                       last, sets_text(fit));
  }
  return fmt::format(
      "The model memorizes training examples: since step {} the training loss (now {}) has been "
      "far below the validation loss ({}), which is still at its lowest, so outputs for other "
      "examples have not become worse.{} To lower the validation loss, try {}.",
      format_count(*since), shown(*training_loss_at(fit, fit.validation.values.size() - 1)), last,
      sets_text(fit), overfitting_remedy(fit));
}

/// The finding if validation `at` has the lowest loss and several followed; nullopt if there is no
/// training loss to compare with.
std::optional<std::string> since_lowest(const Fit& fit, std::size_t at) {
  const double lowest = fit.validation.values[at], last = fit.validation.values.back();
  const std::string step = format_count(fit.validation.steps[at]);
  const auto then = training_loss_at(fit, at);
  const auto now = training_loss_at(fit, fit.validation.values.size() - 1);
  if (!then || !now) return std::nullopt;
  const bool rises = last > 1.02 * lowest;
  // Without a rise of the validation loss, the training loss must have fallen by more than noise.
  if (*now >= *then || (!rises && *now > 0.98 * *then)) {
    return fmt::format(
        "No sign of overfitting: neither the validation loss (lowest at step {}, {}, at the end "
        "{}) nor the training loss ({} then, {} at the end) has fallen much since.{}",
        step, shown(lowest), shown(last), shown(*then), shown(*now), sets_text(fit));
  }
  const std::string trend =
      rises ? fmt::format("overfits after step {}: the validation loss has risen from {} to {}",
                          step, shown(lowest), shown(last))
            : fmt::format(
                  "begins to overfit: the validation loss has not fallen since step {} ({}, at the "
                  "end {})",
                  step, shown(lowest), shown(last));
  return fmt::format(
      "The model {}, while the training loss has fallen from {} to {}.{}{} Try {}; train.patience "
      "ends such a run early.",
      trend, shown(*then), shown(*now), accuracy_since(fit.validation.steps[at], fit.accuracy),
      sets_text(fit), overfitting_remedy(fit));
}

/// Whether the model overfits, or why this cannot be determined; nullopt without any loss.
std::optional<std::string> overfitting(const Fit& fit) {
  const Curve& validation = fit.validation;
  if (fit.training.values.empty() && validation.values.empty()) return std::nullopt;
  if (validation.values.size() < fewest_validations) {
    return too_few_validations(validation.values.size());
  }
  const auto lowest = std::ranges::min_element(validation.values);
  const auto at = static_cast<std::size_t>(lowest - validation.values.begin());
  const std::size_t later = validation.values.size() - 1 - at;
  if (later == 0) return at_lowest(fit);
  if (later < 2) {
    return fmt::format(
        "Overfitting cannot be determined yet: the validation loss was lowest at step {} ({}), "
        "and one validation later it is {}.",
        format_count(validation.steps[at]), shown(*lowest), shown(validation.values.back()));
  }
  return since_lowest(fit, at);
}

/// The errors on held-out examples with the share of exact outputs; nullopt if neither is known.
std::optional<std::string> errors_finding(std::string errors, const Curve& exact) {
  if (!exact.values.empty()) {
    errors +=
        fmt::format("{}Exact outputs: {:.1f} % of the sequences that the last validation decoded.",
                    errors.empty() ? "" : " ", 100 * exact.values.back());
  }
  return errors.empty() ? std::nullopt : std::optional(std::move(errors));
}

/// Whether the learning rate of the last steps is less than 1 % of its maximum.
bool has_decayed(const Curve& learning_rate) {
  return !learning_rate.values.empty() &&
         learning_rate.values.back() < 0.01 * *std::ranges::max_element(learning_rate.values);
}

std::optional<std::string> still_falling(const Curve& validation, const Curve& learning_rate) {
  const std::size_t count = validation.values.size();
  if (count < fewest_validations) return std::nullopt;
  const std::size_t before = count - 1 - std::max<std::size_t>(1, count / 4);
  const double last = validation.values.back();
  const bool is_lowest = last <= *std::ranges::min_element(validation.values);
  // A loss that has nearly vanished may fall by any share without a change of the outputs.
  const bool is_solved = last < 0.01 * validation.values.front();
  const double fall = validation.values[before] - last;
  const bool has_levelled_off = validation.values[count - 2] - last < 0.1 * fall;
  if (!is_lowest || is_solved || has_levelled_off || fall <= 0.01 * validation.values[before]) {
    return std::nullopt;
  }
  return fmt::format(
      "The validation loss was still falling at the end, from {} at step {} to {}. {}",
      shown(validation.values[before]), format_count(validation.steps[before]), shown(last),
      has_decayed(learning_rate) ? "A new run with more train.steps, over which the learning rate "
                                   "decays more slowly, may lower it."
                                 : "More train.steps may lower it.");
}

}  // namespace

std::vector<RunFinding> findings(const RunHistory& history, const Config& config, bool finished,
                                 const std::string& errors) {
  const Fit fit{.training = finite_points(history, "loss", false),
                .validation = finite_points(history, "loss", true),
                .accuracy = finite_points(history, "token_accuracy", true),
                .record = training_record(history),
                .config = config};
  std::vector<RunFinding> found;
  const auto add = [&](std::optional<std::string> finding, const char* section) {
    if (finding) found.push_back({.text = std::move(*finding), .section = section});
  };
  add(overfitting(fit), "Curves");
  add(errors_finding(errors, finite_points(history, "exact_match", true)),
      errors.empty() ? "Curves" : "Accuracy");
  if (finished) {
    add(still_falling(fit.validation, finite_points(history, "learning_rate", false)), "Curves");
  }
  for (std::string& finding : speed_findings(history, config)) add(std::move(finding), "Speed");
  return found;
}

}  // namespace tapestry
