#include "data/readers/corpus_text.h"

#include <algorithm>
#include <limits>
#include <span>
#include <system_error>
#include <utility>

#include "data/io/file.h"
#include "data/io/utf8.h"

namespace tapestry {
namespace {

constexpr FileKind bytes_of_text{
    .expected = "a text file",
    .special_hint = "write the text to a file first: it is read more than once",
    .too_large_hint = "train on a part of the text, such as its first lines: head -n 1000000",
    .max_bytes = largest_text};

FileDigest read_digest(const std::filesystem::path& path) {
  const OpenFile file(path, bytes_of_text);
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
  if (!digest_) found(with_key_in_hint(key_, [this] { return read_digest(path_); }));
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

}  // namespace tapestry
