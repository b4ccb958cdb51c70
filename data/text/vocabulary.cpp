// SPDX-License-Identifier: BSD-3-Clause
#include "data/text/vocabulary.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "data/io/error.h"
#include "data/io/number.h"
#include "data/io/utf8.h"
#include "data/text/subwords.h"

namespace tapestry {
namespace {

constexpr std::array<std::string_view, first_word_id> special_symbols = {"<pad>", "<unk>", "<bos>",
                                                                         "<eos>"};
constexpr std::string_view white_space = " \t\n\v\f\r";

/// A token in quotes, shortened if it is long.
std::string in_quotes(std::string_view token) { return fmt::format("'{}'", excerpt(token)); }

/// line  number of the line in the text of the vocabulary, from 1
[[noreturn]] void reject_line(std::size_t line, const std::string& problem) {
  throw DataError(
      fmt::format("vocabulary: line {}: {}", line, problem),
      "a vocabulary has one token per line, each once: <pad>, <unk>, <bos>, <eos>, then "
      "the words");
}

void check_word(const std::string& word, std::size_t line) {
  if (word.empty()) reject_line(line, "found an empty token, expected a word");
  if (find_invalid_utf8(word)) reject_line(line, "found a token that is not UTF-8");
  if (word.find_first_of(white_space) != std::string::npos) {
    reject_line(line, fmt::format("found white space in the token {}", in_quotes(word)));
  }
  if (is_special_symbol(word)) {
    reject_line(line, fmt::format("found the special symbol {} again, expected a word", word));
  }
}

Tokens split_lines(std::string_view text) {
  Tokens lines;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos) {
      reject_line(lines.size() + 1, fmt::format("found the end of the text after {}, expected "
                                                "a line end (is the text cut off?)",
                                                in_quotes(text)));
    }
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end + 1);
  }
  return lines;
}

void check_special_symbols(const Tokens& lines) {
  for (std::size_t i = 0; i < special_symbols.size(); ++i) {
    const std::string found = i < lines.size() ? in_quotes(lines[i]) : "nothing";
    if (i >= lines.size() || lines[i] != special_symbols[i]) {
      reject_line(i + 1, fmt::format("found {}, expected {}", found, special_symbols[i]));
    }
  }
}

bool comes_before(const std::string& a, const std::string& b) {
  const auto key = [](const std::string& label) {
    const auto number = parse_number<std::int64_t>(label);
    return std::tuple(!number.has_value(), number.value_or(0), std::string_view(label));
  };
  return key(a) < key(b);
}

}  // namespace

bool is_special_symbol(std::string_view token) {
  return std::find(special_symbols.begin(), special_symbols.end(), token) != special_symbols.end();
}

Vocabulary::Vocabulary(const Tokens& words)
    : tokens_(special_symbols.begin(), special_symbols.end()) {
  tokens_.reserve(tokens_.size() + words.size());
  ids_.reserve(words.size());
  for (const std::string& word : words) add_word(word);
}

Vocabulary::Vocabulary(std::shared_ptr<const SubwordModel> subwords, const Tokens& more)
    : Vocabulary() {
  if (!subwords) throw std::invalid_argument("vocabulary: found no subword model");
  for (const std::string& word : subwords->tokens()) add_word(word);
  for (const std::string& word : more) add_word(word);
  subwords_ = std::move(subwords);
}

bool operator==(const Vocabulary& a, const Vocabulary& b) {
  if (a.tokens_ != b.tokens_ || (a.subwords_ == nullptr) != (b.subwords_ == nullptr)) return false;
  return a.subwords_ == b.subwords_ || a.subwords_->serialized() == b.subwords_->serialized();
}

void Vocabulary::add_word(const std::string& word) {
  const std::size_t line = tokens_.size() + 1;
  check_word(word, line);
  const auto [entry, added] = ids_.try_emplace(word, static_cast<std::int32_t>(tokens_.size()));
  if (!added) {
    reject_line(line, fmt::format("found {}, which is already in line {}", in_quotes(word),
                                  static_cast<std::size_t>(entry->second) + 1));
  }
  tokens_.push_back(word);
}

Vocabulary Vocabulary::from_text(std::string_view text) {
  const Tokens lines = split_lines(text);
  check_special_symbols(lines);
  return Vocabulary(Tokens(lines.begin() + first_word_id, lines.end()));
}

Vocabulary Vocabulary::with_subwords(const Vocabulary& words,
                                     std::shared_ptr<const SubwordModel> subwords) {
  const Tokens& tokens = subwords->tokens();
  const std::span<const std::string> of_words = std::span(words.tokens_).subspan(first_word_id);
  if (of_words.size() < tokens.size() ||
      !std::ranges::equal(tokens, of_words.first(tokens.size()))) {
    throw DataError("vocabulary: the words differ from the tokens of its subword model",
                    "use an earlier checkpoint of the run");
  }
  const auto more = of_words.subspan(tokens.size());
  return Vocabulary(std::move(subwords), Tokens(more.begin(), more.end()));
}

