// SPDX-License-Identifier: BSD-3-Clause
#include "data/example_file.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>
#include <span>
#include <stdexcept>
#include <system_error>
#include <type_traits>
#include <utility>

#include "data/io/durable_file.h"
#include "data/io/file.h"

namespace tapestry {
namespace {

struct Header {
  std::array<char, 8> magic = {'T', 'A', 'P', 'E', 'X', 'M', 'P', 'L'};
  std::uint32_t version = 1;
  std::uint32_t byte_order = 0x01020304;

  friend bool operator==(const Header&, const Header&) = default;
};

struct Footer {
  std::uint64_t width = 0, tokens = 0, examples = 0, parts = 0, note_bytes = 0, origin = 0,
                digest = 0;
};

/// The file that was mapped last, for a signal handler; null: none.
std::atomic<const std::byte*> mapped_begin{nullptr}, mapped_end{nullptr};

constexpr std::size_t alignment = 8;
constexpr std::size_t block = std::size_t{1} << 20;

std::uint64_t aligned(std::uint64_t bytes) {
  return (bytes + alignment - 1) / alignment * alignment;
}

/// Where the sections of a file begin.
struct Sections {
  std::uint64_t tokens = sizeof(Header), starts, sources, lines, parts, notes, footer;

  explicit Sections(const Footer& counts)
      : starts(tokens + aligned(counts.width * counts.tokens)),
        sources(starts + sizeof(std::uint64_t) * (counts.examples + 1)),
        lines(sources + aligned(sizeof(std::uint32_t) * counts.examples)),
        parts(lines + aligned(sizeof(std::uint32_t) * counts.examples)),
        notes(parts + sizeof(std::uint64_t) * counts.parts),
        footer(notes + aligned(counts.note_bytes)) {}
};

std::uint64_t width_for(std::size_t vocabulary_size) {
  return vocabulary_size <= std::size_t{std::numeric_limits<std::uint16_t>::max()} + 1 ? 2 : 4;
}

template <class T>
std::span<const std::byte> vector_bytes(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

/// The temporary file, written through a buffer and hashed.
class ExampleFileWriter::Output {
 public:
  Output(const std::filesystem::path& path, FileSystem& files)
      : file_(path, files, {}, ", or keep the examples in memory with data.cache=never") {
    buffer_.reserve(block);
  }

  void write(std::span<const std::byte> bytes) {
    added_ += bytes.size();
    while (!bytes.empty()) {
      const std::size_t some = std::min(bytes.size(), block - buffer_.size());
      buffer_.insert(buffer_.end(), bytes.begin(),
                     bytes.begin() + static_cast<std::ptrdiff_t>(some));
      bytes = bytes.subspan(some);
      if (buffer_.size() == block) flush();
    }
  }

  /// Fills the gap to the next section.
  void align() {
    constexpr std::array<std::byte, alignment> zeros{};
    write(std::span(zeros).first(aligned(added_) - added_));
  }

  /// The digest of all bytes written so far.
  std::uint64_t digest() {
    flush();
    return hash_.value();
  }

  void commit() {
    flush();
    file_.commit();
  }

 private:
  void flush() {
    hash_.add(buffer_.data(), buffer_.size());
    file_.write(buffer_);
    buffer_.clear();
  }

  TemporaryFile file_;
  std::vector<std::byte> buffer_;
  std::uint64_t added_ = 0;  ///< number of bytes, including the buffer
  Xxh3 hash_;
};

ExampleFileWriter::ExampleFileWriter(const std::filesystem::path& path, std::size_t vocabulary_size,
                                     FileSystem& files)
    : output_(std::make_unique<Output>(path, files)),
      vocabulary_size_(vocabulary_size),
      starts_{0} {
  const Header header;
  output_->write(std::as_bytes(std::span(&header, 1)));
}

ExampleFileWriter::~ExampleFileWriter() = default;

void ExampleFileWriter::add(const Example& example, std::size_t line) {
  constexpr std::size_t max_count = std::numeric_limits<std::uint32_t>::max();
  if (sources_.size() == max_count) {
    throw DataError(
        fmt::format("data: found more than {0} training examples, expected at most {0}", max_count),
        "remove examples from the training files");
  }
  if (line > max_count) {
    throw DataError(
        fmt::format(
            "data: found an example in line {}, expected at most {} lines in a training file", line,
            max_count),
        "divide the training file into several files");
  }
  if (example.source.size() > max_count) {
    throw DataError(fmt::format("data: found an example of {} source tokens, expected at most {}",
                                example.source.size(), max_count),
                    "divide the example into shorter ones");
  }
  const auto write = [&](const std::vector<std::int32_t>& ids) {
    for (const std::int32_t id : ids) {
      if (id < 0 || static_cast<std::size_t>(id) >= vocabulary_size_) {
        throw std::invalid_argument(
            fmt::format("example file: found id {}, expected less than {}", id, vocabulary_size_));
      }
    }
    if (width_for(vocabulary_size_) == sizeof(std::int32_t))
      return output_->write(vector_bytes(ids));
    const std::vector<std::uint16_t> narrow(ids.begin(), ids.end());
    output_->write(vector_bytes(narrow));
  };
  write(example.source);
  write(example.target);
  starts_.push_back(starts_.back() + example.source.size() + example.target.size());
  sources_.push_back(static_cast<std::uint32_t>(example.source.size()));
  lines_.push_back(static_cast<std::uint32_t>(line));
}

void ExampleFileWriter::finish(std::uint64_t origin, const std::vector<std::uint64_t>& parts,
                               const std::vector<std::string>& notes) {
  if (std::accumulate(parts.begin(), parts.end(), std::uint64_t{0}) != sources_.size()) {
    throw std::invalid_argument("example file: the parts do not add up to the number of examples");
  }
  std::string text;
  for (const std::string& note : notes) text += note + '\n';
  const std::array<std::span<const std::byte>, 5> sections{
      vector_bytes(starts_), vector_bytes(sources_), vector_bytes(lines_), vector_bytes(parts),
      std::as_bytes(std::span(text))};
  for (const auto section : sections) {
    output_->align();
    output_->write(section);
  }
  output_->align();
  Footer footer{.width = width_for(vocabulary_size_),
                .tokens = starts_.back(),
                .examples = sources_.size(),
                .parts = parts.size(),
                .note_bytes = text.size(),
                .origin = origin,
                .digest = 0};
  const auto bytes = std::as_bytes(std::span(&footer, 1));
  output_->write(bytes.first(sizeof footer - sizeof footer.digest));
  footer.digest = output_->digest();
  output_->write(bytes.last(sizeof footer.digest));
  output_->commit();
}

namespace {

constexpr FileKind example_file_kind{.expected = "an example file",
                                     .special_hint = "delete it; it will be recreated",
                                     .too_large_hint = "",
                                     .unreadable_hint = "delete it; it will be recreated",
                                     .max_bytes = std::numeric_limits<std::uint64_t>::max()};

[[noreturn]] void reject(const std::string& name, std::string_view problem) {
  throw UnusableExampleFile(fmt::format("{}: {}", name, problem),
                            "delete it; it will be recreated");
}

template <class T>
T read_value(const OpenFile& file, std::uint64_t offset) {
  static_assert(std::is_trivially_copyable_v<T>);
  T value;
  file.read_all_at(offset, std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

/// Whether the sizes in the footer add up to the size of the file.
bool has_all_sections(const Footer& footer, std::uint64_t bytes) {
  const bool possible = footer.tokens <= bytes && footer.examples <= bytes &&
                        footer.parts <= bytes && footer.note_bytes <= bytes &&
                        (footer.width == 2 || footer.width == 4);
  return possible && bytes < std::uint64_t{1} << 56U &&
         Sections(footer).footer + sizeof(Footer) == bytes;
}

template <class Id>
bool all_below(std::span<const std::byte> bytes, std::size_t vocabulary_size) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i + sizeof(Id) <= bytes.size(); i += sizeof(Id)) {
    std::make_unsigned_t<Id> id;
    std::memcpy(&id, bytes.data() + i, sizeof id);
    largest = std::max<std::uint32_t>(largest, id);
  }
  return largest < vocabulary_size;
}

/// Checks the digest and the ids. Reads the file block by block, because a mapping would fill the
/// memory.
void check_content(const OpenFile& file, const Footer& footer, std::size_t vocabulary_size) {
  const std::uint64_t end_of_tokens = sizeof(Header) + footer.width * footer.tokens;
  const std::uint64_t end = file.size() - sizeof footer.digest;
  std::vector<std::byte> bytes(block);
  Xxh3 hash;
  bool known = true;
  for (std::uint64_t offset = 0; offset < end;) {
    // The header is read separately, so that all other blocks consist of whole ids.
    const std::uint64_t some =
        offset == 0 ? sizeof(Header) : std::min<std::uint64_t>(block, end - offset);
    const auto part = std::span(bytes).first(some);
    file.read_all_at(offset, part);
    hash.add(part.data(), part.size());
    if (offset > 0 && offset < end_of_tokens) {
      const auto tokens = part.first(std::min<std::uint64_t>(some, end_of_tokens - offset));
      known = known && (footer.width == 2 ? all_below<std::uint16_t>(tokens, vocabulary_size)
                                          : all_below<std::int32_t>(tokens, vocabulary_size));
    }
    offset += some;
  }
  if (hash.value() != footer.digest) reject(file.name(), "is damaged: its digest differs");
  if (!known) reject(file.name(), "found ids outside the vocabulary");
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t end = 0; (end = text.find('\n')) != text.npos; text.remove_prefix(end + 1)) {
    lines.emplace_back(text.substr(0, end));
  }
  return lines;
}

}  // namespace

ExampleFile::ExampleFile(const std::filesystem::path& path, std::uint64_t origin,
                         std::size_t vocabulary_size, FileSystem& files) {
  const OpenFile file(path, example_file_kind, files);
  bytes_ = file.size();
  if (bytes_ < sizeof(Header) + sizeof(Footer)) reject(file.name(), "is too short");
  const auto header = read_value<Header>(file, 0);
  if (header.magic != Header().magic) reject(file.name(), "is not an example file");
  if (header != Header()) {
    reject(file.name(),
           fmt::format("found format {} and byte order {:08x}, expected {} and {:08x}",
                       header.version, header.byte_order, Header().version, Header().byte_order));
  }
  const auto footer = read_value<Footer>(file, bytes_ - sizeof(Footer));
  if (!has_all_sections(footer, bytes_)) reject(file.name(), "is damaged or was cut off");
  if (footer.origin != origin) {
    reject(file.name(), "was made from different text, vocabularies or options");
  }
  check_content(file, footer, vocabulary_size);

  void* map = ::mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, file.descriptor(), 0);
  if (map == MAP_FAILED && errno == ENOMEM) throw std::bad_alloc();
  if (map == MAP_FAILED) {
    throw FileError(file.name(),
                    fmt::format("cannot be mapped: {}", std::generic_category().message(errno)),
                    "keep the examples in memory with data.cache=never");
  }
  mapped_end = static_cast<const std::byte*>(map) + bytes_;
  mapped_begin = static_cast<const std::byte*>(map);
  map_ = {static_cast<const std::byte*>(map), Unmap{bytes_}};
  const Sections sections(footer);
  examples_ = footer.examples;
  width_ = footer.width;
  tokens_ = map_.get() + sections.tokens;
  starts_ = reinterpret_cast<const std::uint64_t*>(map_.get() + sections.starts);
  sources_ = reinterpret_cast<const std::uint32_t*>(map_.get() + sections.sources);
  lines_ = reinterpret_cast<const std::uint32_t*>(map_.get() + sections.lines);
  const auto* parts = reinterpret_cast<const std::uint64_t*>(map_.get() + sections.parts);
  parts_.assign(parts, parts + footer.parts);
  check_index(file.name(), footer.tokens);
  notes_ =
      split_lines({reinterpret_cast<const char*>(map_.get() + sections.notes), footer.note_bytes});
  // Turns read-ahead off, because batches read examples in random order.
  ::madvise(map, bytes_, MADV_RANDOM);
}

void ExampleFile::Unmap::operator()(const std::byte* map) const {
  if (map == mapped_begin) mapped_begin = nullptr;
  ::munmap(const_cast<std::byte*>(map), bytes);
}

void ExampleFile::check_index(const std::string& name, std::uint64_t tokens) const {
  bool good = starts_[0] == 0 && starts_[examples_] == tokens;
  for (std::size_t i = 0; good && i < examples_; ++i) {
    good = starts_[i] <= starts_[i + 1] && starts_[i + 1] <= tokens &&
           sources_[i] <= starts_[i + 1] - starts_[i];
  }
  std::size_t left = examples_;
  for (const std::uint64_t part : parts_) {
    good = good && part <= left;
    if (!good) break;
    const std::uint32_t* const lines = lines_ + (examples_ - left);
    good = std::is_sorted(lines, lines + part);  // the lines of a corpus are in ascending order
    left -= part;
  }
  good = good && left == 0;
  if (!good) reject(name, "has an invalid index");
}

bool is_in_example_file(const void* address) {
  const std::byte* const begin = mapped_begin;
  return begin != nullptr && begin <= address && address < mapped_end;
}

ExampleLengths ExampleFile::lengths(std::size_t index) const {
  const std::size_t source = sources_[index];
  return {source, starts_[index + 1] - starts_[index] - source, 0};
}

template <class Id>
void ExampleFile::decode(std::size_t index, Example& example) const {
  const auto* first = reinterpret_cast<const Id*>(tokens_) + starts_[index];
  const ExampleLengths length = lengths(index);
  example.source.assign(first, first + length.source);
  example.target.assign(first + length.source, first + length.source + length.target);
}

void ExampleFile::read(std::size_t index, Example& example) const {
  example.pixels.clear();
  if (width_ == sizeof(std::uint16_t)) return decode<std::uint16_t>(index, example);
  decode<std::int32_t>(index, example);
}

void ExampleFile::for_each(const std::function<void(const Example&)>& f) const {
  constexpr std::size_t max_kept = std::size_t{1} << 24;  // in bytes of tokens
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  auto* map = const_cast<std::byte*>(map_.get());
  const auto end_of_tokens =
      static_cast<std::size_t>(reinterpret_cast<const std::byte*>(starts_) - map);
  ::madvise(map, end_of_tokens, MADV_SEQUENTIAL);
  Example example;
  std::size_t released = 0;
  for (std::size_t i = 0; i < examples_; ++i) {
    read(i, example);
    f(example);
    const std::size_t done = (sizeof(Header) + width_ * starts_[i + 1]) / page * page;
    if (done - released < max_kept) continue;
    ::madvise(map + released, done - released, MADV_DONTNEED);
    released = done;
  }
  ::madvise(map, bytes_, MADV_RANDOM);
}

}  // namespace tapestry
