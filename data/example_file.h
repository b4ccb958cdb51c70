// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "data/examples.h"
#include "data/io/error.h"
#include "data/io/file.h"

/// Files of tokenized examples, which are larger than memory or take long to tokenize.
///
/// Layout, in the byte order of the machine; every section begins at a multiple of 8 bytes, and
/// zeros fill the gaps:
///
///     header    16 bytes        "TAPEXMPL", version (uint32), byte order mark (uint32)
///     tokens    width x tokens  ids of the source, then of the target of each example
///     starts    8 x (n + 1)     index of the first token of each example; the last: all tokens
///     sources   4 x n           number of source tokens of each example
///     lines     4 x n           number of its first line in the text file, from 1; 0: none
///     parts     8 x p           number of examples of each corpus
///     notes     bytes           lines of text about the corpus, each ends with '\n'
///     footer    7 x 8 bytes     width, number of tokens, n, p, bytes of notes, origin, and XXH3
///                               (64 bits) of all bytes before the digest
///
/// `width` is 2 if all ids fit, otherwise 4. `origin` identifies what the file was made from.
namespace tapestry {

/// The file is not one of examples, is damaged, has another version or byte order, or was made from
/// something else. It can be recreated.
class UnusableExampleFile : public DataError {
 public:
  using DataError::DataError;
};

/// Writes a file of examples in bounded memory, apart from 16 bytes per example for the index. The
/// file gets its name when it is complete and on the disk: a crash leaves either no file of that
/// name, or a complete one. Until then it is `.NAME.tmp-PID-N` in the same folder; the destructor
/// deletes it.
class ExampleFileWriter {
 public:
  /// path   of the file; its folder must exist
  /// ids    number of different ids, which are from 0 to ids - 1
  /// throws OutputError if the file cannot be created.
  ExampleFileWriter(const std::filesystem::path& path, std::size_t ids,
                    FileSystem& files = posix_file_system());
  ~ExampleFileWriter();
  ExampleFileWriter(const ExampleFileWriter&) = delete;
  ExampleFileWriter& operator=(const ExampleFileWriter&) = delete;

  /// Adds an example without pixels; `line` is its first line in the text file, 0 for none.
  ///
  /// throws  OutputError if it cannot be written; DataError if the file would have more than
  ///         2^32 - 1 examples; std::invalid_argument for an id that is not less than `ids`.
  void add(const Example& example, std::size_t line);

  /// Completes the file and gives it its name.
  ///
  /// origin  identifies what the examples were made from
  /// parts   number of examples of each corpus, in order
  /// notes   lines of text, without line ends
  /// throws  OutputError; std::invalid_argument if the parts do not add up to all examples.
  void finish(std::uint64_t origin, const std::vector<std::uint64_t>& parts,
              const std::vector<std::string>& notes);

 private:
  class Output;
  std::unique_ptr<Output> output_;
  std::size_t ids_;
  std::vector<std::uint64_t> starts_;
  std::vector<std::uint32_t> sources_, lines_;
};

/// A memory-mapped file of examples. Immutable; may be used from several threads at once. The file
/// may be deleted while it is mapped, but it must not be changed or shortened.
class ExampleFile {
 public:
  /// Opens and checks a file: reads all of it once.
  ///
  /// origin  as given to the writer
  /// ids     number of different ids
  /// throws  UnusableExampleFile if the file cannot be used, also if it is missing; FileError if it
  ///         cannot be read.
  ExampleFile(const std::filesystem::path& path, std::uint64_t origin, std::size_t ids,
              FileSystem& files = posix_file_system());

  /// Number of examples.
  std::size_t size() const { return examples_; }
  /// Size of the file in bytes.
  std::size_t bytes() const { return bytes_; }
  /// The lengths of an example; index < size().
  ExampleLengths lengths(std::size_t index) const;
  /// The number of its first line in its text file, from 1; 0: none.
  std::size_t line(std::size_t index) const { return lines_[index]; }
  /// Decodes an example into `example`.
  void read(std::size_t index, Example& example) const;
  /// Number of examples of each corpus, in order.
  const std::vector<std::uint64_t>& parts() const { return parts_; }
  /// The notes.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Calls f(example) for all examples in order, and releases the memory of the pages that have
  /// been read, so that reading a large file does not take its size of memory.
  void for_each(const std::function<void(const Example&)>& f) const;

 private:
  template <class Id>
  void decode(std::size_t index, Example& example) const;
  void check_index(const std::string& name, std::uint64_t tokens) const;

  struct Unmap {
    std::size_t bytes;
    void operator()(const std::byte* map) const;
  };

  std::size_t bytes_ = 0, examples_ = 0, width_ = 0;
  std::unique_ptr<const std::byte, Unmap> map_;
  const std::byte* tokens_ = nullptr;
  const std::uint64_t* starts_ = nullptr;
  const std::uint32_t* sources_ = nullptr;
  const std::uint32_t* lines_ = nullptr;
  std::vector<std::uint64_t> parts_;
  std::vector<std::string> notes_;
};

}  // namespace tapestry
