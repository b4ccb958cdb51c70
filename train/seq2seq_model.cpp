#include "train/seq2seq_model.h"

#include "data/vocabulary.h"

namespace tapestry {

Seq2SeqModel::Seq2SeqModel(const TransformerOptions& options, VocabularySizes vocabularies,
                           DType dtype, std::uint64_t seed)
    : parameters(dtype, seed),
      transformer(parameters, options, vocabularies.source, vocabularies.target, pad_id) {
  parameters.gather();
}

}  // namespace tapestry
