// SPDX-License-Identifier: BSD-3-Clause
#include "data/text/subword_sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <optional>
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

/// A uniform random number in [0, 1).
double uniform(RandomDraws& random) { return static_cast<double>(random.next() >> 11U) * 0x1p-53; }

/// A number m * 2^e with a 64-bit exponent, because probabilities of long sentences underflow in
/// double.
struct Scaled {
  double mantissa = 0.0;  ///< 0, or a number in [0.5, 1)
  std::int64_t exponent = 0;

  static Scaled of(double mantissa, std::int64_t exponent) {
    int shift = 0;
    const double fraction = std::frexp(mantissa, &shift);
    return fraction == 0.0 ? Scaled{} : Scaled{fraction, exponent + shift};
  }
  /// Returns 2^x.
  static Scaled power_of_two(double x) {
    const double whole = std::floor(x);
    return of(std::exp2(x - whole), static_cast<std::int64_t>(whole));
  }
};

Scaled operator*(const Scaled& a, const Scaled& b) {
  return Scaled::of(a.mantissa * b.mantissa, a.exponent + b.exponent);
}

/// Returns a / 2^exponent, or 0 if the result would underflow.
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

/// A byte trie of the pieces of a unigram model. The weight of a piece is P^alpha, where P is its
/// probability.
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

  /// The child for a byte, or 0 (the root) if there is no such child.
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

/// The lattice of all segmentations of a text into pieces of a unigram model. An edge is a piece
/// between two positions, in bytes.
class Lattice {
 public:
  /// Forward filtering: sums the weights of all segmentations of each prefix of the text.
  Lattice(std::string_view text, const WeightedTrie& trie)
      : last_edge_(text.size() + 1, 0), forward_(text.size() + 1) {
    forward_[0] = Scaled::of(1.0, 0);
    for (std::size_t begin = 0; begin < text.size(); ++begin) {
      if (forward_[begin].mantissa == 0.0) continue;
      trie.find_prefixes(text.substr(begin),
                         [&](const WeightedTrie::Entry& piece, std::size_t length) {
                           add_edge(begin, begin + length, piece);
                         });
    }
  }

  /// Backward sampling: draws the pieces of a segmentation from the last to the first.
  Ids sample(RandomDraws& random) const {
    Ids ids;
    for (std::size_t end = forward_.size() - 1; end > 0;) {
      const Edge& edge = draw_edge(end, random);
      ids.push_back(edge.id);
      end = edge.begin;
    }
    std::ranges::reverse(ids);
    return ids;
  }

 private:
  struct Edge {
    std::size_t begin;
    std::size_t next;  ///< index of the next edge with the same end; 0 for the last edge
    std::int32_t id;
    Scaled weight;  ///< sum over all segmentations that end with this piece
  };

  void add_edge(std::size_t begin, std::size_t end, const WeightedTrie::Entry& piece) {
    const Scaled weight = forward_[begin] * piece.weight;
    edges_.push_back({begin, last_edge_[end], piece.id, weight});
    last_edge_[end] = edges_.size() - 1;
    forward_[end] = forward_[end] + weight;
  }

  /// Draws one of the edges that end at `end`, with probabilities proportional to their weights.
  const Edge& draw_edge(std::size_t end, RandomDraws& random) const {
    std::size_t chosen = last_edge_[end];
    double remaining = uniform(random) * forward_[end].mantissa;
    for (std::size_t edge = chosen; edge != 0; edge = edges_[edge].next) {
      const double weight = relative_to(edges_[edge].weight, forward_[end].exponent);
      if (weight > 0.0) chosen = edge;
      if (remaining < weight) break;
      remaining -= weight;
    }
    return edges_[chosen];
  }

  std::vector<Edge> edges_ = std::vector<Edge>(1);  ///< index 0 ends a list
  std::vector<std::size_t> last_edge_;              ///< by end position: the first edge of its list
  std::vector<Scaled> forward_;                     ///< by end position: total weight of the edges
};

/// The pieces of a BPE model.
struct Merges {
  struct Entry {
    std::int32_t id;  ///< `none` for an intermediate piece that is not a token
    float score;
  };
  static constexpr std::int32_t none = -1;

  std::unordered_map<std::string_view, Entry> entries{};
  double dropout = 0.0;
  bool within_words = true;  ///< whether space marks are only at the start of pieces
};

/// The parts of a text. A BPE model merges adjacent parts.
class MergedParts {
 public:
  /// Divides the text into characters.
  MergedParts(std::string_view text, const Merges& merges) : merges_(merges) {
    for (std::size_t at = 0; at < text.size();) {
      parts_.push_back({character_at(text, at).bytes, no_pair});
      at += parts_.back().text.size();
    }
    for (std::size_t i = 0; i < parts_.size(); ++i) parts_[i].with_next = find_pair(i);
  }

