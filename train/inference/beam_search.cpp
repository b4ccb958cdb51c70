#include "train/inference/beam_search.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>

#include "autograd/ops/indexing.h"
#include "autograd/packed_weights.h"
#include "data/text/vocabulary.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/incremental_decoder.h"

namespace tapestry {
namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

void require_valid(const SearchOptions& o) {
  if (o.beam_size == 0 || o.batch_size == 0) {
    throw std::invalid_argument(
        fmt::format("beam_search: beam_size is {} and batch_size {}, expected 1 or more",
                    o.beam_size, o.batch_size));
  }
  if (o.num_best == 0 || o.num_best > o.beam_size) {
    throw std::invalid_argument(
        fmt::format("beam_search: num_best is {}, expected 1 to {} "
                    "(beam_size)",
                    o.num_best, o.beam_size));
  }
  if (!(o.length_penalty >= 0 && std::isfinite(o.length_penalty))) {
    throw std::invalid_argument(
        fmt::format("beam_search: length_penalty is {}, expected >= 0", o.length_penalty));
  }
}

/// 0, 1, ..., count - 1.
std::vector<std::size_t> all_of(std::size_t count) {
  std::vector<std::size_t> all(count);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return all;
}

TokenBatch source_batch(const std::vector<Sentence>& sources,
                        std::span<const std::size_t> indices) {
  std::vector<Example> examples;
  for (const std::size_t i : indices) examples.push_back({.source = sources[i]});
  return network_input(make_batch(examples, all_of(examples.size())), DType::float32).source;
}

/// An extension of the hypothesis in slot `parent` by one token.
struct Extension {
  std::size_t parent;
  std::int32_t token;
  double log_probability;
};

/// The most likely next tokens of one hypothesis and their log-probabilities.
struct NextTokens {
  std::span<const std::int32_t> ids;
  std::span<const double> log_probabilities;
};

/// The search for the outputs of one source. Its hypotheses have slots, which are rows of the
/// batch; slots without a hypothesis have the log-probability -inf.
class SourceSearch {
 public:
  /// longest  maximum tokens of an output
  SourceSearch(std::size_t source, std::size_t longest, const SearchOptions& options)
      : source_(source), longest_(longest), options_(&options), live_(1) {}

  std::size_t source() const { return source_; }
  bool is_done() const { return done_; }
  /// The last token of the hypothesis in a slot.
  std::int32_t last_token(std::size_t slot) const {
    const Sentence& tokens = live_[slot].tokens;
    return tokens.empty() ? bos_id : tokens.back();
  }

  /// Extends all hypotheses by one token; next[i] is for the one in slot i. Returns for each new
  /// slot the old slot whose hypothesis it continues.
  std::vector<std::size_t> advance(const std::vector<NextTokens>& next);

  /// The best outputs.
  std::vector<Hypothesis> results() const;

 private:
  double normalized(double log_probability, std::size_t tokens) const {
    const double length = static_cast<double>(tokens + 1);  // with <eos>
    return log_probability / std::pow((5 + length) / 6, options_->length_penalty);
  }
  void finish(Sentence tokens, double log_probability) {
    const double score = normalized(log_probability, tokens.size());
    finished_.push_back({std::move(tokens), log_probability, score});
  }
  std::vector<Extension> best_extensions(const std::vector<NextTokens>& next);
  std::vector<std::size_t> occupy_slots(const std::vector<Extension>& extensions);
  bool can_improve() const;

