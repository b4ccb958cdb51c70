#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/io/text_file.h"

namespace tapestry {

/// A text file of a corpus that is read line by line, as often as needed, in bounded memory. The
/// file must have the same content each time.
class CorpusText {
 public:
  /// key      of the file in Corpus::files
  /// content  what it is expected to contain
  CorpusText(std::string key, std::filesystem::path path, const TextContent& content = {});

  /// Its name for messages, escaped.
  const std::string& name() const { return name_; }

  /// Its size now; 0 if that cannot be determined.
  std::uint64_t size_now() const;

  /// Allows the file to be larger than the memory of this machine.
  void allow_any_size() { content_.any_size = true; }

  /// One pass over the lines.
  class Lines {
   public:
    /// The next line; nullopt at the end.
    ///
    /// throws  DataError as TextFileReader::next(); if the file differs from that of an earlier
    ///         pass.
    std::optional<std::string> next();
    /// Number of the last line, from 1.
    std::size_t number() const { return reader_.line_number(); }

   private:
    friend class CorpusText;
    explicit Lines(CorpusText& text);

    CorpusText& text_;
    TextFileReader reader_;
  };

  /// Begins a pass. throws  DataError as TextFileReader; if the file cannot be opened, the hint
  /// names the key.
  Lines lines();

  /// Calls f(line, number) for each line.
  void for_each_line(const std::function<void(std::string line, std::size_t number)>& f);

  /// Size and digest of the file: of an earlier pass, or else its bytes are read.
  ///
  /// throws  DataError as lines().
  const FileDigest& digest();

  /// Adds the file to corpus.files, after a pass or digest().
  void record(Corpus& corpus) const;

 private:
  void found(const FileDigest& digest);

  std::string key_;
  std::filesystem::path path_;
  TextContent content_;
  std::string name_;
  std::optional<FileDigest> digest_;
};

}  // namespace tapestry
