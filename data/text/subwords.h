#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "data/text/subword_options.h"
#include "data/text/vocabulary.h"

namespace tapestry {

struct SentencePieceModel;  // data/text/sentencepiece_model.h

/// A SentencePiece model, which divides text into subwords, such as "▁play" and "ing"; U+2581
/// stands for a space. Immutable; can be used from several threads at once.
///
/// The tokens are the pieces of the model without its control, unknown and unused symbols, in its
/// order. A vocabulary cannot contain white space and special symbols of its own as words: in such
/// a piece, which only models of another program have, white space is written as <U+0009>, and
/// '<' of a special symbol as <U+003C>.
class SubwordModel {
 public:
  /// serialized  the content of a .model file of SentencePiece, of type unigram or BPE
  /// name        of the file, for messages
  /// throws      DataError if it is anything else, or is damaged.
  explicit SubwordModel(std::string serialized, const std::string& name = "subword model");
  ~SubwordModel();
  SubwordModel(const SubwordModel&) = delete;
  SubwordModel& operator=(const SubwordModel&) = delete;

  /// The content of the .model file.
  const std::string& serialized() const;

  /// All tokens; the id of token i in a vocabulary is first_word_id + i.
  const Tokens& tokens() const;

  /// The pieces of the model, in its own order.
  const SentencePieceModel& pieces() const;

  /// The most probable segmentation of a text without line ends, after normalization; "<unk>" for
  /// characters without a piece. Empty if nothing remains after normalization.
  ///
  /// throws  DataError if the model is contradictory in itself, as join().
  Tokens split(std::string_view text) const;

  /// The text of tokens, " ⁇ " for `<unk>`; bytes that are not UTF-8 become U+FFFD. split() of this
  /// text gives an equivalent segmentation.
  std::string join(const Tokens& tokens) const;

 private:
  class Processor;
  std::unique_ptr<const Processor> processor_;
};

/// Trains a model on sentences. The result is the same for sentences in any order and on any number
/// of threads.
///
/// sentences  UTF-8 without line ends and NUL
/// options    of SubwordKind::unigram or bpe
/// place      of the sentences in messages, such as a config key
/// throws     DataError if the vocabulary is too large or too small for the text, with the nearest
///            possible size.
std::shared_ptr<const SubwordModel> train_subwords(std::span<const std::string> sentences,
                                                   const SubwordOptions& options,
                                                   const std::string& place);

}  // namespace tapestry
