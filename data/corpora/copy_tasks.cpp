#include "data/corpora/copy_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "data/corpora/held_out.h"
#include "data/io/error.h"

namespace tapestry {

namespace {

void check_at_least(const char* option, std::size_t value, std::size_t smallest) {
  if (value >= smallest) return;
  throw DataError(fmt::format("data.{}: found {}, expected at least {}", option, value, smallest),
                  fmt::format("set data.{} to {} or more", option, smallest));
}

void check_options(const DataOptions& options) {
  check_at_least("num_symbols", options.num_symbols, 2);
  check_at_least("min_length", options.min_length, 1);
  check_at_least("max_length", options.max_length, options.min_length);
}

std::vector<std::int32_t> draw_sequence(const DataOptions& options, RandomDraws& random) {
  const std::size_t different_lengths = options.max_length - options.min_length + 1;
  std::vector<std::int32_t> sequence(options.min_length + random.below(different_lengths));
  for (std::int32_t& id : sequence) {
    id = first_word_id + static_cast<std::int32_t>(random.below(options.num_symbols));
  }
  return sequence;
}

std::vector<std::int32_t> answer(TaskKind task, std::vector<std::int32_t> sequence) {
  switch (task) {
    case TaskKind::copy:
      return sequence;
    case TaskKind::reverse:
      std::reverse(sequence.begin(), sequence.end());
      return sequence;
    case TaskKind::sort:
      std::sort(sequence.begin(), sequence.end());
      return sequence;
    default:
      break;
  }
  throw std::invalid_argument("make_copy_task: expected the task copy, reverse or sort");
}

}  // namespace

Vocabulary copy_task_symbols(std::size_t num_symbols) {
  constexpr std::size_t letters = 26;
  Tokens symbols;
  for (std::size_t k = 0; k < num_symbols; ++k) {
    symbols.push_back(num_symbols <= letters ? std::string(1, static_cast<char>('a' + k))
                                             : fmt::format("s{}", k));
  }
  return Vocabulary(symbols);
}

Corpus make_copy_task(const DataOptions& options) {
  check_options(options);
  Corpus corpus;
  corpus.source_vocabulary = copy_task_symbols(options.num_symbols);
  corpus.target_vocabulary = corpus.source_vocabulary;
  draw_splits(
      options,
      [&options](RandomDraws& random) {
        const std::vector<std::int32_t> source = draw_sequence(options, random);
        return Example{source, answer(options.task, source)};
      },
      corpus);
  return corpus;
}

}  // namespace tapestry
