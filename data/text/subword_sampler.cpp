// SPDX-License-Identifier: BSD-3-Clause
#include "data/text/subword_sampler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "data/io/error.h"
#include "data/io/utf8.h"
#include "data/text/subwords.h"

namespace tapestry {
namespace {

constexpr std::string_view space_mark = "\u2581";

using Ids = std::vector<std::int32_t>;

/// Uniform in [0, 1).
double uniform(RandomDraws& random) { return static_cast<double>(random.next() >> 11U) * 0x1p-53; }

/// A number m * 2^e with a 64-bit exponent, because probabilities of long sentences underflow in
/// double.
struct Scaled {
  double mantissa = 0.0;  ///< 0, or in [0.5, 1)
  std::int64_t exponent = 0;

  static Scaled of(double mantissa, std::int64_t exponent) {
    int shift = 0;
    const double fraction = std::frexp(mantissa, &shift);
    return fraction == 0.0 ? Scaled{} : Scaled{fraction, exponent + shift};
  }
  /// 2^x
  static Scaled power_of_two(double x) {
    const double whole = std::floor(x);
    return of(std::exp2(x - whole), static_cast<std::int64_t>(whole));
  }
};

Scaled operator*(const Scaled& a, const Scaled& b) {
  return Scaled::of(a.mantissa * b.mantissa, a.exponent + b.exponent);
}

/// a / 2^exponent, or 0 if that would underflow.
double relative_to(const Scaled& a, std::int64_t exponent) {
  const std::int64_t shift = a.exponent - exponent;
  return shift < -1000 ? 0.0 : std::ldexp(a.mantissa, static_cast<int>(shift));
}

Scaled operator+(const Scaled& a, const Scaled& b) {
  if (a.mantissa == 0.0) return b;
  if (b.mantissa == 0.0) return a;
  const std::int64_t exponent = std::max(a.exponent, b.exponent);
  return Scaled::of(relative_to(a, exponent) + relative_to(b, exponent), exponent);
}

/// A trie of the pieces of a unigram model by their bytes, with weights P^alpha.
class WeightedTrie {
 public:
  struct Entry {
    std::int32_t id;
    Scaled weight;
  };

  void add(std::string_view text, const Entry& entry) {
    std::size_t node = 0;
    for (const char c : text) node = child_or_new(node, c);
    nodes_[node].entry = static_cast<std::int32_t>(entries_.size());
    entries_.push_back(entry);
  }

  /// Calls found(entry, length) for each piece that text starts with.
  void find_prefixes(std::string_view text, auto&& found) const {
    std::size_t node = 0;
    for (std::size_t length = 1; length <= text.size(); ++length) {
      const auto next = child(node, text[length - 1]);
      if (next == 0) return;
      node = next;
      if (nodes_[node].entry >= 0)
        found(entries_[static_cast<std::size_t>(nodes_[node].entry)], length);
    }
  }

 private:
  struct Node {
    std::vector<std::pair<char, std::size_t>> children{};
    std::int32_t entry = -1;
  };

  /// The child for a byte; 0, the root, if there is no such child.
  std::size_t child(std::size_t node, char c) const {
    for (const auto& [byte, next] : nodes_[node].children) {
      if (byte == c) return next;
    }
    return 0;
  }
  std::size_t child_or_new(std::size_t node, char c) {
    if (const std::size_t known = child(node, c)) return known;
    nodes_[node].children.emplace_back(c, nodes_.size());
    nodes_.emplace_back();
    return nodes_.size() - 1;
  }

