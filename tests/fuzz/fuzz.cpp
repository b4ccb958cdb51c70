// SPDX-License-Identifier: BSD-3-Clause
#include "tests/fuzz/fuzz.h"

#include <algorithm>
#include <ctime>
#include <fstream>

#include "data/io/error.h"
#include "data/io/utf8.h"
#include "tests/support/temporary_folder.h"

namespace tapestry::fuzz {

void require(bool kept, const char* promise) {
  if (!kept) throw BrokenPromise(promise);
}

void require_presentable(std::string_view message, std::size_t max_length) {
  require(!message.empty(), "an error says what is wrong");
  require(message.size() <= max_length, "an error is short");
  require(!find_invalid_utf8(message), "an error is UTF-8");
  for (std::size_t position = 0; position < message.size();) {
    const Utf8Character character = character_at(message, position);
    const bool is_layout = character.code_point == U'\n' || character.code_point == U'\t';
    require(is_layout || !is_control(character.code_point), "an error has no control characters");
    position += character.bytes.size();
  }
}

void feed_in_time(std::string_view target, std::string_view input) {
  const auto found = std::ranges::find(targets, target, &Target::name);
  require(found != std::end(targets), "the target exists");
  const std::clock_t start = std::clock();
  try {
    found->feed(input);
  } catch (const UserError& error) {
    require_presentable(error.what());
    require_presentable(error.hint());
  }
  require(std::clock() - start <= 5 * CLOCKS_PER_SEC, "an input takes at most 5 s");
}

std::filesystem::path write_input(std::string_view bytes, const char* name) {
  static const test::TemporaryFolder folder(std::filesystem::is_directory("/dev/shm") ? "/dev/shm"
                                                                                      : "/tmp");
  return folder.write(name, bytes);
}

}  // namespace tapestry::fuzz
