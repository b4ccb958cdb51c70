// SPDX-License-Identifier: BSD-3-Clause
#include "train/recording/tensorboard_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <limits>
#include <span>
#include <utility>

namespace tapestry {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers in records are little-endian");

template <typename T>
std::string to_bytes(T value) {
  const auto bytes = std::bit_cast<std::array<char, sizeof(T)>>(value);
  return {bytes.begin(), bytes.end()};
}

/// Converts the first sizeof(T) bytes to a value.
///
/// bytes  at least sizeof(T) bytes
template <typename T>
T from_bytes(std::string_view bytes) {
  std::array<char, sizeof(T)> first{};
  std::ranges::copy(bytes.substr(0, sizeof(T)), first.begin());
  return std::bit_cast<T>(first);
}

// ---- Protocol buffers: https://protobuf.dev/programming-guides/encoding

/// Encodes the fields of a message.
class Message {
 public:
  Message& integer(unsigned field, std::uint64_t value) {
    key(field, 0);
    varint(value);
    return *this;
  }
  Message& real(unsigned field, double value) {
    key(field, 1);
    bytes_ += to_bytes(value);
    return *this;
  }
  Message& single(unsigned field, float value) {
    key(field, 5);
    bytes_ += to_bytes(value);
    return *this;
  }
  Message& text(unsigned field, std::string_view value) {
    key(field, 2);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& message(unsigned field, const Message& value) { return text(field, value.bytes_); }
  Message& reals(unsigned field, std::span<const double> values) {
    Message packed;
    for (const double value : values) packed.bytes_ += to_bytes(value);
    return message(field, packed);
  }

  const std::string& bytes() const { return bytes_; }

 private:
  void key(unsigned field, unsigned wire_type) { varint(field << 3U | wire_type); }

  void varint(std::uint64_t value) {
    for (; value >= 128; value >>= 7U) bytes_ += static_cast<char>(value | 128U);
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

// Field numbers below are from the .proto files.
constexpr std::uint64_t dt_string = 7;  // DataType.DT_STRING

Message metadata_of_plugin(std::string_view plugin) {
  return Message().message(1, Message().text(1, plugin));
}

// ---- TFRecord: https://www.tensorflow.org/tutorials/load_data/tfrecord

/// CRC-32C (Castagnoli) of the bytes.
std::uint32_t crc32c(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t remainder = i;
      for (int bit = 0; bit < 8; ++bit) {
        remainder = remainder >> 1U ^ (remainder % 2 == 1 ? 0x82F63B78U : 0U);
      }
      entries[i] = remainder;
    }
    return entries;
  }();
  std::uint32_t crc = ~0U;
  for (const char byte : bytes) {
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 255U] ^ crc >> 8U;
  }
  return ~crc;
}

std::uint32_t masked_crc(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

std::string make_record(std::string_view event) {
  const std::string length = to_bytes(std::uint64_t{event.size()});
  std::string record = length + to_bytes(masked_crc(length));
  record += event;
  return record + to_bytes(masked_crc(event));
}

constexpr std::size_t header_bytes = 12, footer_bytes = 4;
constexpr std::uint64_t max_event_bytes = 64U << 20U;

/// Starts an event with the current time.
Message event_now() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return Message().real(1, std::chrono::duration<double>(now).count());
}

/// The step of an event written by this program: its second field, after the time. 0 if the event
/// has no step.
std::uint64_t event_step(std::string_view event) {
  constexpr std::size_t begin = 9;  // offset of the field after the time
  std::uint64_t step = 0;
  if (event.size() <= begin || event[begin] != 2 << 3) return 0;
  for (std::size_t i = begin + 1, shift = 0; i < event.size() && shift < 64; ++i, shift += 7) {
    const auto byte = static_cast<unsigned char>(event[i]);
    step |= static_cast<std::uint64_t>(byte & 127U) << shift;
    if (byte < 128) return step;
  }
  return std::numeric_limits<std::uint64_t>::max();  // an invalid event counts as later than all
                                                     // other events
}

/// Reads the records of a file from its beginning.
class RecordScanner {
 public:
  explicit RecordScanner(AppendedFile& file) : file_(file) {}

