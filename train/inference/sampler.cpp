#include "train/inference/sampler.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "autograd/kernels/portable_math.h"
#include "autograd/ops/shape_ops.h"
#include "autograd/random.h"
#include "data/text/vocabulary.h"

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

/// The scores of the token that follows `tokens`; -inf for special symbols.
std::vector<double> next_scores(const Network& network, const std::vector<std::int32_t>& tokens,
                                std::size_t window) {
  const std::size_t read = std::min(tokens.size(), window);
  TokenBatch batch{.ids = Ids(Shape{1, read}), .lengths = {static_cast<std::int32_t>(read)}};
  std::copy(tokens.end() - static_cast<std::ptrdiff_t>(read), tokens.end(), batch.ids.begin());
  const NetworkInput input{.target = std::move(batch)};
  const Mode mode = Mode::inference();
  const Tensor features = network.features(network.embed(input, mode), input, mode);
  const Tensor logits = network.logits(slice(features, 1, read - 1, read));
  std::vector<double> scores = dispatch(logits.dtype(), [&]<class T>() {
    const auto values = logits.values<T>();
    return std::vector<double>(values.begin(), values.end());
  });
  std::fill_n(scores.begin(), first_word_id, -std::numeric_limits<double>::infinity());
  return scores;
}

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

void generate(const LanguageModel& model, std::vector<std::int32_t> prompt, std::size_t count,
              const SamplingOptions& options, const std::function<void(std::int32_t)>& take) {
  generate(model, model.options().max_length, std::move(prompt), count, options, take);
}

void generate(const Network& network, std::size_t positions, std::vector<std::int32_t> prompt,
              std::size_t count, const SamplingOptions& options,
              const std::function<void(std::int32_t)>& take) {
  const RandomStream random = RandomStream(options.seed).named("sampling");
  const std::size_t window = options.window == 0 ? positions : std::min(options.window, positions);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int32_t next =
        draw_token(next_scores(network, prompt, window), options, random.uniform(i));
    prompt.push_back(next);
    take(next);
  }
}

}  // namespace tapestry
