#include "train/training_loss.h"

#include "train/batch_tensors.h"

namespace tapestry {

Tensor training_loss(const Seq2SeqModel& model, const Batch& batch,
                     const CrossEntropyOptions& options, const RandomStream& random,
                     double* nll_sum) {
  const Transformer& transformer = model.transformer;
  const TokenBatch source = source_tokens(batch);
  const Tensor memory = transformer.encode(source, random);
  const Tensor decoded = transformer.decode(decoder_tokens(batch), memory, source, random);
  return transformer.loss(decoded, label_ids(batch), options, nll_sum);
}

}  // namespace tapestry
