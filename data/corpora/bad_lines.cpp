#include "data/corpora/bad_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tapestry {

void BadLines::add(const DataError& error) {
  if (count_++ == 0) hint_ = error.hint();
  name(error.what());
}

void BadLines::add_too_long(const DataError& error) {
  if (too_long_++ == 0) too_long_hint_ = error.hint();
  name(error.what());
}

void BadLines::name(const std::string& message) {
  if (named_.size() == most_named) return;
  if (!named_.empty() && named_bytes_ + message.size() > most_bytes) return;
  named_.push_back(message);
  named_bytes_ += message.size();
}

void BadLines::finish(OnBadLine action, const std::string& part, std::size_t all,
                      std::vector<std::string>& notes) const {
  if (action == OnBadLine::stop) refuse_any(all);
  if (count_ == 0) return;
  notes.push_back(fmt::format("{}: {} of {} skipped, which cannot be used, such as {}", part,
                              count_, all, named_.front()));
}

void BadLines::refuse_any(std::size_t all) const {
  if (count_ == 0) return;
  const std::size_t added = count_ + too_long_;
  if (added == 1) throw DataError(named_.front(), hint_);
  std::string message = fmt::format("{}", fmt::join(named_, "\n"));
  if (added > named_.size()) message += fmt::format("\nand {} more", added - named_.size());
  message += fmt::format("\n{} of {} cannot be used", added, all);
  std::string hint = hint_;
  if (too_long_ > 0) {
    message += fmt::format(", {} of them with too many tokens", too_long_);
    hint += "; " + too_long_hint_;
  }
  throw DataError(message, hint + ", or leave them all out with data.on_bad_line=skip");
}

}  // namespace tapestry
