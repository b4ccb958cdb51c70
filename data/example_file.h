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

/// Files of tokenized examples, for training sets that are larger than memory or slow to tokenize.
///
/// Layout, in the byte order of the machine; every section begins at a multiple of 8 bytes, and
/// zeros fill the gaps:
///
///     header    16 bytes        "TAPEXMPL", version (uint32), byte order mark (uint32)
///     tokens    width x tokens  for each example, the source ids and then the target ids
///     starts    8 x (n + 1)     index of the first token of each example; starts[n]: all tokens
///     sources   4 x n           number of source tokens of each example
///     lines     4 x n           first line of each example in the text file, from 1; 0: none
///     parts     8 x p           number of examples of each corpus
///     notes     bytes           lines of text about the corpus, each ending with '\n'
///     footer    7 x 8 bytes     width, number of tokens, n, p, bytes of notes, origin, and XXH3
///                               (64 bits) of all bytes before the digest
///
/// `width` is 2 if all ids fit in 16 bits, otherwise 4. `origin` identifies the text, vocabularies
/// and options that the file was made from.
namespace tapestry {

/// Thrown if a file is not an example file, is damaged, has a different version or byte order, or
/// was made from different text, vocabularies or options. The file can be recreated.
class UnusableExampleFile : public DataError {
 public:
  using DataError::DataError;
};

/// Writes an example file. Memory is bounded, apart from 16 bytes per example for the index. The
/// data go to a temporary file `.NAME.tmp-PID-N` in the same folder, which is renamed once it is
/// complete and on the disk: a crash never leaves an incomplete file under the final name. The
/// destructor deletes an unfinished temporary file.
class ExampleFileWriter {
 public:
  /// path             of the file; its folder must exist
  /// vocabulary_size  valid ids are 0 to vocabulary_size - 1
  /// throws           OutputError if the file cannot be created.
  ExampleFileWriter(const std::filesystem::path& path, std::size_t vocabulary_size,
                    FileSystem& files = posix_file_system());
  ~ExampleFileWriter();
  ExampleFileWriter(const ExampleFileWriter&) = delete;
  ExampleFileWriter& operator=(const ExampleFileWriter&) = delete;

  /// Adds an example without pixels; `line` is its first line in the text file, or 0 if it has no
  /// line.
  ///
  /// throws  OutputError if it cannot be written; DataError if the number of examples, `line` or
  ///         the source length exceeds 2^32 - 1; std::invalid_argument if an id is not valid.
  void add(const Example& example, std::size_t line);

  /// Completes the file and renames it to `path`.
  ///
  /// origin  identifies what the examples were made from
  /// parts   number of examples of each corpus, in order
  /// notes   lines of text, without line ends
  /// throws  OutputError; std::invalid_argument if the sum of `parts` is not the number of
  ///         examples.
  void finish(std::uint64_t origin, const std::vector<std::uint64_t>& parts,
              const std::vector<std::string>& notes);

 private:
  class Output;
  std::unique_ptr<Output> output_;
  std::size_t vocabulary_size_;
  std::vector<std::uint64_t> starts_;
  std::vector<std::uint32_t> sources_, lines_;
};

/// A memory-mapped example file. Immutable; can be used from several threads at once. The file may
/// be deleted while it is mapped, but it must not be changed or shortened: reading a missing part
/// raises SIGBUS, see is_in_example_file().
class ExampleFile {
 public:
  /// Opens a file and checks all of its content.
  ///
  /// origin, vocabulary_size  the values given to the writer
  /// throws                   UnusableExampleFile if the content cannot be used; UnopenedFile if
  ///                          the file is missing; FileError if it cannot be read.
  ExampleFile(const std::filesystem::path& path, std::uint64_t origin, std::size_t vocabulary_size,
              FileSystem& files = posix_file_system());

  /// Number of examples.
  std::size_t size() const { return examples_; }
  /// Size of the file in bytes.
  std::size_t bytes() const { return bytes_; }
  /// The lengths of an example; index < size().
  ExampleLengths lengths(std::size_t index) const;
  /// Number of the first line of an example in its text file, from 1, or 0 if it has no line.
  std::size_t line(std::size_t index) const { return lines_[index]; }
  /// Decodes an example into `example`.
  void read(std::size_t index, Example& example) const;
  /// Number of examples of each corpus, in order.
  const std::vector<std::uint64_t>& parts() const { return parts_; }
  /// The notes given to the writer.
  const std::vector<std::string>& notes() const { return notes_; }

  /// Calls f(example) for all examples in order. Releases pages after reading them, so that a large
  /// file does not fill the memory.
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

/// Whether an address is in the example file that was mapped last. Async-signal-safe, for handlers
/// of SIGBUS.
bool is_in_example_file(const void* address);

}  // namespace tapestry
