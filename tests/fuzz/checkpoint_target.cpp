#include <sys/stat.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "tests/fuzz/fuzz_target.h"
#include "train/error.h"
#include "train/storage/checkpoint_file.h"
#include "train/storage/checkpoint_table.h"

using namespace tapestry;

namespace {

using Bytes = std::vector<std::byte>;

/// What the envelope begins with; train/checkpoint/format.md has the layout.
struct EnvelopeFields {
  char magic[8];
  std::uint32_t format_version;
  std::uint32_t envelope_size;
  std::uint64_t file_size;
  std::uint64_t table_size;
  std::uint64_t hdf5_offset;
  std::uint64_t digest_low;
  std::uint64_t digest_high;
};
static_assert(sizeof(EnvelopeFields) == 56);

/// A path is only named in errors: there is one file, of these bytes.
class OneFile final : public FileSystem {
 public:
  explicit OneFile(std::span<const std::byte> bytes) : bytes_(bytes) {}

  int open(const char*, int, mode_t) override { return 0; }
  int close(int) override { return 0; }
  int fstat(int, struct stat& status) override {
    status = {};
    status.st_mode = S_IFREG;
    status.st_size = static_cast<off_t>(bytes_.size());
    return 0;
  }
  ssize_t pread(int, void* target, std::size_t count, std::uint64_t offset) override {
    const auto rest = bytes_.subspan(std::min<std::uint64_t>(offset, bytes_.size()));
    const std::size_t taken = std::min(count, rest.size());
    if (taken > 0) std::memcpy(target, rest.data(), taken);
    return static_cast<ssize_t>(taken);
  }

 private:
  std::span<const std::byte> bytes_;
};

void require_bounded(const Snapshot& snapshot, std::size_t file_size) {
  fuzz::require(snapshot.byte_size() <= file_size, "arrays hold no more than their file");
  for (const auto& [path, array] : snapshot) {
    fuzz::require(byte_count(array.shape, element_size(array.type)) == array.bytes.size(),
                  "an array has the bytes of its shape");
  }
}

/// Reads a file of these bytes, or has it refused.
void read(const Bytes& file) try {
  OneFile files(file);
  require_bounded(read_checkpoint("x.h5", file.size() + 1, files), file.size());
} catch (const CheckpointError& error) {
  constexpr std::size_t two_longest_paths = 2 * 256 * max_path_depth;
  fuzz::require_presentable(error.what(), 1000 + two_longest_paths);
  fuzz::require_presentable(error.hint());
}

void require_disjoint(const std::vector<ArrayEntry>& entries, const Envelope& envelope) {
  std::vector<bool> taken(envelope.file_size);
  for (const ArrayEntry& entry : entries) {
    fuzz::require(entry.size == 0 || entry.offset >= envelope.hdf5_offset,
                  "arrays lie behind the table");
    for (std::uint64_t i = entry.offset; i < entry.offset + entry.size; ++i) {
      fuzz::require(i < taken.size() && !taken[i], "arrays lie in the file and share no bytes");
      taken[i] = true;
    }
  }
}

void require_good_table(const Bytes& file) try {
  const Envelope envelope = open_envelope(file, file.size(), "x.h5");
  const auto table = std::span(file).subspan(envelope_size, envelope.table_size);
  const auto entries = decode_table(table, {envelope.hdf5_offset, envelope.file_size}, "x.h5");
  fuzz::require(std::ranges::equal(encode_table(entries), table),
                "only a table that encode_table() writes is read");
  require_disjoint(entries, envelope);
} catch (const CheckpointError&) {
  // read() has looked at it.
}

template <typename Field>
void set(Bytes& file, Field EnvelopeFields::*member, const Field& value) {
  EnvelopeFields fields;
  std::memcpy(&fields, file.data(), sizeof fields);
  fields.*member = value;
  std::memcpy(file.data(), &fields, sizeof fields);
}

void renew_checksum(Bytes& file) {
  const std::uint64_t checksum = XXH3_64bits(file.data(), envelope_size - sizeof checksum);
  std::memcpy(file.data() + envelope_size - sizeof checksum, &checksum, sizeof checksum);
}

/// The file that an input stands for: the bytes of the envelope that are zero are left out of it.
Bytes unfold(std::span<const std::byte> input) {
  Bytes file(input.begin(), input.begin() + sizeof(EnvelopeFields));
  file.resize(envelope_size);
  file.insert(file.end(), input.begin() + sizeof(EnvelopeFields), input.end());
  return file;
}

}  // namespace

/// Input: a checkpoint, whose envelope is cut to its fields. It is read as it is, and then with
/// ever more of what a damaged file gives itself away by put right: no fuzzer guesses a digest.
void tapestry::fuzz::feed(std::string_view input) {
  const auto bytes = std::as_bytes(std::span(input));
  read(Bytes(bytes.begin(), bytes.end()));
  if (bytes.size() < sizeof(EnvelopeFields)) return;

  Bytes file = unfold(bytes);
  read(file);
  renew_checksum(file);
  read(file);

  const auto payload = std::span(file).subspan(envelope_size);
  const XXH128_hash_t digest = XXH3_128bits(payload.data(), payload.size());
  set(file, &EnvelopeFields::file_size, std::uint64_t{file.size()});
  renew_checksum(file);
  read(file);
  set(file, &EnvelopeFields::digest_low, std::uint64_t{digest.low64});
  set(file, &EnvelopeFields::digest_high, std::uint64_t{digest.high64});
  renew_checksum(file);
  read(file);
  require_good_table(file);
}
