#pragma once

#include <cstddef>
#include <stdexcept>
#include <string_view>

namespace tapestry::fuzz {

/// Feeds one input to one reader; NAME_target.cpp defines it. Whatever escapes it is a finding: an
/// exception that the reader does not document, a broken promise, a report of a sanitizer.
void feed(std::string_view input);

/// A reader accepted, said or took what it must not.
class BrokenPromise : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// throws  BrokenPromise unless the promise was kept.
void require(bool kept, const char* promise);

/// Checks that an error can be shown to a user: not empty, UTF-8 without control characters but
/// line feeds and tabs, and not longer than `longest` bytes however long the input was.
void require_presentable(std::string_view message, std::size_t longest = 1000);

/// Feeds an input and checks that it took no more than 5 s of processor time: on a busy machine the
/// clock on the wall says nothing.
void feed_in_time(std::string_view input);

}  // namespace tapestry::fuzz