  std::size_t source_, longest_;
  const SearchOptions* options_;
  std::vector<Hypothesis> live_;  // by slot; scores are not used
  std::vector<Hypothesis> finished_;
  std::size_t length_ = 0;  // of the hypotheses in slots
  bool done_ = false;
};

/// The beam_size most likely extensions by other tokens than <eos>, in descending order; finishes
/// the hypotheses whose extension by <eos> is among the beam_size most likely of all.
std::vector<Extension> SourceSearch::best_extensions(const std::vector<NextTokens>& next) {
  std::vector<Extension> all;
  for (std::size_t slot = 0; slot < live_.size(); ++slot) {
    if (live_[slot].log_probability == impossible) continue;
    for (std::size_t i = 0; i < next[slot].ids.size(); ++i) {
      const std::int32_t token = next[slot].ids[i];
      if (token == eos_id && live_[slot].tokens.size() < options_->min_length) continue;
      const double sum = live_[slot].log_probability + next[slot].log_probabilities[i];
      all.push_back({slot, token, std::isnan(sum) ? impossible : sum});
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

/// Replaces the hypotheses by the extensions. The first extension of a hypothesis stays in its
/// slot, so that as few rows of the caches as possible are copied.
std::vector<std::size_t> SourceSearch::occupy_slots(const std::vector<Extension>& extensions) {
  const std::size_t slots = options_->beam_size;
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
  std::vector<Hypothesis> live(slots);
  std::vector<std::size_t> parents(slots);
  for (std::size_t slot = 0; slot < slots; ++slot) {
    const Extension* const e = of_slot[slot];
    parents[slot] = e == nullptr ? std::min(slot, live_.size() - 1) : e->parent;
    live[slot].log_probability = e == nullptr ? impossible : e->log_probability;
    if (e == nullptr) continue;
    live[slot].tokens = live_[e->parent].tokens;
    live[slot].tokens.push_back(e->token);
  }
  live_ = std::move(live);
  return parents;
}

/// Whether an output of an unfinished hypothesis could be one of the num_best. Its log-probability
/// can only become smaller, and its length no greater than the longest.
bool SourceSearch::can_improve() const {
  double best = impossible;
  for (const Hypothesis& h : live_) best = std::max(best, h.log_probability);
  if (best == impossible) return false;
  if (finished_.size() < options_->num_best) return true;
  const bool is_normalized = options_->length_penalty > 0;
  if (is_normalized && finished_.size() >= options_->beam_size) return false;
  const double bound = normalized(best, longest_);
  const auto better = std::ranges::count_if(
      finished_, [&](const Hypothesis& finished) { return finished.score >= bound; });
  return static_cast<std::size_t>(better) < options_->num_best;
}

std::vector<std::size_t> SourceSearch::advance(const std::vector<NextTokens>& next) {
  if (done_) return all_of(live_.size());
  const std::vector<std::size_t> parents = occupy_slots(best_extensions(next));
  if (++length_ >= longest_) {
    for (const Hypothesis& h : live_) {
      if (h.log_probability != impossible) finish(h.tokens, h.log_probability);
    }
  }
  done_ = length_ >= longest_ || !can_improve();
  return parents;
}

std::vector<Hypothesis> SourceSearch::results() const {
  std::vector<Hypothesis> best = finished_;
  std::ranges::stable_sort(best, std::ranges::greater(), &Hypothesis::score);
  best.resize(std::min(best.size(), options_->num_best));
  return best;
}

/// The searches for a batch of sources, which advance together.
class BatchSearch {
 public:
  BatchSearch(const Network& network, std::size_t positions, const std::vector<Sentence>& sources,
              std::span<const std::size_t> batch, const SearchOptions& options)
      : options_(options), decoder_(make_decoder(network, source_batch(sources, batch))) {
    for (const std::size_t i : batch) {
      const std::size_t wanted =
          options.max_length != 0 ? options.max_length : sources[i].size() + 50;
      searches_.emplace_back(i, std::min(wanted, positions - 1), options);
    }
  }

  /// Writes the outputs of source i to results[i].
  void run(std::vector<std::vector<Hypothesis>>& results) {
    for (slots_ = 1; !searches_.empty(); slots_ = options_.beam_size) {
      const std::vector<std::size_t> rows = advance(decoder_->extend(last_tokens()));
      for (const SourceSearch& search : searches_) {
        if (search.is_done()) results[search.source()] = search.results();
      }
      select(rows);
    }
  }

 private:
  Ids last_tokens() const {
    Ids tokens(Shape{searches_.size() * slots_, 1});
    for (std::size_t row = 0; row < tokens.size(); ++row) {
      tokens[row] = searches_[row / slots_].last_token(row % slots_);
    }
    return tokens;
  }

  /// Advances all searches; returns the old row of each new one.
  std::vector<std::size_t> advance(const Tensor& logits) {
    // One more than the beam, so that enough remain without <eos>.
    const std::size_t k = std::min(options_.beam_size + 1, logits.shape()[1]);
    const TopK best = topk_log_softmax(logits, k);
    const std::vector<double> values = best.values.to_vector();
    std::vector<std::size_t> rows;
    for (std::size_t i = 0; i < searches_.size(); ++i) {
      std::vector<NextTokens> next;
      for (std::size_t row = i * slots_; row < (i + 1) * slots_; ++row) {
        next.push_back({.ids = {best.indices.data() + row * k, k},
                        .log_probabilities = std::span(values).subspan(row * k, k)});
      }
      for (const std::size_t slot : searches_[i].advance(next)) rows.push_back(i * slots_ + slot);
    }
    return rows;
  }

  /// Lets the decoder continue with the new rows. Sources whose search is done leave the batch once
  /// they are an eighth of it: every time, all caches are copied.
  void select(const std::vector<std::size_t>& rows) {
    const auto done = static_cast<std::size_t>(
        std::ranges::count_if(searches_, [](const SourceSearch& s) { return s.is_done(); }));
    const bool leave = 8 * done >= searches_.size();
    std::vector<std::size_t> sources, kept;
    const std::size_t beam = options_.beam_size;
    for (std::size_t i = 0; i < searches_.size(); ++i) {
      if (leave && searches_[i].is_done()) continue;
      sources.push_back(i);
      for (std::size_t slot = 0; slot < beam; ++slot) kept.push_back(rows[i * beam + slot]);
    }
    if (leave) std::erase_if(searches_, [](const SourceSearch& s) { return s.is_done(); });
    if (!searches_.empty()) decoder_->select(kept, sources);
  }

  const SearchOptions& options_;
  std::unique_ptr<IncrementalDecoder> decoder_;
  std::vector<SourceSearch> searches_;
  std::size_t slots_ = 1;  // rows of each source
};

}  // namespace

std::vector<std::vector<Hypothesis>> beam_search(const Network& network, std::size_t positions,
                                                 const std::vector<Sentence>& sources,
                                                 const SearchOptions& options) {
  require_valid(options);
  const PackedWeights packed;
  std::vector<std::size_t> order = all_of(sources.size());
  std::ranges::stable_sort(order, std::ranges::greater(),
                           [&](std::size_t i) { return sources[i].size(); });
  std::vector<std::vector<Hypothesis>> results(sources.size());
  for (std::size_t begin = 0; begin < order.size(); begin += options.batch_size) {
    const std::size_t count = std::min(options.batch_size, order.size() - begin);
    const auto batch = std::span(order).subspan(begin, count);
    BatchSearch(network, positions, sources, batch, options).run(results);
  }
  return results;
}

std::vector<Sentence> decode(const Network& network, std::size_t positions,
                             const std::vector<Sentence>& sources, const SearchOptions& options) {
  std::vector<Sentence> outputs;
  for (std::vector<Hypothesis>& found : beam_search(network, positions, sources, options)) {
    outputs.push_back(found.empty() ? Sentence{} : std::move(found.front().tokens));
  }
  return outputs;
}

double score_exact_matches(const Network& network, std::size_t positions,
                           const std::vector<Example>& pairs, const SearchOptions& options) {
  std::vector<Sentence> sources;
  for (const Example& pair : pairs) sources.push_back(pair.source);
  const std::vector<Sentence> outputs = decode(network, positions, sources, options);
  std::size_t matches = 0;
  for (std::size_t i = 0; i < pairs.size(); ++i) matches += outputs[i] == pairs[i].target ? 1 : 0;
  return pairs.empty() ? 0.0 : static_cast<double>(matches) / static_cast<double>(pairs.size());
}

}  // namespace tapestry