  /// The next event; nullopt at the end of the file and at an invalid record.
  std::optional<std::string> next() {
    std::string header(header_bytes, '\0');
    if (!read(offset_, header)) return std::nullopt;
    const std::string_view length = std::string_view(header).substr(0, 8);
    const auto size = from_bytes<std::uint64_t>(length);
    const auto crc = from_bytes<std::uint32_t>(std::string_view(header).substr(8));
    if (crc != masked_crc(length) || size > max_event_bytes) return std::nullopt;
    std::string event(size + footer_bytes, '\0');
    if (!read(offset_ + header_bytes, event)) return std::nullopt;
    const auto event_crc = from_bytes<std::uint32_t>(std::string_view(event).substr(size));
    event.resize(size);
    if (event_crc != masked_crc(event)) return std::nullopt;
    offset_ += header_bytes + size + footer_bytes;
    return event;
  }

  /// The offset of the next record.
  std::uint64_t offset() const { return offset_; }

 private:
  bool read(std::uint64_t offset, std::span<char> bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const std::size_t count = file_.read(offset + done, bytes.subspan(done));
      if (count == 0) return false;
      done += count;
    }
    return true;
  }

  AppendedFile& file_;
  std::uint64_t offset_ = 0;
};

}  // namespace

// ---- EventSummary

void EventSummary::add(std::string_view tag, std::string_view value) {
  // A Summary.Value: the tag, then the fields of the value.
  const std::string fields = Message().text(1, tag).bytes() + std::string(value);
  bytes_ += Message().text(1, fields).bytes();
}

void EventSummary::add_scalar(std::string_view tag, double value) {
  add(tag, Message().single(2, static_cast<float>(value)).bytes());
}

void EventSummary::add_table(std::string_view tag,
                             const std::vector<std::vector<std::string>>& rows) {
  Message tensor;
  tensor.integer(1, dt_string)
      .message(2, Message()
                      .message(2, Message().integer(1, rows.size()))
                      .message(2, Message().integer(1, rows.front().size())));
  for (const std::vector<std::string>& row : rows) {
    for (const std::string& cell : row) tensor.text(8, cell);
  }
  add(tag, Message().message(8, tensor).message(9, metadata_of_plugin("text")).bytes());
}

void EventSummary::add_histogram(std::string_view tag, const WeightStatistics& statistics) {
  const Histogram& histogram = statistics.histogram;
  if (histogram.counts.empty()) return;
  const auto intervals = static_cast<double>(histogram.counts.size());
  const auto finite = static_cast<double>(statistics.values - statistics.not_finite);
  std::vector<double> limits, counts;
  for (const std::uint64_t count : histogram.counts) {
    counts.push_back(static_cast<double>(count));
    const double share = static_cast<double>(counts.size()) / intervals;
    limits.push_back(histogram.low + share * (histogram.high - histogram.low));
  }
  add(tag, Message()
               .message(5, Message()
                               .real(1, statistics.low)
                               .real(2, statistics.high)
                               .real(3, finite)
                               .real(4, statistics.mean * finite)
                               .real(5, statistics.norm * statistics.norm)
                               .reals(6, limits)
                               .reals(7, counts))
               .bytes());
}

// ---- EventFile

EventFile::EventFile(std::filesystem::path path, std::uint64_t step) : file_(std::move(path)) {
  drop_after(step);
}

void EventFile::add(std::uint64_t step, const EventSummary& summary) {
  last_step_ = step;
  file_.append(make_record(event_now().integer(2, step).text(5, summary.bytes()).bytes()));
}

void EventFile::drop_after(std::uint64_t step) {
  RecordScanner records(file_);
  std::uint64_t valid = 0;
  last_step_ = 0;
  while (const auto event = records.next()) {
    const std::uint64_t found = event_step(*event);
    if (found > step || found < last_step_) break;
    last_step_ = found;
    valid = records.offset();
  }
  const auto size = file_.size();
  if (!size) return;
  if (valid < *size) file_.truncate(valid);
  if (valid == 0) file_.append(make_record(event_now().text(3, "brain.Event:2").bytes()));
}

}  // namespace tapestry
