#include "layers/transformer.h"

#include <fmt/format.h>

#include "autograd/error.h"

namespace tapestry {
namespace {

std::optional<Embedding> source_embedding(const Scope& root, const TransformerOptions& options,
                                          std::size_t source_vocabulary,
                                          std::size_t target_vocabulary, std::int32_t padding_id) {
  if (options.tie_embeddings != TiedEmbeddings::all) {
    return Embedding(root / "source_embedding", source_vocabulary, options.d_model, padding_id);
  }
  if (source_vocabulary != target_vocabulary) {
    throw ShapeError(
        fmt::format("transformer: tie_embeddings is all, but the vocabularies have {} "
                    "and {} entries, expected one common vocabulary",
                    source_vocabulary, target_vocabulary));
  }
  return std::nullopt;
}

}  // namespace

Transformer::Transformer(Parameters& parameters, const TransformerOptions& o,
                         std::size_t source_vocabulary, std::size_t target_vocabulary,
                         std::int32_t padding_id)
    : options_(o),
      target_embedding_(Scope(parameters) / "target_embedding", target_vocabulary, o.d_model,
                        padding_id),
      own_source_embedding_(
          source_embedding(Scope(parameters), o, source_vocabulary, target_vocabulary, padding_id)),
      source_positions_(Scope(parameters) / "source_positions", o.positions, o.max_length,
                        o.d_model),
      target_positions_(Scope(parameters) / "target_positions", o.positions, o.max_length,
                        o.d_model),
      source_dropout_(Scope(parameters) / "source_dropout", o.embedding_dropout_rate()),
      target_dropout_(Scope(parameters) / "target_dropout", o.embedding_dropout_rate()),
      encoder_(Scope(parameters) / "encoder", o),
      decoder_(Scope(parameters) / "decoder", o),
      output_(Scope(parameters) / "output", o.tie_embeddings, target_embedding_) {}

Tensor Transformer::embed_source(const TokenBatch& source, const Mode& mode) const {
  const Embedding& embedding = own_source_embedding_ ? *own_source_embedding_ : target_embedding_;
  return source_dropout_(source_positions_(embedding(source.ids)), mode);
}

Tensor Transformer::embed_target(const TokenBatch& target, const Mode& mode) const {
  return target_dropout_(target_positions_(target_embedding_(target.ids)), mode);
}

TokenVectors Transformer::embed(const NetworkInput& input, const Mode& mode) const {
  const Tensor source = embed_source(input.source, mode);
  return {.source = source, .target = embed_target(input.target, mode)};
}

Tensor Transformer::encode(const TokenBatch& source, const Mode& mode) const {
  return encode_embedded(embed_source(source, mode), source, mode);
}

Tensor Transformer::encode_embedded(const Tensor& embedded, const TokenBatch& source,
                                    const Mode& mode) const {
  return encoder_(embedded, AttentionMask::padding(source.lengths), mode);
}

Tensor Transformer::decode(const TokenBatch& target, const Tensor& memory, const TokenBatch& source,
                           const Mode& mode) const {
  return decode_embedded(embed_target(target, mode), target, memory, source, mode);
}

Tensor Transformer::decode_embedded(const Tensor& embedded, const TokenBatch& target,
                                    const Tensor& memory, const TokenBatch& source,
                                    const Mode& mode) const {
  const DecoderMasks masks{.self = AttentionMask::causal() & AttentionMask::padding(target.lengths),
                           .cross = AttentionMask::padding(source.lengths)};
  return decoder_(embedded, memory, masks, mode);
}

Tensor Transformer::features(const TokenVectors& vectors, const NetworkInput& input,
                             const Mode& mode) const {
  const Tensor memory = encode_embedded(vectors.source, input.source, mode);
  return decode_embedded(vectors.target, input.target, memory, input.source, mode);
}

Tensor Transformer::operator()(const TokenBatch& source, const TokenBatch& target,
                               const Mode& mode) const {
  return output_.logits(decode(target, encode(source, mode), source, mode));
}

}  // namespace tapestry
