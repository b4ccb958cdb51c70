// SPDX-License-Identifier: BSD-3-Clause
#include "train/inference/source_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "autograd/kernels/softmax.h"
#include "autograd/ops/indexing.h"
#include "data/text/vocabulary.h"

namespace tapestry {
namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

/// log sum_i exp(logits[i]).
double log_sum_exp(const std::vector<double>& logits) {
  const auto sum = kernels::log_sum_exp(logits.size(), logits.data());
  return sum.largest + sum.log_total;
}

double& of(std::vector<double>& values, std::int32_t id) {
  return values[static_cast<std::size_t>(id)];
}

/// Whether a token can be an output: <pad> and <bos> are only inputs.
bool is_output(std::int32_t token) { return token != pad_id && token != bos_id; }

/// Sets the scores of tokens that would repeat a sequence of n tokens in `tokens` to -inf.
void exclude_repeated(const Sentence& tokens, std::size_t n, std::vector<double>& scores) {
  if (tokens.size() < n) return;
  const auto context = tokens.end() - static_cast<std::ptrdiff_t>(n - 1);
  const auto length = static_cast<std::ptrdiff_t>(n - 1);
  for (auto begin = tokens.begin(); begin + length < tokens.end(); ++begin) {
    if (std::equal(context, tokens.end(), begin)) of(scores, begin[length]) = impossible;
  }
}

}  // namespace

NextLogits::NextLogits(const Tensor& logits, std::size_t k)
    : logits_(logits), k_(std::min(k, logits.shape()[1])) {
  if (k_ == 0) return;
  const TopK best = topk_log_softmax(logits, k_);
  ids_.assign(best.indices.begin(), best.indices.end());
  log_probabilities_ = best.values.to_vector();
}

NextTokens NextLogits::best(std::size_t row) const {
  return {.ids = std::span(ids_).subspan(row * k_, k_),
          .log_probabilities = std::span(log_probabilities_).subspan(row * k_, k_)};
}

std::vector<double> NextLogits::all(std::size_t row) const {
  const std::size_t vocabulary = logits_.shape()[1];
  std::vector<double> values(vocabulary);
  dispatch(logits_.dtype(), [&]<class T>() {
    std::ranges::copy(logits_.values<T>().subspan(row * vocabulary, vocabulary), values.begin());
  });
  return values;
}

bool NextLogits::has_softmax(std::size_t row) const {
  if (k_ == 0) return !std::isnan(log_sum_exp(all(row)));
  return std::ranges::none_of(best(row).log_probabilities, [](double p) { return std::isnan(p); });
}

SourceSearch::SourceSearch(const SearchInput& input, std::size_t max_length,
                           const SearchOptions& options)
    : input_(&input),
      max_length_(std::max(max_length, input.prefix.size())),
      options_(&options),
      live_{{.tokens = {}, .log_probability = 0}} {
  if (!options.sampling) return;
  random_ = RandomStream(options.sampling->seed).named("translation").at(input.number);
}

std::int32_t SourceSearch::last_token(std::size_t slot) const {
  const Sentence& tokens = live_[slot].tokens;
  return tokens.empty() ? bos_id : tokens.back();
}

double SourceSearch::normalized(double log_probability, std::size_t tokens) const {
  const double length = static_cast<double>(tokens + 1);  // includes <eos>
  return log_probability / std::pow((5 + length) / 6, options_->length_penalty);
}

void SourceSearch::finish(Sentence tokens, double log_probability) {
  const double score = normalized(log_probability, tokens.size());
  finished_.push_back({std::move(tokens), log_probability, score});
}

/// Whether tokens other than <eos> may be forbidden after `tokens`.
bool SourceSearch::is_constrained(const Sentence& tokens) const {
  const std::size_t n = options_->no_repeat_ngram;
  return !options_->forbidden.empty() || (n > 0 && tokens.size() >= n);
}

/// Sets the scores of tokens that are forbidden after `tokens` to -inf.
void SourceSearch::exclude_forbidden(const Sentence& tokens, std::vector<double>& scores) const {
  const double end = of(scores, eos_id);
  of(scores, pad_id) = of(scores, bos_id) = impossible;
  const std::size_t known = std::min(scores.size(), options_->forbidden.size());
  for (std::size_t id = 0; id < known; ++id) {
    if (options_->forbidden[id]) scores[id] = impossible;
  }
  const std::size_t n = options_->no_repeat_ngram;
  if (n > 0) exclude_repeated(tokens, n, scores);
  of(scores, eos_id) = tokens.size() < options_->min_length ? impossible : end;
}

