#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "data/text/subwords.h"
#include "data/text/text_sample.h"
#include "data/text/vocabulary.h"

namespace tapestry {

/// The side of a corpus that subwords are for.
enum class SubwordSide {
  source,  ///< sources, or both sides: SubwordOptions::file
  target   ///< targets with a vocabulary of their own: SubwordOptions::target_file
};

/// The subwords of a corpus as words.subwords says: the model of its file, relative to `base`, or a
/// model trained on the sentences, in lower case with words.lowercase. The file is not one of
/// Corpus::files: the fingerprint has its content, and a trained model does not need it.
///
/// sentences  of the training set; none for the model of a file
/// place      of the sentences in messages, such as a file name
/// notes      get a line if the model is trained on some of the sentences alone
/// throws     DataError as SubwordModel, train_subwords() and read_binary_file().
std::shared_ptr<const SubwordModel> make_subwords(TextSample sentences, const WordOptions& words,
                                                  SubwordSide side,
                                                  const std::filesystem::path& base,
                                                  const std::string& place,
                                                  std::vector<std::string>& notes);

}  // namespace tapestry
