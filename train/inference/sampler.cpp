#include "train/inference/sampler.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <utility>

#include "autograd/kernels/portable_math.h"
#include "autograd/packed_weights.h"
#include "autograd/random.h"
#include "data/text/vocabulary.h"
#include "train/inference/incremental_decoder.h"

namespace tapestry {
namespace {

/// Softmax of the scores at a temperature > 0, in descending order.
struct Ranking {
  std::vector<std::size_t> ids;
  std::vector<double> probabilities;
};

Ranking rank(const std::vector<double>& scores, double temperature) {
  Ranking ranking{.ids = std::vector<std::size_t>(scores.size()), .probabilities = {}};
  std::iota(ranking.ids.begin(), ranking.ids.end(), std::size_t{0});
  std::ranges::stable_sort(ranking.ids, [&](auto a, auto b) { return scores[a] > scores[b]; });
  const double most = scores[ranking.ids.front()];
  double sum = 0.0;
  for (const std::size_t id : ranking.ids) {
    ranking.probabilities.push_back(portable::exp((scores[id] - most) / temperature));
    sum += ranking.probabilities.back();
  }
  for (double& p : ranking.probabilities) p /= sum;
  return ranking;
}

/// The number of candidates to draw from, in descending order of probability. Excludes candidates
/// of probability 0, even if the sum of the others is below 1 by rounding.
std::size_t count_candidates(const Ranking& ranking, const SamplingOptions& options) {
  const std::size_t all = ranking.ids.size();
  const std::size_t most = options.top_k == 0 ? all : std::min(options.top_k, all);
  double sum = 0.0;
  for (std::size_t i = 0; i < most; ++i) {
    if (ranking.probabilities[i] == 0.0) return i;
    sum += ranking.probabilities[i];
    if (sum >= options.top_p) return i + 1;
  }
  return most;
}

Ids one_row(std::span<const std::int32_t> tokens) {
  return {Shape{1, tokens.size()}, {tokens.begin(), tokens.end()}};
}

/// The scores of the token that follows a text, as the text grows.
class NextScores {
 public:
  /// window  maximum number of tokens that the network reads
  NextScores(const Network& network, std::size_t window)
      : network_(network), window_(window), decoder_(make_decoder(network, {})) {}

  /// The scores of the token that follows `tokens`, which start with those of the last call; -inf
  /// for special symbols.
  std::vector<double> operator()(std::span<const std::int32_t> tokens) {
    if (tokens.size() > window_) {
      // All tokens have moved to other positions.
      decoder_ = make_decoder(network_, {});
      read_ = tokens.size() - window_;
    }
    const Tensor logits = decoder_->extend(one_row(tokens.subspan(read_)));
    read_ = tokens.size();
    std::vector<double> scores = logits.to_vector();
    std::fill_n(scores.begin(), first_word_id, -std::numeric_limits<double>::infinity());
    return scores;
  }

 private:
  const Network& network_;
  std::size_t window_;
  std::unique_ptr<IncrementalDecoder> decoder_;
  std::size_t read_ = 0;  // tokens that the decoder has read, or that are before the window
};

}  // namespace

std::int32_t draw_token(std::vector<double> scores, const SamplingOptions& options,
                        double uniform) {
  if (options.temperature == 0.0) {
    return static_cast<std::int32_t>(std::ranges::max_element(scores) - scores.begin());
  }
  const Ranking ranking = rank(scores, options.temperature);
  const std::size_t kept = count_candidates(ranking, options);
  const auto& p = ranking.probabilities;
  const double all = std::accumulate(p.begin(), p.begin() + static_cast<std::ptrdiff_t>(kept), 0.0);
  double left = uniform * all;
  std::size_t i = 0;
  while (i + 1 < kept && left >= p[i]) left -= p[i++];
  return static_cast<std::int32_t>(ranking.ids[i]);
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

void generate(const LanguageModel& model, std::vector<std::int32_t> prompt, std::size_t count,
              const SamplingOptions& options, const std::function<void(std::int32_t)>& take) {
  generate(model, model.options().max_length, std::move(prompt), count, options, take);
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
    const std::int32_t next = draw_token(std::move(scores), options, random.uniform(i));
    prompt.push_back(next);
    take(next);
  }
}

}  // namespace tapestry