/// The extension by the next token of the prefix. Until the prefix ends, there is one hypothesis,
/// in slot 0.
SourceSearch::Extension SourceSearch::forced_extension(const NextLogits& next,
                                                       std::size_t first_row) const {
  const std::int32_t token = input_->prefix[length_];
  std::vector<double> logits = next.all(first_row);
  if (token < 0 || static_cast<std::size_t>(token) >= logits.size()) {
    throw std::invalid_argument(
        fmt::format("beam_search: token {} of a prefix is {}, expected an id in [0, {})", length_,
                    token, logits.size()));
  }
  const double log_probability = of(logits, token) - log_sum_exp(logits);
  return {
      .parent = 0, .token = token, .log_probability = live_[0].log_probability + log_probability};
}

/// Adds the extensions of the hypothesis in a slot by these tokens.
void SourceSearch::add_best(std::size_t slot, const NextTokens& next,
                            std::vector<Extension>& all) const {
  const Live& h = live_[slot];
  for (std::size_t i = 0; i < next.ids.size(); ++i) {
    const std::int32_t token = next.ids[i];
    if (!is_output(token)) continue;
    if (token == eos_id && h.tokens.size() < options_->min_length) continue;
    const double sum = h.log_probability + next.log_probabilities[i];
    if (sum != impossible) all.push_back({slot, token, sum});
  }
}

/// Adds the beam_size + 1 most likely extensions by allowed tokens.
void SourceSearch::add_best_allowed(std::size_t slot, std::vector<double> logits,
                                    std::vector<Extension>& all) const {
  const double total = log_sum_exp(logits);
  exclude_forbidden(live_[slot].tokens, logits);
  std::vector<std::int32_t> ids;
  for (std::size_t id = 0; id < logits.size(); ++id) {
    if (logits[id] != impossible) ids.push_back(static_cast<std::int32_t>(id));
  }
  const std::size_t count = std::min(options_->beam_size + 1, ids.size());
  std::ranges::partial_sort(ids, ids.begin() + static_cast<std::ptrdiff_t>(count),
                            [&](std::int32_t a, std::int32_t b) {
                              const double x = of(logits, a), y = of(logits, b);
                              return x != y ? x > y : a < b;
                            });
  ids.resize(count);
  for (const std::int32_t id : ids) {
    all.push_back({slot, id, live_[slot].log_probability + (of(logits, id) - total)});
  }
}

/// The beam_size most likely extensions by tokens other than <eos>, in descending order. Finishes
/// the hypotheses whose extension by <eos> is among the beam_size most likely of all extensions.
std::vector<SourceSearch::Extension> SourceSearch::best_extensions(const NextLogits& next,
                                                                   std::size_t first_row) {
  std::vector<Extension> all;
  for (std::size_t slot = 0; slot < live_.size(); ++slot) {
    if (live_[slot].log_probability == impossible) continue;
    if (is_constrained(live_[slot].tokens)) {
      add_best_allowed(slot, next.all(first_row + slot), all);
    } else {
      add_best(slot, next.best(first_row + slot), all);
    }
  }
  std::ranges::stable_sort(all, [&](const Extension& a, const Extension& b) {
    const double of_a = live_[a.parent].log_probability, of_b = live_[b.parent].log_probability;
    if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
    return of_a != of_b ? of_a > of_b : a.token < b.token;
  });
  const std::size_t beam = options_->beam_size;
  std::vector<Extension> kept;
  for (std::size_t rank = 0; rank < all.size() && kept.size() < beam; ++rank) {
    const Extension& e = all[rank];
    if (e.token != eos_id) {
      kept.push_back(e);
    } else if (rank < beam) {
      finish(live_[e.parent].tokens, e.log_probability);
    }
  }
  return kept;
}

/// One extension of each sample. After the prefix, all samples share one hypothesis, which gets
/// num_best extensions. Finishes samples that end.
std::vector<SourceSearch::Extension> SourceSearch::sampled_extensions(const NextLogits& next,
                                                                      std::size_t first_row) {
  const bool is_common = length_ == input_->prefix.size();
  std::vector<Extension> kept;
  for (std::size_t slot = 0; slot < live_.size(); ++slot) {
    const Live& h = live_[slot];
    if (h.log_probability == impossible) continue;
    std::vector<double> logits = next.all(first_row + slot);
    const double total = log_sum_exp(logits);
    std::vector<double> scores = logits;
    penalize_repetition(scores, h.tokens, options_->sampling->repetition_penalty);
    exclude_forbidden(h.tokens, scores);
    if (*std::ranges::max_element(scores) == impossible) continue;
    for (std::size_t i = 0; i < (is_common ? options_->num_best : 1); ++i) {
      const std::size_t sample = is_common ? i : h.sample;
      const double uniform = random_.at(sample).uniform(length_);
      const std::int32_t token = draw_token(scores, *options_->sampling, uniform);
      const double sum = h.log_probability + (of(logits, token) - total);
      if (token == eos_id) {
        finish(h.tokens, sum);
      } else {
        kept.push_back({slot, token, sum, sample});
      }
    }
  }
  return kept;
}