std::string Vocabulary::to_text() const {
  std::string text;
  for (const std::string& token : tokens_) {
    text += token;
    text += '\n';
  }
  return text;
}

std::int32_t Vocabulary::id(std::string_view word) const {
  const auto entry = ids_.find(word);
  return entry == ids_.end() ? unk_id : entry->second;
}

const std::string& Vocabulary::token(std::int32_t id) const {
  if (id < 0 || static_cast<std::size_t>(id) >= size()) {
    throw std::out_of_range(
        fmt::format("vocabulary: found id {}, expected 0 to {}", id, size() - 1));
  }
  return tokens_[static_cast<std::size_t>(id)];
}

std::vector<std::int32_t> Vocabulary::encode(const Tokens& tokens) const {
  std::vector<std::int32_t> ids;
  ids.reserve(tokens.size());
  for (const std::string& token : tokens) ids.push_back(id(token));
  return ids;
}

Tokens Vocabulary::decode(std::span<const std::int32_t> ids) const {
  Tokens tokens;
  for (const std::int32_t id : ids) {
    if (id == eos_id) break;
    if (id != pad_id && id != bos_id) tokens.push_back(token(id));
  }
  return tokens;
}

void WordCounter::add(const Tokens& sentence) {
  for (const std::string& token : sentence) ++counts_[token];
}

Vocabulary WordCounter::vocabulary(std::size_t min_frequency, std::size_t max_words) const {
  std::vector<std::pair<std::string, std::size_t>> frequent;
  for (const auto& [word, count] : counts_) {
    if (count >= min_frequency && !is_special_symbol(word)) frequent.emplace_back(word, count);
  }
  std::sort(frequent.begin(), frequent.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second > b.second : a.first < b.first;
  });
  if (max_words > 0 && frequent.size() > max_words) frequent.resize(max_words);

  Tokens words;
  for (auto& [word, count] : frequent) words.push_back(std::move(word));
  return Vocabulary(words);
}

Vocabulary frequent_words(const WordCounter& counter, const WordOptions& options) {
  Vocabulary vocabulary = counter.vocabulary(options.min_frequency, options.max_vocabulary);
  if (vocabulary.size() > first_word_id) return vocabulary;
  throw DataError(fmt::format("vocabulary: no word occurs {} times in the training text",
                              options.min_frequency),
                  "lower data.min_frequency");
}

std::string list_of_classes(const Vocabulary& classes) {
  constexpr std::size_t max_named = 10;
  const std::size_t count = classes.size() - first_word_id;
  std::string list;
  for (std::size_t i = 0; i < std::min(count, max_named); ++i) {
    const std::string& name = classes.token(static_cast<std::int32_t>(i) + first_word_id);
    list += (i == 0 ? "" : ", ") + excerpt(name) + name_odd_character(name);
  }
  return count > max_named ? fmt::format("{}, ... ({} in all)", list, count) : list;
}

bool can_be_class(std::string_view label) {
  return !label.empty() && label.find_first_of(" \t\n\v\f\r") == std::string_view::npos &&
         !is_special_symbol(label);
}

Vocabulary class_names(const std::vector<std::string>& labels, std::string_view name) {
  std::vector<std::string> different = labels;
  std::ranges::sort(different, comes_before);
  different.erase(std::unique(different.begin(), different.end()), different.end());
  if (different.size() >= 2) return Vocabulary(different);
  const std::string only = different.empty() ? "" : different.front();
  throw DataError(
      fmt::format("{}: every example has the label \"{}\"{}, expected two or more classes", name,
                  excerpt(only), name_odd_character(only)),
      "name a file with examples of every class");
}

void note_similar_classes(const Vocabulary& classes, std::vector<std::string>& notes) {
  constexpr std::size_t max_notes = 3;
  std::map<std::string, std::string> first;  // the first class of each form
  std::size_t found = 0;
  for (std::size_t id = first_word_id; id < classes.size() && found < max_notes; ++id) {
    const std::string& name = classes.token(static_cast<std::int32_t>(id));
    std::string form = lowercase_european(with_plain_characters(name));
    std::erase(form, ' ');
    if (form.size() < 2) continue;  // such as the letters a and A
    const auto [entry, is_new] = first.try_emplace(std::move(form), name);
    if (is_new) continue;
    ++found;
    const std::string& other = entry->second;
    notes.push_back(fmt::format(
        "warning: the classes {}{} and {}{} differ only in case or in characters that look alike; "
        "if they are one class, correct the labels",
        excerpt(other), name_odd_character(other), excerpt(name), name_odd_character(name)));
  }
}

std::int32_t class_id(const Vocabulary& classes, std::string_view label, const std::string& place) {
  const std::int32_t id = classes.id(label);
  if (id != unk_id) return id;
  throw DataError(
      fmt::format("{}: found the label \"{}\"{}, expected one of the classes {}", place,
                  excerpt(label), name_odd_character(label), list_of_classes(classes)),
      "remove the example, or add examples of this class to the training set (a trained model "
      "cannot learn new classes)");
}

}  // namespace tapestry
