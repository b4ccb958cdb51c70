// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "autograd/error.h"
#include "autograd/kernels/portable_math.h"
#include "autograd/kernels/softmax.h"
#include "autograd/ops/linear.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/random.h"
#include "data/text/vocabulary.h"
#include "train/inference/finite_outputs.h"

namespace tapestry {
namespace {

/// The tokens in descending order of their scores; tokens with equal scores are ordered by id.
/// Sorts on demand, since usually only a few tokens of a large vocabulary are needed.
class Ranking {
 public:
  explicit Ranking(const std::vector<double>& scores) : scores_(scores), ids_(scores.size()) {
    std::iota(ids_.begin(), ids_.end(), std::size_t{0});
  }

  std::size_t size() const { return ids_.size(); }

  std::size_t id(std::size_t rank) {
    if (rank >= sorted_) sort_to(std::max({rank + 1, 8 * sorted_, std::size_t{64}}));
    return ids_[rank];
  }

 private:
  void sort_to(std::size_t end) {
    const auto iterator = [&](std::size_t i) {
      return ids_.begin() + static_cast<std::ptrdiff_t>(i);
    };
    const auto before = [&](std::size_t a, std::size_t b) {
      return scores_[a] != scores_[b] ? scores_[a] > scores_[b] : a < b;
    };
    end = std::min(end, ids_.size());
    if (end < ids_.size()) {
      std::nth_element(iterator(sorted_), iterator(end), ids_.end(), before);
    }
    std::sort(iterator(sorted_), iterator(end), before);
    sorted_ = end;
  }

  const std::vector<double>& scores_;
  std::vector<std::size_t> ids_;
  std::size_t sorted_ = 0;  // number of ranks that are sorted
};

/// exp((score - max_score) / temperature): the probability of a token relative to the most likely
/// token.
class Weights {
 public:
  Weights(const std::vector<double>& scores, double temperature)
      : scores_(scores), max_score_(*std::ranges::max_element(scores)), temperature_(temperature) {}

  double operator()(std::size_t id) const {
    return portable::exp((scores_[id] - max_score_) / temperature_);
  }

  double sum() const {
    double sum = 0.0;
    for (std::size_t id = 0; id < scores_.size(); ++id) sum += (*this)(id);
    return sum;
  }

 private:
  const std::vector<double>& scores_;
  double max_score_, temperature_;
};

/// The tokens to draw from: the first `count` tokens of the ranking.
struct Candidates {
  std::size_t count = 0;
  double weight = 0.0;  // sum of their weights
};

Candidates find_candidates(Ranking& ranking, const Weights& weight,
                           const SamplingOptions& options) {
  const std::size_t all = ranking.size();
  const std::size_t max_count = options.top_k == 0 ? all : std::min(options.top_k, all);
  const bool has_bound = options.top_p < 1.0;
  if (!has_bound && max_count == all) return {.count = all, .weight = weight.sum()};
  const double bound = has_bound ? options.top_p * weight.sum() : 0.0;
  Candidates found;
  while (found.count < max_count) {
    found.weight += weight(ranking.id(found.count++));
    if (has_bound && found.weight >= bound) break;
  }
  return found;
}

Ids one_row(std::span<const std::int32_t> tokens) {
  return {Shape{1, tokens.size()}, {tokens.begin(), tokens.end()}};
}

/// Computes the scores of the next token of a growing text.
class NextScores {
 public:
  /// window  maximum number of tokens that the network reads
  NextScores(const Network& network, std::size_t window)
      : network_(network), window_(window), decoder_(make_decoder(network, {})) {}

  /// The scores of the token that follows `tokens`, which start with the tokens of the last call;
  /// -inf for special symbols.
  std::vector<double> operator()(std::span<const std::int32_t> tokens) {
    if (tokens.size() > window_) {
      // The window has moved, so all tokens have new positions.
      decoder_ = make_decoder(network_, {});
      read_ = tokens.size() - window_;
    }
    const Tensor logits = decoder_->extend(one_row(tokens.subspan(read_)));
    read_ = tokens.size();
    std::vector<double> scores = logits.to_vector();
    if (std::isnan(kernels::log_sum_exp(scores.size(), scores.data()).log_total)) {
      const Ids window = one_row(tokens.last(std::min(tokens.size(), window_)));
      const auto length = static_cast<std::int32_t>(window.size());
      reject_non_finite(network_, {.target = {.ids = window, .lengths = {length}}},
                        fmt::format("token {}", tokens.size() + 1));
    }
    std::fill_n(scores.begin(), first_word_id, -std::numeric_limits<double>::infinity());
    return scores;
  }

 private:
  const Network& network_;
  std::size_t window_;
  std::unique_ptr<IncrementalDecoder> decoder_;
  std::size_t read_ = 0;  // number of tokens that the decoder has read or that precede the window
};

}  // namespace

std::int32_t draw_token(const std::vector<double>& scores, const SamplingOptions& options,
                        double uniform) {
  if (options.temperature == 0.0) {
    return static_cast<std::int32_t>(std::ranges::max_element(scores) - scores.begin());
  }
  const Weights weight(scores, options.temperature);
  Ranking ranking(scores);
  const Candidates candidates = find_candidates(ranking, weight, options);
  double left = uniform * candidates.weight;
  std::size_t token = ranking.id(0);
  left -= weight(token);
  for (std::size_t rank = 1; rank < candidates.count && left >= 0.0; ++rank) {
    const std::size_t next = ranking.id(rank);
    // `left` may be a rounding error: a token with probability 0 must not be drawn.
    if (weight(next) == 0.0) break;
    token = next;
    left -= weight(token);
  }
  return static_cast<std::int32_t>(token);
}

void penalize_repetition(std::vector<double>& scores, std::span<const std::int32_t> occurred,
                         double penalty) {
  if (penalty == 1.0) return;
  std::vector<bool> done(scores.size(), false);
  for (const std::int32_t token : occurred) {
    const auto id = static_cast<std::size_t>(token);
    if (done.at(id)) continue;
    done[id] = true;
    scores[id] = scores[id] > 0 ? scores[id] / penalty : scores[id] * penalty;
  }
}

void generate(const Network& network, std::size_t positions, std::vector<std::int32_t> prompt,
              std::size_t count, const SamplingOptions& options,
              const std::function<void(std::int32_t)>& take) {
  const RandomStream random = RandomStream(options.seed).named("sampling");
  const std::size_t window = options.window == 0 ? positions : std::min(options.window, positions);
  const PackedWeights packed;
  NextScores next_scores(network, window);
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<double> scores = next_scores(prompt);
    const auto read = std::span(prompt).last(std::min(prompt.size(), window));
    penalize_repetition(scores, read, options.repetition_penalty);
    const std::int32_t next = draw_token(scores, options, random.uniform(i));
    prompt.push_back(next);
    take(next);
  }
}

namespace {

/// Repeats each row of ids `count` times.
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

/// Appends columns to ids, which may be empty.
Ids with_columns(const Ids& ids, const Ids& added) {
  if (ids.size() == 0) return added;
  if (ids.shape()[0] != added.shape()[0]) {
    throw ShapeError(
        fmt::format("decoder: found {} rows of tokens, expected {} as in the previous call",
                    added.shape()[0], ids.shape()[0]));
  }
  return concat({ids, added}, 1);
}

/// Computes the whole sequences again for each token.
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
