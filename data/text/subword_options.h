#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace tapestry {

/// Subword tokenization with SentencePiece (Kudo and Richardson 2018).
enum class SubwordKind {
  none,     ///< no subwords: words or characters
  unigram,  ///< a unigram language model of pieces (Kudo 2018), trained from the training text
  bpe,      ///< byte-pair encoding (Sennrich et al. 2016), trained from the training text
  file      ///< the model of SubwordOptions::file
};

/// The Unicode normalization before the text is divided, by the names of SentencePiece.
enum class TextNormalization {
  nmt_nfkc,     ///< NFKC, and the white space of Unicode becomes spaces
  nfkc,         ///< NFKC
  nmt_nfkc_cf,  ///< nmt_nfkc with case folding
  nfkc_cf,      ///< nfkc with case folding
  identity      ///< none
};

/// Subword regularization: how the segmentation of a training sentence varies from epoch to epoch.
struct SubwordSampling {
  /// Of a unigram model: a segmentation x is drawn with a probability proportional to P(x)^alpha
  /// among all segmentations (Kudo 2018); > 0; nullopt: always the most probable one.
  std::optional<double> alpha{};
  /// Of a BPE model: the probability with which each merge is left out at each step (Provilkov et
  /// al. 2020, "BPE-Dropout"), in [0, 1).
  double dropout = 0.0;

  /// Whether segmentations vary.
  bool active() const { return alpha.has_value() || dropout > 0.0; }
};

/// How the subwords of a text become a vocabulary.
struct SubwordOptions {
  SubwordKind kind = SubwordKind::none;  ///< none: no subwords
  std::size_t vocabulary_size = 8000;    ///< ids, including special symbols and bytes, >= 5
  double character_coverage = 0.9995;    ///< share of characters with a piece, in [0.98, 1]
  bool byte_fallback = false;  ///< characters without a piece become UTF-8 bytes, not `<unk>`
  TextNormalization normalization = TextNormalization::nmt_nfkc;  ///< before the text is divided
  std::string file{};          ///< of SubwordKind::file: a .model file of SentencePiece
  std::string target_file{};   ///< the same for targets, if they have a vocabulary of their own
  SubwordSampling sampling{};  ///< in training
};

}  // namespace tapestry
