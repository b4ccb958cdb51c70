#include "train/inference/incremental_decoder.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/ops/shape_ops.h"

namespace tapestry {
namespace {

/// `count` rows of ids in place of each row.
Ids repeated(const Ids& ids, std::size_t count) {
  std::vector<std::int32_t> rows;
  for (std::size_t i = 0; i < ids.shape()[0]; ++i) {
    rows.insert(rows.end(), count, static_cast<std::int32_t>(i));
  }
  return ids[Ids(std::move(rows))];
}

Ids select_rows(const Ids& ids, std::span<const std::size_t> rows) {
  return ids[Ids(std::vector<std::int32_t>(rows.begin(), rows.end()))];
}

/// Appends columns to ids, which are empty before the first ones.
Ids with_columns(const Ids& ids, const Ids& added) {
  if (ids.size() == 0) return added;
  if (ids.shape()[0] != added.shape()[0]) {
    throw ShapeError(fmt::format("decoder: {} rows of tokens, expected {} as before",
                                 added.shape()[0], ids.shape()[0]));
  }
  const std::size_t before = ids.shape()[1], after = added.shape()[1];
  Ids all(Shape{ids.shape()[0], before + after});
  for (std::size_t row = 0; row < ids.shape()[0]; ++row) {
    for (std::size_t i = 0; i < before; ++i) all(row, i) = ids(row, i);
    for (std::size_t i = 0; i < after; ++i) all(row, before + i) = added(row, i);
  }
  return all;
}

/// Holds the tokens of all sequences.
class RecomputingDecoder : public IncrementalDecoder {
 public:
  RecomputingDecoder(const Network& network, TokenBatch sources)
      : network_(network), sources_(std::move(sources)) {}

  Tensor extend(const Ids& tokens) override {
    tokens_ = with_columns(tokens_, tokens);
    const std::size_t rows = tokens_.shape()[0];
    const Mode mode = Mode::inference();
    const NetworkInput input{.source = sources_for(rows),
                             .target = {.ids = tokens_,
                                        .lengths = std::vector<std::int32_t>(
                                            rows, static_cast<std::int32_t>(tokens_.shape()[1]))}};
    const Tensor features = network_.features(network_.embed(input, mode), input, mode);
    const auto length = static_cast<std::ptrdiff_t>(features.shape()[1]);
    return tapestry::select(network_.logits(slice(features, 1, length - 1, length)), 1, 0);
  }

  void select(std::span<const std::size_t> rows, std::span<const std::size_t> sources) override {
    tokens_ = select_rows(tokens_, rows);
    if (sources_.lengths.empty()) return;
    std::vector<std::int32_t> lengths;
    for (const std::size_t source : sources) lengths.push_back(sources_.lengths.at(source));
    sources_ = {.ids = select_rows(sources_.ids, sources), .lengths = std::move(lengths)};
  }

 private:
  TokenBatch sources_for(std::size_t rows) const {
    const std::size_t sources = sources_.lengths.size();
    if (sources == 0 || sources == rows) return sources_;
    TokenBatch all{.ids = repeated(sources_.ids, rows / sources), .lengths = {}};
    for (const std::int32_t length : sources_.lengths) {
      all.lengths.insert(all.lengths.end(), rows / sources, length);
    }
    return all;
  }

  const Network& network_;
  TokenBatch sources_;
  Ids tokens_;
};

}  // namespace

std::unique_ptr<IncrementalDecoder> make_decoder(const Network& network,
                                                 const TokenBatch& sources) {
  if (auto decoder = network.unwrapped().start_decoding(sources)) return decoder;
  return std::make_unique<RecomputingDecoder>(network, sources);
}

}  // namespace tapestry
