// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/symbol_tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "data/io/error.h"
#include "data/io/random.h"

namespace tapestry {
namespace {

using Sequence = std::vector<std::int32_t>;

void require_at_least(const char* option, std::size_t value, std::size_t min) {
  if (value >= min) return;
  throw DataError(fmt::format("data.{}: found {}, expected at least {}", option, value, min),
                  fmt::format("set data.{} to {} or more", option, min));
}

void check_options(const SymbolOptions& options) {
  require_at_least("num_symbols", options.num_symbols, 2);
  require_at_least("min_length", options.min_length, 1);
  require_at_least("max_length", options.max_length, options.min_length);
}

Sequence draw_sequence(const SymbolOptions& options, RandomDraws& random) {
  const std::size_t different_lengths = options.max_length - options.min_length + 1;
  Sequence sequence(options.min_length + random.below(different_lengths));
  for (std::int32_t& id : sequence) {
    id = first_word_id + static_cast<std::int32_t>(random.below(options.num_symbols));
  }
  return sequence;
}

/// target  maps a source to its target
Corpus make_symbol_task(const SymbolOptions& symbols, const GeneratedOptions& sizes,
                        Sequence (*target)(Sequence source)) {
  check_options(symbols);
  Corpus corpus;
  corpus.source_vocabulary = symbol_vocabulary(symbols.num_symbols);
  corpus.target_vocabulary = corpus.source_vocabulary;
  const auto draw = [&](RandomDraws& random) {
    const Sequence source = draw_sequence(symbols, random);
    return Example{source, target(source)};
  };
  draw_splits(sizes, {.draw = draw, .more_sentences = "raise data.max_length or data.num_symbols"},
              corpus);
  return corpus;
}

}  // namespace

Vocabulary symbol_vocabulary(std::size_t num_symbols) {
  constexpr std::size_t letters = 26;
  Tokens symbols;
  for (std::size_t k = 0; k < num_symbols; ++k) {
    symbols.push_back(num_symbols <= letters ? std::string(1, static_cast<char>('a' + k))
                                             : fmt::format("s{}", k));
  }
  return Vocabulary(symbols);
}

Corpus make_copy_task(const SymbolOptions& symbols, const GeneratedOptions& sizes) {
  return make_symbol_task(symbols, sizes, [](Sequence source) { return source; });
}

Corpus make_reverse_task(const SymbolOptions& symbols, const GeneratedOptions& sizes) {
  return make_symbol_task(symbols, sizes, [](Sequence source) {
    std::ranges::reverse(source);
    return source;
  });
}

Corpus make_sort_task(const SymbolOptions& symbols, const GeneratedOptions& sizes) {
  return make_symbol_task(symbols, sizes, [](Sequence source) {
    std::ranges::sort(source);
    return source;
  });
}

}  // namespace tapestry
