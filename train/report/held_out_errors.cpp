#include "train/report/held_out_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "train/format.h"

namespace tapestry {
namespace {

double share(std::uint64_t part, std::uint64_t whole) {
  return static_cast<double>(part) / static_cast<double>(whole);
}

/// "12.3 %"
std::string percent(std::uint64_t part, std::uint64_t whole) {
  return fmt::format("{:.1f} %", 100 * share(part, whole));
}

std::uint64_t count_errors(const LabelGroup& group) { return group.labels - group.hits; }

// ---- Classes

/// Examples of one class that were taken for another.
struct ClassPair {
  std::size_t label, prediction;
  std::uint64_t count;
};

/// The wrong pairs of named classes, the most frequent first.
std::vector<ClassPair> confused_pairs(const Confusion& confusion) {
  const std::size_t size = confusion.classes.size();
  std::vector<ClassPair> pairs;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      const bool named = confusion.classes[i] != Confusion::other_classes &&
                         confusion.classes[j] != Confusion::other_classes;
      const std::uint64_t count = confusion.counts[i * size + j];
      if (i != j && named && count > 0) pairs.push_back({i, j, count});
    }
  }
  std::ranges::stable_sort(pairs, std::ranges::greater(), &ClassPair::count);
  return pairs;
}

/// " Most frequent confusions: 3 predicted as 8 (12 of 40 errors), 5 as 6 (7)."
std::string describe_confusions(const Confusion& confusion, std::uint64_t errors) {
  const std::vector<ClassPair> pairs = confused_pairs(confusion);
  if (pairs.empty() || pairs.front().count < 2) return "";
  const auto name = [&](std::size_t i) { return confusion.classes[i]; };
  const bool two = pairs.size() > 1 && pairs[1].count > 1;
  std::string text = fmt::format(" Most frequent confusion{}: {} predicted as {} ({} of {} errors)",
                                 two ? "s" : "", name(pairs[0].label), name(pairs[0].prediction),
                                 format_count(pairs[0].count), format_count(errors));
  if (two) {
    text += fmt::format(", {} as {} ({})", name(pairs[1].label), name(pairs[1].prediction),
                        format_count(pairs[1].count));
  }
  return text + ".";
}

/// " Lowest recall: 71.1 % of the 45 images of class 8."
std::string describe_lowest_recall(const Confusion& confusion, std::string_view noun) {
  const std::size_t size = confusion.classes.size();
  LabelGroup lowest;
  for (std::size_t i = 0; i < size; ++i) {
    if (confusion.classes[i] == Confusion::other_classes) continue;
    LabelGroup group{.name = confusion.classes[i], .hits = confusion.counts[i * size + i]};
    for (std::size_t j = 0; j < size; ++j) group.labels += confusion.counts[i * size + j];
    if (group.labels == 0) continue;
    if (lowest.labels == 0 || share(group.hits, group.labels) < share(lowest.hits, lowest.labels)) {
      lowest = group;
    }
  }
  if (lowest.labels == 0) return "";
  if (lowest.labels == 1) noun.remove_suffix(1);
  return fmt::format(" Lowest recall: {} of the {} {} of class {}.",
                     percent(lowest.hits, lowest.labels), format_count(lowest.labels), noun,
                     lowest.name);
}

// ---- Tokens

/// The group with most errors beyond those of the mean rate; null if no group is clearly worse.
const LabelGroup* worst_group(const std::vector<LabelGroup>& groups, double mean) {
  constexpr std::uint64_t fewest_errors = 10;
  constexpr double clearly_worse = 1.5;
  const auto excess = [&](const LabelGroup& group) {
    return static_cast<double>(count_errors(group)) - mean * static_cast<double>(group.labels);
  };
  const LabelGroup* worst = nullptr;
  for (const LabelGroup& group : groups) {
    const std::uint64_t errors = count_errors(group);
    if (errors < fewest_errors || share(errors, group.labels) < clearly_worse * mean) continue;
    if (worst == nullptr || excess(group) > excess(*worst)) worst = &group;
  }
  return worst;
}

/// " In examples of 25-30 tokens, 15.2 % of the labels are wrong (40.1 % of all errors). Of tokens
/// that occur 1-3 times in the training set, 30.5 % are wrong (22.0 % of all errors)."
std::string describe_groups(const HeldOutAccuracy& accuracy, std::string_view set) {
  const std::uint64_t errors = accuracy.labels - accuracy.hits;
  const double mean = share(errors, accuracy.labels);
  std::string text;
  if (const LabelGroup* group = worst_group(accuracy.by_length, mean)) {
    text += fmt::format(" In examples of {} tokens, {} of the labels are wrong ({} of all errors).",
                        group->name, percent(count_errors(*group), group->labels),
                        percent(count_errors(*group), errors));
  }
  if (const LabelGroup* group = worst_group(accuracy.by_frequency, mean)) {
    text += fmt::format(
        " Of tokens that occur {} times in the {} set, {} are wrong ({} of all errors).",
        group->name, accuracy.frequency_of_training ? "training" : set,
        percent(count_errors(*group), group->labels), percent(count_errors(*group), errors));
  }
  return text;
}

/// "; 812 of 1,000 pairs have none"; empty if all have errors.
std::string describe_examples_without(const HeldOutAccuracy& accuracy, std::string_view noun) {
  const auto without = std::ranges::count_if(accuracy.losses, [](const ExampleLoss& loss) {
    return loss.labels > 0 && loss.hits == loss.labels;
  });
  if (without == 0) return "";
  return fmt::format("; {} of {} {} have none", format_count(static_cast<std::uint64_t>(without)),
                     format_count(accuracy.examples), noun);
}

}  // namespace

std::string describe_errors(const HeldOutAccuracy& accuracy, std::string_view set,
                            std::string_view noun) {
  const std::uint64_t errors = accuracy.labels - accuracy.hits;
  const bool one_label_each = accuracy.labels == accuracy.examples;
  const std::string_view counted = one_label_each ? noun : "labels";
  if (errors == 0) {
    return fmt::format("No errors: the prediction is right for all {} {} of the {} set.",
                       format_count(accuracy.labels), counted, set);
  }
  std::string text = fmt::format(
      "Errors: the prediction is wrong for {} of {} {} of the {} set ({})", format_count(errors),
      format_count(accuracy.labels), counted, set, percent(errors, accuracy.labels));
  if (!one_label_each) text += describe_examples_without(accuracy, noun);
  text += ".";
  if (!accuracy.confusion.classes.empty()) {
    text += describe_confusions(accuracy.confusion, errors);
    return text + describe_lowest_recall(accuracy.confusion, counted);
  }
  return text + describe_groups(accuracy, set);
}

}  // namespace tapestry