  std::vector<Node> nodes_{1};
  std::vector<Entry> entries_;
};

/// Draws a segmentation of a text by forward filtering and backward sampling.
Ids sample_lattice(std::string_view text, const WeightedTrie& trie, RandomDraws& random) {
  struct Edge {
    std::size_t begin;
    std::size_t next;  ///< edge with the same end, from 1; 0: none
    std::int32_t id;
    Scaled weight;  ///< sum over all segmentations that end with this piece
  };
  std::vector<Edge> edges(1);
  std::vector<std::size_t> last_edge(text.size() + 1, 0);
  std::vector<Scaled> forward(text.size() + 1);
  forward[0] = Scaled::of(1.0, 0);
  for (std::size_t begin = 0; begin < text.size(); ++begin) {
    if (forward[begin].mantissa == 0.0) continue;
    trie.find_prefixes(text.substr(begin),
                       [&](const WeightedTrie::Entry& entry, std::size_t length) {
                         const std::size_t end = begin + length;
                         const Scaled weight = forward[begin] * entry.weight;
                         edges.push_back({begin, last_edge[end], entry.id, weight});
                         last_edge[end] = edges.size() - 1;
                         forward[end] = forward[end] + weight;
                       });
  }
  Ids ids;
  for (std::size_t end = text.size(); end > 0;) {
    std::size_t chosen = last_edge[end];
    double remaining = uniform(random) * forward[end].mantissa;
    for (std::size_t edge = chosen; edge != 0; edge = edges[edge].next) {
      const double weight = relative_to(edges[edge].weight, forward[end].exponent);
      if (weight > 0.0) chosen = edge;
      if (remaining < weight) break;
      remaining -= weight;
    }
    ids.push_back(edges[chosen].id);
    end = edges[chosen].begin;
  }
  std::ranges::reverse(ids);
  return ids;
}

/// The pieces of a BPE model.
struct Merges {
  struct Entry {
    std::int32_t id;  ///< `none`: an intermediate piece that is not a token
    float score;
  };
  static constexpr std::int32_t none = -1;

  std::unordered_map<std::string_view, Entry> entries{};
  double dropout = 0.0;
  bool within_words = true;  ///< whether space marks are only at the start of pieces
};

/// Merges the characters of a text and appends the ids. Returns false if a part is not a token.
bool merge(std::string_view text, const Merges& merges, RandomDraws& random, Ids& ids) {
  struct Part {
    std::string_view text;
    Merges::Entry with_next;  ///< the pair of this part and the next
  };
  constexpr Merges::Entry no_pair{Merges::none, -std::numeric_limits<float>::infinity()};
  std::vector<Part> parts;
  for (std::size_t at = 0; at < text.size();) {
    parts.push_back({character_at(text, at).bytes, no_pair});
    at += parts.back().text.size();
  }
  const auto pair_at = [&](std::size_t i) {
    if (i + 1 >= parts.size()) return no_pair;
    const std::string_view joined(parts[i].text.data(),
                                  parts[i].text.size() + parts[i + 1].text.size());
    const auto found = merges.entries.find(joined);
    return found == merges.entries.end() ? no_pair : found->second;
  };
  for (std::size_t i = 0; i < parts.size(); ++i) parts[i].with_next = pair_at(i);
  while (true) {
    std::size_t best = parts.size();
    for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
      const float score = parts[i].with_next.score;
      if (score == no_pair.score) continue;
      if (merges.dropout > 0.0 && uniform(random) < merges.dropout) continue;
      if (best == parts.size() || score > parts[best].with_next.score) best = i;
    }
    if (best == parts.size()) break;
    parts[best].text = {parts[best].text.data(),
                        parts[best].text.size() + parts[best + 1].text.size()};
    parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    parts[best].with_next = pair_at(best);
    if (best > 0) parts[best - 1].with_next = pair_at(best - 1);
  }
  for (const Part& part : parts) {
    const auto found = merges.entries.find(part.text);
    if (found == merges.entries.end() || found->second.id == Merges::none) return false;
    ids.push_back(found->second.id);
  }
  return true;
}

/// The words of a text, each with the space mark before it; the whole text if pieces may contain
/// several words.
std::vector<std::string_view> split_units(std::string_view text, const Merges& merges) {
  std::vector<std::string_view> units;
  while (!text.empty()) {
    const std::size_t end = merges.within_words ? text.find(space_mark, 1) : std::string_view::npos;
    units.push_back(text.substr(0, end));
    text.remove_prefix(units.back().size());
  }
  return units;
}

}  // namespace

