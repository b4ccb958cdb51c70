#include "tests/fuzz/fuzz_target.h"

#include <ctime>

#include "data/io/utf8.h"

namespace tapestry::fuzz {
namespace {

double processor_seconds() {
  return static_cast<double>(std::clock()) / static_cast<double>(CLOCKS_PER_SEC);
}

}  // namespace

void require(bool kept, const char* promise) {
  if (!kept) throw BrokenPromise(promise);
}

void require_presentable(std::string_view message, std::size_t longest) {
  require(!message.empty(), "an error says what is wrong");
  require(message.size() <= longest, "an error is short");
  require(!find_invalid_utf8(message), "an error is UTF-8");
  for (std::size_t position = 0; position < message.size();) {
    const Utf8Character character = character_at(message, position);
    const bool is_layout = character.code_point == U'\n' || character.code_point == U'\t';
    require(is_layout || !is_control(character.code_point), "an error holds no control characters");
    position += character.bytes.size();
  }
}

void feed_in_time(std::string_view input) {
  const double start = processor_seconds();
  feed(input);
  require(processor_seconds() - start <= 5, "an input takes 5 s at most");
}

}  // namespace tapestry::fuzz