/// Replaces the hypotheses with the extensions. The first extension of a hypothesis stays in its
/// slot, so that as few rows of the caches as possible are copied.
std::vector<std::size_t> SourceSearch::occupy_slots(const std::vector<Extension>& extensions) {
  const std::size_t slots = SourceSearch::slots(*options_);
  std::vector<const Extension*> of_slot(slots, nullptr);
  std::vector<const Extension*> others;
  for (const Extension& e : extensions) {
    const Extension*& own = of_slot[e.parent];
    own == nullptr ? own = &e : others.emplace_back(&e);
  }
  auto free_slot = of_slot.begin();
  for (const Extension* other : others) {
    free_slot = std::find(free_slot, of_slot.end(), nullptr);
    *free_slot = other;
  }
  std::vector<Live> live(slots, Live{.tokens = {}, .log_probability = impossible});
  std::vector<std::size_t> parents(slots);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const Extension* const e = of_slot[slot];
    parents[slot] = e == nullptr ? std::min(slot, live_.size() - 1) : e->parent;
    if (e == nullptr) continue;
    live[slot] = {live_[e->parent].tokens, e->log_probability, e->sample};
    live[slot].tokens.push_back(e->token);
  }
  live_ = std::move(live);
  return parents;
}

/// Whether an output of an unfinished hypothesis could be one of the results. The log-probability
/// of a hypothesis can only decrease, and its length cannot exceed the maximum.
bool SourceSearch::can_improve() const {
  double best = impossible;
  for (const Live& h : live_) best = std::max(best, h.log_probability);
  if (best == impossible) return false;
  if (options_->sampling || finished_.size() < options_->num_best) return true;
  const bool is_normalized = options_->length_penalty > 0;
  if (is_normalized && finished_.size() >= options_->beam_size) return false;
  const double bound = normalized(best, max_length_);
  const auto better = std::ranges::count_if(
      finished_, [&](const Hypothesis& finished) { return finished.score >= bound; });
  return static_cast<std::size_t>(better) < options_->num_best;
}

/// Ends the search if the softmax of the logits after a hypothesis is undefined. Returns whether it
/// did.
bool SourceSearch::fail_without_softmax(const NextLogits& next, std::size_t first_row) {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t slot = 0; slot < live_.size(); ++slot) {
    const Live& h = live_[slot];
    if (h.log_probability == impossible || next.has_softmax(first_row + slot)) continue;
    finished_ = {{h.tokens, nan, nan}};
    done_ = true;
    return true;
  }
  return false;
}

/// 0, 1, ..., slots - 1: each slot continues its own hypothesis.
std::vector<std::size_t> SourceSearch::own_slots() const {
  std::vector<std::size_t> same(slots(*options_));
  std::iota(same.begin(), same.end(), std::size_t{0});
  return same;
}

std::vector<std::size_t> SourceSearch::advance(const NextLogits& next, std::size_t first_row) {
  if (done_ || fail_without_softmax(next, first_row)) return own_slots();
  const bool is_forced = length_ < input_->prefix.size();
  const std::vector<Extension> extensions =
      is_forced            ? std::vector{forced_extension(next, first_row)}
      : options_->sampling ? sampled_extensions(next, first_row)
                           : best_extensions(next, first_row);
  const std::vector<std::size_t> parents = occupy_slots(extensions);
  done_ = !can_improve();
  if (++length_ >= max_length_ && !done_) {
    for (const Live& h : live_) {
      if (h.log_probability != impossible) finish(h.tokens, h.log_probability);
    }
    done_ = true;
  }
  return parents;
}

std::vector<Hypothesis> SourceSearch::results() const {
  std::vector<Hypothesis> best = finished_;
  std::ranges::stable_sort(best, std::ranges::greater(), &Hypothesis::score);
  best.resize(std::min(best.size(), options_->num_best));
  return best;
}

}  // namespace tapestry