class SubwordSampler::Segmenter {
 public:
  Segmenter(const Vocabulary& vocabulary, const SubwordSampling& sampling)
      : model_(vocabulary.subwords()), piece_texts_(vocabulary.size()) {
    if (!model_) throw std::invalid_argument("subword sampler: found no vocabulary of subwords");
    const SentencePieceModel& parsed = model_->model();
    bpe_ = parsed.bpe;
    require_kind(sampling);
    merges_.dropout = sampling.dropout;
    const double alpha = sampling.alpha.value_or(1.0);
    std::int32_t id = first_word_id;
    for (const SentencePieceModel::Piece& piece : parsed.pieces) {
      using enum SentencePieceModel::Type;
      if (piece.type == normal) {
        piece_texts_[static_cast<std::size_t>(id)] = piece.text;
        if (!bpe_) trie_.add(piece.text, {id, weight(alpha, piece.score)});
      }
      if (bpe_ && piece.type != byte) add_merge(piece, piece.type == normal ? id : Merges::none);
      if (piece.is_token()) ++id;
    }
  }

  Ids operator()(std::span<const std::int32_t> ids, RandomDraws& random) const {
    Ids sampled;
    for (std::size_t begin = 0; begin < ids.size();) {
      std::string text;
      std::size_t end = begin;
      while (end < ids.size() && !piece_text(ids[end]).empty()) text += piece_text(ids[end++]);
      if (end == begin) {
        sampled.push_back(ids[begin++]);
        continue;
      }
      append(text, ids.subspan(begin, end - begin), random, sampled);
      begin = end;
    }
    return sampled;
  }

 private:
  static Scaled weight(double alpha, float score) {
    constexpr double extreme = 1e9;
    const double log2_weight = alpha * static_cast<double>(score) * std::numbers::log2e;
    return Scaled::power_of_two(std::clamp(log2_weight, -extreme, extreme));
  }

  void require_kind(const SubwordSampling& sampling) const {
    if (bpe_ && sampling.alpha) {
      throw DataError("data.subword_alpha: found a BPE model, expected a unigram model",
                      "remove data.subword_alpha, or set data.subword_dropout instead");
    }
    if (!bpe_ && sampling.dropout > 0.0) {
      throw DataError("data.subword_dropout: found a unigram model, expected a BPE model",
                      "remove data.subword_dropout, or set data.subword_alpha instead");
    }
  }

  void add_merge(const SentencePieceModel::Piece& piece, std::int32_t id) {
    using enum SentencePieceModel::Type;
    if (piece.type == control || piece.type == unknown) return;
    merges_.entries.try_emplace(piece.text, Merges::Entry{id, piece.score});
    if (piece.text.find(space_mark, 1) != std::string::npos) merges_.within_words = false;
  }

  /// Empty for ids that stay unchanged.
  const std::string& piece_text(std::int32_t id) const {
    return piece_texts_.at(static_cast<std::size_t>(id));
  }

  void append(std::string_view text, std::span<const std::int32_t> original, RandomDraws& random,
              Ids& sampled) const {
    if (!bpe_) {
      const Ids ids = sample_lattice(text, trie_, random);
      sampled.insert(sampled.end(), ids.begin(), ids.end());
      return;
    }
    const std::size_t before = sampled.size();
    for (const std::string_view unit : split_units(text, merges_)) {
      if (merge(unit, merges_, random, sampled)) continue;
      // A character without a piece: keep the original ids.
      sampled.resize(before);
      sampled.insert(sampled.end(), original.begin(), original.end());
      return;
    }
  }

  std::shared_ptr<const SubwordModel> model_;
  std::vector<std::string> piece_texts_;  ///< by id; empty for ids that stay unchanged
  bool bpe_ = false;
  WeightedTrie trie_;  ///< for unigram models
  Merges merges_;      ///< for BPE models
};

SubwordSampler::SubwordSampler(const Vocabulary& vocabulary, const SubwordSampling& sampling)
    : segmenter_(std::make_unique<const Segmenter>(vocabulary, sampling)) {}
SubwordSampler::~SubwordSampler() = default;
SubwordSampler::SubwordSampler(SubwordSampler&&) noexcept = default;
SubwordSampler& SubwordSampler::operator=(SubwordSampler&&) noexcept = default;

Ids SubwordSampler::operator()(std::span<const std::int32_t> ids, RandomDraws& random) const {
  return (*segmenter_)(ids, random);
}

}  // namespace tapestry
