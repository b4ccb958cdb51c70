// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string_view>

namespace tapestry::fuzz {

/// Feeds one input to one reader. Whatever escapes it is a finding, except a UserError: another
/// exception, a broken promise, a report of a sanitizer.
using Feed = void(std::string_view input);

Feed feed_config, feed_examples, feed_images, feed_labels, feed_metrics, feed_npy, feed_subwords,
    feed_tags, feed_text, feed_vocabulary;

struct Target {
  std::string_view name;
  Feed* feed;
};

inline constexpr Target targets[] = {{"config", feed_config},     {"examples", feed_examples},
                                     {"images", feed_images},     {"labels", feed_labels},
                                     {"metrics", feed_metrics},   {"npy", feed_npy},
                                     {"subwords", feed_subwords}, {"tags", feed_tags},
                                     {"text", feed_text},         {"vocabulary", feed_vocabulary}};

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

/// Feeds an input to the target of this name. Checks the error of the reader, and that it took no
/// more than 5 s of processor time: on a busy machine the clock on the wall says nothing.
void feed_in_time(std::string_view target, std::string_view input);

/// Writes a file into a folder that is kept for all inputs, in memory if the system has one there.
std::filesystem::path write_input(std::string_view bytes, const char* name = "input");

}  // namespace tapestry::fuzz
