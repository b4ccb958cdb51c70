// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/corpus.h"
#include "data/io/text_file.h"
#include "data/text/subwords.h"
#include "data/text/vocabulary.h"

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
    /// throws  DataError as TextFileReader::next(); if the file differs from an earlier
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

/// The texts of a list of files; if it is empty, one text, which cannot be opened.
///
/// key  of the list
std::vector<CorpusText> list_texts(const std::string& key, const FileList& files,
                                   const std::filesystem::path& base, const TextContent& content);

/// A uniform random sample of the sentences of a text that may be larger than memory, from which
/// subwords are learned: all of them, if they fit. Deterministic.
///
/// Each sentence gets a random number; the ones with the smallest numbers are kept, as many as fit
/// ("bottom-k" sampling). A sentence that does not fit by itself is left out.
class TextSample {
 public:
  /// The memory of a sample; SentencePiece takes more for its training.
  static constexpr std::size_t default_limit = std::size_t{1} << 28;
  /// The memory of a sentence without its text.
  static constexpr std::size_t bytes_per_sentence = 64;

  TextSample() = default;
  /// limit  in bytes, of the sentences and of `bytes_per_sentence` for each
  explicit TextSample(std::size_t limit) : limit_(limit) {}

  /// Adds the next sentence of the text.
  void add(std::string sentence);

  /// Whether sentences have been left out.
  bool is_partial() const { return kept_.size() < added_; }
  std::uint64_t added() const { return added_; }
  std::size_t kept() const { return kept_.size(); }

  /// The sentences, in the order of the text.
  std::vector<std::string> take() &&;

 private:
  struct Sentence {
    std::uint64_t random;
    std::uint64_t number;  ///< in the text
    std::string text;

    std::size_t bytes() const { return text.size() + bytes_per_sentence; }
    bool operator<(const Sentence& other) const {
      return random != other.random ? random < other.random : number < other.number;
    }
  };

  std::size_t limit_ = default_limit;
  std::size_t bytes_ = 0;
  std::uint64_t added_ = 0;
  bool has_evicted_ = false;    ///< a sentence that would fit by itself has been left out
  std::vector<Sentence> kept_;  ///< a heap, the largest random number first
};

/// The side of a corpus that subwords are for.
enum class SubwordSide {
  source,  ///< sources, or both sides: SubwordOptions::file
  target   ///< targets with a separate vocabulary: SubwordOptions::target_file
};

/// The subwords of a corpus as words.subwords says: the model of its file, relative to `base`, or a
/// model trained on the sentences, in lower case with words.lowercase. The file is not one of
/// Corpus::files: the fingerprint has its content, and a trained model does not need it.
///
/// sentences  of the training set; none for the model of a file
/// place      of the sentences in messages, such as a file name
/// notes      get a line if the model is trained only on some of the sentences
/// throws     DataError as SubwordModel, train_subwords() and read_binary_file().
std::shared_ptr<const SubwordModel> make_subwords(TextSample sentences, const WordOptions& words,
                                                  SubwordSide side,
                                                  const std::filesystem::path& base,
                                                  const std::string& place,
                                                  std::vector<std::string>& notes);

}  // namespace tapestry
