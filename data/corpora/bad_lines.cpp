#include "data/corpora/bad_lines.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tapestry {

void BadLines::add(const DataError& error) {
  if (count_++ == 0) hint_ = error.hint();
  if (named_.size() == most_named) return;
  const std::string message = error.what();
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
  if (count_ == 1) throw DataError(named_.front(), hint_);
  std::string message = fmt::format("{}", fmt::join(named_, "\n"));
  if (count_ > named_.size()) message += fmt::format("\nand {} more", count_ - named_.size());
  throw DataError(fmt::format("{}\n{} of {} cannot be used", message, count_, all),
                  fmt::format("{}, or leave them all out with data.on_bad_line=skip", hint_));
}

}  // namespace tapestry
