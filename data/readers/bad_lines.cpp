#include "data/readers/bad_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tapestry {

namespace {

/// Appends a message, unless there are enough.
void append(const std::string& message, std::vector<std::string>& named) {
  if (named.size() == BadLines::most_named) return;
  std::size_t bytes = message.size();
  for (const std::string& each : named) bytes += each.size();
  if (named.empty() || bytes <= BadLines::most_bytes) named.push_back(message);
}

}  // namespace

void BadLines::Lines::add(const DataError& error) {
  if (count++ == 0) hint = error.hint();
  append(error.what(), named);
}

void BadLines::finish(OnBadLine action, const std::string& part, std::size_t all,
                      std::vector<std::string>& notes) const {
  if (action == OnBadLine::stop) refuse_any(all);
  if (bad_.count == 0) return;
  notes.push_back(fmt::format("{}: {} of {} skipped, which cannot be used, such as {}", part,
                              bad_.count, all, bad_.named.front()));
}

void BadLines::refuse_any(std::size_t all) const {
  if (bad_.count == 0) return;
  const std::size_t added = bad_.count + too_long_.count;
  if (added == 1) throw DataError(bad_.named.front(), bad_.hint);
  std::vector<std::string> named = bad_.named;
  for (const std::string& each : too_long_.named) append(each, named);
  std::string message = fmt::format("{}", fmt::join(named, "\n"));
  if (added > named.size()) message += fmt::format("\nand {} more", added - named.size());
  message += fmt::format("\n{} of {} cannot be used", added, all);
  std::string hint = bad_.hint;
  if (too_long_.count > 0) {
    message += fmt::format(", {} of them with too many tokens", too_long_.count);
    hint += fmt::format(
        "; {}{}", too_long_.count == 1 ? "" : "for the first that is too long: ", too_long_.hint);
  }
  throw DataError(message, hint + ", or leave them all out with data.on_bad_line=skip");
}

DataError BadLines::nothing_left(const std::string& name, const DataError& empty) const {
  if (bad_.count == 0) return empty;
  return DataError(fmt::format("{}: nothing is left without lines that cannot be used, such as {}",
                               name, bad_.named.front()),
                   "correct these lines or name another file");
}

void FirstPassBadLines::add(const BadLines& bad, std::size_t all) {
  if (first_.count() != 0) return;
  first_ = bad;
  all_ = all;
}

void FirstPassBadLines::refuse_any() const {
  if (action_ == OnBadLine::stop) first_.refuse_any(all_);
}

}  // namespace tapestry
