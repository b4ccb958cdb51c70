#include "train/report/attention_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace tapestry {
namespace {

constexpr std::string_view end_token = "<eos>";

/// Where a query of a layer may attend to.
struct Query {
  const LayerAttention& layer;
  std::size_t index;    ///< of the query
  std::size_t visible;  ///< number of its keys
  bool of_decoder;      ///< whether its output follows it
  bool crosses;         ///< whether the keys are other tokens than the queries

  const std::string& key(std::size_t i) const { return layer.keys[i]; }
  std::optional<std::string_view> output() const {
    if (!of_decoder) return std::nullopt;
    if (index + 1 < layer.queries.size()) return layer.queries[index + 1];
    return crosses ? std::optional(end_token) : std::nullopt;
  }
};

struct Pattern {
  const char* name;
  bool (*has)(const Query& query, std::size_t key);
};

constexpr std::size_t last_position = 4, next_output = 6;  // indices in `patterns`

constexpr std::array<Pattern, 7> patterns = {{
    {"the same position (diagonal)", [](const Query& q, std::size_t k) { return k == q.index; }},
    {"the previous position", [](const Query& q, std::size_t k) { return k + 1 == q.index; }},
    {"the next position", [](const Query& q, std::size_t k) { return k == q.index + 1; }},
    {"the first position", [](const Query&, std::size_t k) { return k == 0; }},
    {"the last position",
     [](const Query& q, std::size_t k) { return k + 1 == q.layer.keys.size(); }},
    {"other positions of the same token",
     [](const Query& q, std::size_t k) {
       return !q.crosses && k != q.index && q.key(k) == q.layer.queries[q.index];
     }},
    {"the token of the next output (copies)",
     [](const Query& q, std::size_t k) { return q.output() == q.key(k); }},
}};

/// Sums over queries.
struct Sums {
  double share = 0.0, chance = 0.0;
  std::size_t queries = 0;
};

/// Of one head, over all examples.
struct HeadSums {
  std::array<Sums, patterns.size()> of_patterns{};
  double keys_used = 0.0;
  std::size_t queries = 0;
};

bool is_causal(const LayerAttention& layer) {
  if (layer.queries.size() < 2 || layer.queries.size() != layer.keys.size()) return false;
  for (std::size_t head = 0; head < layer.num_heads; ++head) {
    for (std::size_t i = 0; i < layer.queries.size(); ++i) {
      for (std::size_t k = i + 1; k < layer.keys.size(); ++k) {
        if (layer.weight(head, i, k) != 0.0) return false;
      }
    }
  }
  return true;
}

void add_query(const Query& query, std::size_t head, HeadSums& sums) {
  double entropy = 0.0;
  for (std::size_t k = 0; k < query.visible; ++k) {
    const double weight = query.layer.weight(head, query.index, k);
    if (weight > 0.0) entropy -= weight * std::log(weight);
  }
  sums.keys_used += std::exp(entropy);
  ++sums.queries;
  for (std::size_t p = 0; p < patterns.size(); ++p) {
    double share = 0.0;
    std::size_t keys = 0;
    for (std::size_t k = 0; k < query.visible; ++k) {
      if (!patterns[p].has(query, k)) continue;
      share += query.layer.weight(head, query.index, k);
      ++keys;
    }
    if (keys == 0) continue;
    Sums& of_pattern = sums.of_patterns[p];
    of_pattern.share += share;
    of_pattern.chance += static_cast<double>(keys) / static_cast<double>(query.visible);
    ++of_pattern.queries;
  }
}

/// Adds the queries of a layer to the sums of its heads.
void add_layer(const LayerAttention& layer, std::vector<HeadSums>& heads) {
  const bool causal = is_causal(layer);
  const bool crosses = layer.layer.ends_with("cross_attn");
  heads.resize(std::max(heads.size(), layer.num_heads));
  for (std::size_t i = causal ? 1 : 0; i < layer.queries.size(); ++i) {
    const Query query{.layer = layer,
                      .index = i,
                      .visible = causal ? i + 1 : layer.keys.size(),
                      .of_decoder = causal || crosses,
                      .crosses = crosses};
    for (std::size_t head = 0; head < layer.num_heads; ++head) {
      add_query(query, head, heads[head]);
    }
  }
}

/// The token at the last position of all examples, if it is the same.
std::optional<std::string> last_token(const std::vector<std::vector<LayerAttention>>& examples,
                                      std::size_t layer) {
  std::optional<std::string> token;
  for (const auto& layers : examples) {
    if (layers[layer].keys.empty()) return std::nullopt;
    const std::string& last = layers[layer].keys.back();
    if (token && *token != last) return std::nullopt;
    token = last;
  }
  return token;
}

HeadPattern strongest_pattern(const HeadSums& sums) {
  HeadPattern best{.pattern = "no pattern"};
  std::optional<double> copies;
  for (std::size_t p = 0; p < patterns.size(); ++p) {
    const Sums& of_pattern = sums.of_patterns[p];
    if (of_pattern.queries == 0 || 2 * of_pattern.queries < sums.queries) continue;
    const auto queries = static_cast<double>(of_pattern.queries);
    const double share = of_pattern.share / queries, chance = of_pattern.chance / queries;
    if (p == next_output) copies = share;
    if (share - chance <= best.share - best.chance) continue;
    best = {.pattern = patterns[p].name, .share = share, .chance = chance};
  }
  best.copies = copies;
  if (sums.queries > 0) best.keys_used = sums.keys_used / static_cast<double>(sums.queries);
  return best;
}

}  // namespace

std::vector<HeadPattern> head_patterns(const std::vector<std::vector<LayerAttention>>& examples) {
  std::vector<HeadPattern> found;
  if (examples.empty()) return found;
  for (std::size_t l = 0; l < examples.front().size(); ++l) {
    std::vector<HeadSums> heads;
    for (const auto& layers : examples) add_layer(layers[l], heads);
    const auto token = last_token(examples, l);
    for (std::size_t head = 0; head < heads.size(); ++head) {
      HeadPattern pattern = strongest_pattern(heads[head]);
      pattern.layer = examples.front()[l].layer;
      pattern.head = head;
      if (token && pattern.pattern == patterns[last_position].name) pattern.pattern = *token;
      found.push_back(std::move(pattern));
    }
  }
  std::ranges::stable_sort(found, std::greater(),
                           [](const HeadPattern& head) { return head.share - head.chance; });
  return found;
}

std::string layer_name(const std::string& layer) {
  // [STACK.]layers.INDEX.ATTENTION
  constexpr std::string_view mark = "layers.";
  const std::size_t at = layer.find(mark);
  const std::string_view rest =
      at == layer.npos ? "" : std::string_view(layer).substr(at + mark.size());
  std::size_t index = 0;
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), index);
  const std::string_view attention = rest.substr(static_cast<std::size_t>(stop - rest.data()));
  const bool self = attention == ".self_attn", cross = attention == ".cross_attn";
  const bool begins = at == 0 || (at != layer.npos && layer[at - 1] == '.');
  if (!begins || error != std::errc() || !(self || cross)) return layer;
  const std::string stack = at == 0 ? "" : layer.substr(0, at - 1) + " ";
  return fmt::format("{}layer {}, {}-attention", stack, index + 1, self ? "self" : "cross");
}

}  // namespace tapestry