  /// Merges the pair with the highest score until no pair is left.
  void merge_all(RandomDraws& random) {
    while (const auto best = draw_best_pair(random)) merge_pair(*best);
  }

  /// Appends the ids of the parts. Returns false if a part is not a token.
  bool append_ids(Ids& ids) const {
    for (const Part& part : parts_) {
      const auto found = merges_.entries.find(part.text);
      if (found == merges_.entries.end() || found->second.id == Merges::none) return false;
      ids.push_back(found->second.id);
    }
    return true;
  }

 private:
  struct Part {
    std::string_view text;
    Merges::Entry with_next;  ///< the pair of this part and the next part
  };
  static constexpr Merges::Entry no_pair{Merges::none, -std::numeric_limits<float>::infinity()};

  /// The texts of parts i and i + 1.
  std::string_view joined(std::size_t i) const {
    return {parts_[i].text.data(), parts_[i].text.size() + parts_[i + 1].text.size()};
  }

  Merges::Entry find_pair(std::size_t i) const {
    if (i + 1 >= parts_.size()) return no_pair;
    const auto found = merges_.entries.find(joined(i));
    return found == merges_.entries.end() ? no_pair : found->second;
  }

  /// Drops pairs at random and returns the first part of the remaining pair with the highest score;
  /// nullopt if no pair is left.
  std::optional<std::size_t> draw_best_pair(RandomDraws& random) const {
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i + 1 < parts_.size(); ++i) {
      const float score = parts_[i].with_next.score;
      if (score == no_pair.score) continue;
      if (merges_.dropout > 0.0 && uniform(random) < merges_.dropout) continue;
      if (!best || score > parts_[*best].with_next.score) best = i;
    }
    return best;
  }

  void merge_pair(std::size_t i) {
    parts_[i].text = joined(i);
    parts_.erase(parts_.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    parts_[i].with_next = find_pair(i);
    if (i > 0) parts_[i - 1].with_next = find_pair(i - 1);
  }

  const Merges& merges_;
  std::vector<Part> parts_;
};

/// The words of a text, each with its preceding space mark; the whole text if pieces may contain
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
      const bool is_text = piece.type == SentencePieceModel::Type::normal;
      if (is_text) piece_texts_[static_cast<std::size_t>(id)] = piece.text;
      if (bpe_) {
        add_merge(piece, is_text ? id : Merges::none);
      } else if (is_text) {
        trie_.add(piece.text, {id, weight(alpha, piece.score)});
      }
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
      const Ids drawn = segment(text, ids.subspan(begin, end - begin), random);
      sampled.insert(sampled.end(), drawn.begin(), drawn.end());
      begin = end;
    }
    return sampled;
  }

 private:
  /// P^alpha for a score log P.
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
    if (piece.type == control || piece.type == unknown || piece.type == byte) return;
    merges_.entries.try_emplace(piece.text, Merges::Entry{id, piece.score});
    if (piece.text.find(space_mark, 1) != std::string::npos) merges_.within_words = false;
  }

  /// The text of a piece; empty for ids that stay unchanged.
  const std::string& piece_text(std::int32_t id) const {
    return piece_texts_.at(static_cast<std::size_t>(id));
  }

  /// A segmentation of the text; `original` if a character has no piece.
  Ids segment(std::string_view text, std::span<const std::int32_t> original,
              RandomDraws& random) const {
    if (!bpe_) return Lattice(text, trie_).sample(random);
    Ids ids;
    for (const std::string_view unit : split_units(text, merges_)) {
      MergedParts parts(unit, merges_);
      parts.merge_all(random);
      if (!parts.append_ids(ids)) return {original.begin(), original.end()};
    }
    return ids;
  }

  std::shared_ptr<const SubwordModel> model_;
  std::vector<std::string> piece_texts_;  ///< by id; empty for ids that stay unchanged
  bool bpe_ = false;
  WeightedTrie trie_;  ///< for unigram models
  Merges merges_;      ///< for BPE models
};

SubwordSampler::SubwordSampler(const Vocabulary& vocabulary, const SubwordSampling& sampling)
    : segmenter_(std::make_shared<const Segmenter>(vocabulary, sampling)) {}

Ids SubwordSampler::operator()(std::span<const std::int32_t> ids, RandomDraws& random) const {
  return (*segmenter_)(ids, random);
}

}  // namespace tapestry
