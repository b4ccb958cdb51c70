// SPDX-License-Identifier: BSD-3-Clause
#include "data/readers/corpus_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "data/corpus.h"
#include "data/io/file.h"
#include "data/io/random.h"
#include "data/io/utf8.h"

namespace tapestry {
namespace {

FileDigest read_digest(const std::filesystem::path& path, const TextContent& content) {
  const OpenFile file(path, file_kind(content));
  std::vector<std::byte> block(std::size_t{1} << 20);
  Xxh3 hash;
  std::uint64_t bytes = 0;
  while (bytes < file.size()) {
    const std::size_t some = file.read_at(
        bytes, std::span(block).first(std::min<std::uint64_t>(block.size(), file.size() - bytes)));
    if (some == 0) break;
    hash.add(block.data(), some);
    bytes += some;
  }
  file.require_unchanged(bytes);
  return {.bytes = bytes, .digest = hash.value()};
}

}  // namespace

CorpusText::CorpusText(std::string key, std::filesystem::path path, const TextContent& content)
    : key_(std::move(key)),
      path_(std::move(path)),
      content_(content),
      name_(escaped(path_.native())) {}

std::uint64_t CorpusText::size_now() const {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path_, error);
  return error ? 0 : bytes;
}

CorpusText::Lines::Lines(CorpusText& text) : text_(text), reader_(text.path_, text.content_) {}

std::optional<std::string> CorpusText::Lines::next() {
  auto line = reader_.next();
  if (!line) text_.found({.bytes = reader_.bytes(), .digest = reader_.digest()});
  return line;
}

CorpusText::Lines CorpusText::lines() {
  return with_key_in_hint(key_, [this] { return Lines(*this); });
}

void CorpusText::for_each_line(const std::function<void(std::string, std::size_t)>& f) {
  Lines all = lines();
  while (auto line = all.next()) f(*std::move(line), all.number());
}

const FileDigest& CorpusText::digest() {
  if (!digest_) found(with_key_in_hint(key_, [this] { return read_digest(path_, content_); }));
  return *digest_;
}

void CorpusText::record(Corpus& corpus) const {
  corpus.files.push_back({key_, path_, digest_.value().bytes, digest_->digest});
}

void CorpusText::found(const FileDigest& digest) {
  if (digest_ && *digest_ != digest) {
    throw FileError(name_, "changed while it was read",
                    "wait until the file is complete, then try again");
  }
  digest_ = digest;
}

std::vector<CorpusText> list_texts(const std::string& key, const FileList& files,
                                   const std::filesystem::path& base, const TextContent& content) {
  std::vector<CorpusText> texts;
  for (const std::string& file : files.names()) {
    texts.emplace_back(list_file_key(key, texts.size()), base / file, content);
  }
  if (texts.empty()) texts.emplace_back(key, base, content);
  return texts;
}

void TextSample::add(std::string sentence) {
  const std::uint64_t number = added_++;
  Sentence added{.random = RandomDraws(0, DrawPurpose::subword_text, number).next(),
                 .number = number,
                 .text = std::move(sentence)};
  if (added.bytes() > limit_) return;
  if (has_evicted_ && kept_.front() < added) return;
  bytes_ += added.bytes();
  kept_.push_back(std::move(added));
  std::ranges::push_heap(kept_, std::less<>());
  while (bytes_ > limit_) {
    std::ranges::pop_heap(kept_, std::less<>());
    bytes_ -= kept_.back().bytes();
    kept_.pop_back();
    has_evicted_ = true;
  }
}

std::vector<std::string> TextSample::take() && {
  std::ranges::sort(kept_, {}, &Sentence::number);
  std::vector<std::string> sentences;
  sentences.reserve(kept_.size());
  for (Sentence& sentence : kept_) sentences.push_back(std::move(sentence.text));
  kept_ = {};
  return sentences;
}

namespace {

std::shared_ptr<const SubwordModel> read_subwords(const SubwordOptions& options, SubwordSide side,
                                                  const std::filesystem::path& base) {
  const bool of_source = side == SubwordSide::source;
  const std::filesystem::path path = base / (of_source ? options.file : options.target_file);
  Corpus unused;
  const std::vector<std::byte> bytes =
      read_subword_file(of_source ? "data.subword_file" : "data.target_subword_file", path, unused);
  return std::make_shared<const SubwordModel>(
      std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()),
      escaped(path.native()));
}

}  // namespace

std::vector<std::byte> read_subword_file(const std::string& key, const std::filesystem::path& path,
                                         Corpus& corpus) {
  constexpr FileKind kind{.expected = "a .model file of SentencePiece",
                          .special_hint = "copy it to a file first: it is read more than once",
                          .too_large_hint = "name a .model file that SentencePiece wrote",
                          .max_bytes = std::uint64_t{256} << 20U};
  with_key_in_hint(key, [&] { return OpenFile(path, kind).size(); });
  return read_corpus_bytes(key, path, corpus);
}

std::shared_ptr<const SubwordModel> make_subwords(TextSample sentences, const WordOptions& words,
                                                  SubwordSide side,
                                                  const std::filesystem::path& base,
                                                  const std::string& place,
                                                  std::vector<std::string>& notes) {
  if (words.subwords.kind == SubwordKind::file) return read_subwords(words.subwords, side, base);
  if (sentences.is_partial()) {
    notes.push_back(fmt::format("subwords of {}: learned from {} of {} sentences, drawn at random",
                                place, sentences.kept(), sentences.added()));
  }
  std::vector<std::string> text = std::move(sentences).take();
  if (words.lowercase) {
    for (std::string& sentence : text) sentence = lowercase_european(sentence);
  }
  return train_subwords(text, words.subwords, place);
}

}  // namespace tapestry
