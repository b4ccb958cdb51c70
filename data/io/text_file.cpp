// SPDX-License-Identifier: BSD-3-Clause
#include "data/io/text_file.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <limits>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "data/io/error.h"
#include "data/io/utf8.h"

namespace tapestry {

namespace {

/// Reads the next bytes from a descriptor, at most bytes.size(); returns 0 at the end of the file.
///
/// throws  DataError with `hint` if reading fails; `name` is the file name in the message.
std::size_t read_some(int descriptor, std::span<std::byte> bytes, const std::string& name,
                      const std::string& hint) {
  const ssize_t count =
      retry_interrupted([&] { return ::read(descriptor, bytes.data(), bytes.size()); });
  if (count >= 0) return static_cast<std::size_t>(count);
  throw DataError(
      fmt::format("{}: cannot be read: {}", name, std::generic_category().message(errno)), hint);
}

/// Whether read() would return immediately, with bytes, the end of the text or an error.
bool is_readable_now(int descriptor) {
  pollfd polled{.fd = descriptor, .events = POLLIN, .revents = 0};
  return ::poll(&polled, 1, 0) > 0;
}

}  // namespace

const OtherEncoding* detect_other_encoding(std::string_view text) {
  using namespace std::string_view_literals;
  // UTF-32 comes first, because its little-endian mark starts with the mark of UTF-16.
  static constexpr std::array<OtherEncoding, 4> encodings{{
      {"\xFF\xFE\0\0"sv, "little-endian UTF-32", "UTF-32"},
      {"\0\0\xFE\xFF"sv, "big-endian UTF-32", "UTF-32"},
      {"\xFF\xFE"sv, "little-endian UTF-16", "UTF-16"},
      {"\xFE\xFF"sv, "big-endian UTF-16", "UTF-16"},
  }};
  for (const OtherEncoding& encoding : encodings) {
    if (text.starts_with(encoding.mark)) return &encoding;
  }
  return nullptr;
}

const BinaryFormat* detect_binary_format(std::string_view bytes) {
  static constexpr std::string_view image_hint =
      "convert the images to one NumPy file: see configs/images.md";
  static constexpr std::string_view array_hint =
      "only data.train_images and other keys for images read such a file, if its name ends in "
      ".npy, .h5 or .hdf5; commands read the pixels of one image per line";
  static constexpr std::array<BinaryFormat, 7> formats{{
      {"\x89PNG", "a PNG image", image_hint},
      {"\xFF\xD8\xFF", "a JPEG image", image_hint},
      {"\x1F\x8B", "a gzip file", "unpack it with: gunzip"},
      {"PK\x03\x04", "a ZIP or .npz file",
       "unpack it with: unzip; in NumPy, save each array of an .npz file with numpy.save"},
      {"\x93NUMPY", "a NumPy array", array_hint},
      {"\x89HDF", "an HDF5 file", array_hint},
      {"%PDF-", "a PDF file", "extract its text with: pdftotext"},
  }};
  for (const BinaryFormat& format : formats) {
    if (bytes.starts_with(format.magic)) return &format;
  }
  return nullptr;
}

LineReader::LineReader(int descriptor, std::string name, std::string hint,
                       std::size_t max_line_length)
    : descriptor_(descriptor),
      name_(std::move(name)),
      hint_(std::move(hint)),
      max_line_length_(max_line_length) {}

std::optional<std::string> LineReader::next() {
  ++line_number_;
  std::size_t searched = 0;
  while (true) {
    const std::string_view rest = std::string_view(buffer_).substr(begin_);
    const std::size_t end = rest.find('\n', searched);
    if (end != std::string_view::npos) {
      const std::string_view line = checked(rest.substr(0, end), Ended::yes);
      begin_ += end + 1;
      return std::string(line);
    }
    searched = rest.size();
    if (searched > max_line_length_) checked(rest, Ended::unknown);
    if (!read_more()) break;
  }
  const std::string_view last = checked(std::string_view(buffer_).substr(begin_), Ended::no);
  begin_ = buffer_.size();
  if (last.empty()) return std::nullopt;
  return std::string(last);
}

bool LineReader::has_complete_line() const { return buffer_.find('\n', begin_) != buffer_.npos; }

bool LineReader::line_is_ready() {
  while (!has_complete_line() && !ended_) {
    if (buffer_.size() - begin_ > max_line_length_ || !is_readable_now(descriptor_)) return false;
    read_more();
  }
  return true;
}

void LineReader::skip_line() {
  while (true) {
    const std::size_t end = buffer_.find('\n', begin_);
    if (end != std::string::npos) {
      begin_ = end + 1;
      return;
    }
    begin_ = buffer_.size();
    if (!read_more()) return;
  }
}

bool LineReader::read_more() {
  if (ended_) return false;
  buffer_.erase(0, std::exchange(begin_, 0));
  std::vector<char> block(65536);  // not on the stack, which may be small
  const std::size_t size =
      read_some(descriptor_, std::as_writable_bytes(std::span(block)), name_, hint_);
  buffer_.append(block.data(), size);
  hash_.add(block.data(), size);
  bytes_read_ += size;
  ended_ = size == 0;
  return !ended_;
}

std::string_view LineReader::checked(std::string_view line, Ended ended) const {
  const bool first = line_number_ == 1;
  if (first) reject_other_formats(line);
  reject_if_found(
      line, line.find('\0'), "NUL, expected text",
      "is this a binary file, or UTF-16? Convert UTF-16 to UTF-8, for example: iconv -f UTF-16 "
      "-t UTF-8");
  if (ended != Ended::no && line.ends_with('\r')) line.remove_suffix(1);
  reject_if_found(line, line.find('\r'), "a carriage return without a line feed after it",
                  "convert it to a line feed with: tr '\\r' '\\n', or remove it with: tr -d '\\r'");
  if (line.size() > max_line_length_) {
    throw OverlongLine(fmt::format("{}:{}: the line is longer than {} bytes", name_, line_number_,
                                   max_line_length_),
                       "write one sentence per line");
  }
  if (const auto invalid = find_invalid_utf8(line)) {
    reject_if_found(line, *invalid, "not UTF-8",
                    "convert the text to UTF-8, for example: iconv -f ISO-8859-1 -t UTF-8");
  }
  const std::size_t start = first && line.starts_with(byte_order_mark) ? byte_order_mark.size() : 0;
  reject_if_found(line, line.find(byte_order_mark, start),
                  "the start of a byte order mark, which belongs at the beginning of a file",
                  "remove it with: sed 's/\\xEF\\xBB\\xBF//g'");
  return line.substr(start);
}

void LineReader::reject_other_formats(std::string_view text) const {
  if (const BinaryFormat* format = detect_binary_format(text)) {
    throw DataError(fmt::format("{}: found {}, expected text", name_, format->name),
                    std::string(format->hint));
  }
  const OtherEncoding* encoding = detect_other_encoding(text);
  if (encoding == nullptr) return;
  throw DataError(fmt::format("{}: found {}, expected UTF-8", name_, encoding->name),
                  fmt::format("convert it with: iconv -f {} -t UTF-8", encoding->family));
}

void LineReader::reject_if_found(std::string_view line, std::size_t position,
                                 std::string_view problem, std::string_view hint) const {
  if (position == std::string_view::npos) return;
  throw DataError(fmt::format("{}:{}: byte {} (0x{:02X}) is {}", name_, line_number_, position + 1,
                              static_cast<unsigned char>(line[position]), problem),
                  std::string(hint));
}

FileKind file_kind(const TextContent& content) {
  return {.expected = content.file,
          .special_hint = "write the text to a file first: it is read more than once",
          .too_large_hint = "train on a part of the text, such as its first lines: head -n 1000000",
          .max_bytes = content.any_size ? max_text_bytes : 0};
}

TextFileReader::TextFileReader(const std::filesystem::path& path, const TextContent& content)
    : content_(content),
      file_(path, file_kind(content)),
      reader_(file_.descriptor(), file_.name(), unreadable_hint, content.max_line_length) {}

std::optional<std::string> TextFileReader::next() {
  // Stops at the size of the opened file, so that reading ends even if the file grows.
  auto line = reader_.bytes_read() <= file_.size() ? reader_.next() : std::nullopt;
  if (line) {
    has_lines_ = true;
    return line;
  }
  file_.require_unchanged(reader_.bytes_read());
  if (has_lines_) return std::nullopt;
  throw DataError(
      fmt::format("{}: found an empty file, expected {}", file_.name(), content_.expected),
      content_.hint);
}

TextFile read_text_file(const std::filesystem::path& path, const TextContent& content) {
  TextFileReader reader(path, content);
  TextFile text{};
  while (auto line = reader.next()) text.lines.push_back(*std::move(line));
  text.bytes = reader.bytes();
  text.digest = reader.digest();
  return text;
}

}  // namespace tapestry
