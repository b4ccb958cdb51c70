// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <filesystem>
#include <stdexcept>
#include <string_view>

namespace tapestry::fuzz {

/// Feeds one input to one reader. A finding is a sanitizer's report, or any exception except
/// UserError, for example BrokenPromise.
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

/// Thrown if a reader accepts an invalid input, reports it badly or takes too long.
class BrokenPromise : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// throws  BrokenPromise unless `kept`.
void require(bool kept, const char* promise);

/// Checks that an error can be shown to a user: not empty, UTF-8 without control characters except
/// line feeds and tabs, and at most `max_length` bytes, even for a long input.
void require_presentable(std::string_view message, std::size_t max_length = 1000);

/// Feeds an input to the target `target`. Checks the error of the reader, and that it took at most
/// 5 s of processor time, which does not depend on the load of the machine.
void feed_in_time(std::string_view target, std::string_view input);

/// Writes a file to a temporary folder that all inputs share, in /dev/shm if it exists.
std::filesystem::path write_input(std::string_view bytes, const char* name = "input");

}  // namespace tapestry::fuzz
