#include "train/inference/word_alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string_view>

#include "autograd/attention_trace.h"
#include "train/inference/batch_tensors.h"
#include "train/inference/pair_batches.h"

namespace tapestry {
namespace {

/// The most source and target tokens of a batch: the weights of all layers are in memory at once.
constexpr std::size_t batch_tokens = 2048;

std::vector<RecordedAttention> recorded(const Network& network, const Batch& batch) {
  const NetworkInput input = network_input(batch, DType::float32);
  const Mode mode = Mode::inference();
  const AttentionRecorder recorder;
  network.features(network.embed(input, mode), input, mode);
  return recorder.records();
}

/// The sum over heads of the weights of one pair, (target tokens, source tokens of the batch).
std::vector<double> summed_heads(const Tensor& weights, std::size_t row) {
  const std::size_t heads = weights.shape()[1], size = weights.shape()[2] * weights.shape()[3];
  std::vector<double> sum(size, 0.0);
  dispatch(weights.dtype(), [&]<class T>() {
    const T* const of_row = weights.values<T>().data() + row * heads * size;
    for (std::size_t h = 0; h < heads; ++h) {
      for (std::size_t i = 0; i < size; ++i) sum[i] += of_row[h * size + i];
    }
  });
  return sum;
}

}  // namespace

std::vector<std::string> cross_attention_layers(const Network& network) {
  const std::vector<Example> one{Example{}};
  std::vector<std::string> names;
  for (const RecordedAttention& record :
       recorded(network, make_batch(one, std::vector<std::size_t>{0}))) {
    if (record.path.ends_with("cross_attn")) names.push_back(record.path);
  }
  return names;
}

std::vector<std::vector<std::size_t>> align_tokens(const Network& network,
                                                   const std::vector<Example>& pairs,
                                                   const std::string& layer) {
  std::vector<std::vector<std::size_t>> alignments(pairs.size());
  for (const std::vector<std::size_t>& indices : pair_batches(pairs, batch_tokens)) {
    const auto records = recorded(network, make_batch(pairs, indices));
    const auto record = std::ranges::find(records, layer, &RecordedAttention::path);
    if (record == records.end()) {
      throw std::invalid_argument(fmt::format("align_tokens: there is no layer {}", layer));
    }
    const std::size_t width = record->weights.shape()[3];
    for (std::size_t row = 0; row < indices.size(); ++row) {
      const Example& pair = pairs[indices[row]];
      if (pair.source.empty()) continue;
      const std::vector<double> sum = summed_heads(record->weights, row);
      for (std::size_t t = 0; t < pair.target.size(); ++t) {
        const auto begin = sum.begin() + static_cast<std::ptrdiff_t>(t * width);
        const auto end = begin + static_cast<std::ptrdiff_t>(pair.source.size());
        alignments[indices[row]].push_back(
            static_cast<std::size_t>(std::max_element(begin, end) - begin));
      }
    }
  }
  return alignments;
}

std::vector<std::size_t> word_indices(const Vocabulary& vocabulary,
                                      std::span<const std::int32_t> ids) {
  constexpr std::string_view space_mark = "\u2581";
  const bool subwords = vocabulary.subwords() != nullptr;
  std::vector<std::size_t> words;
  std::size_t word = 0;
  bool only_marks = true;  // whether the word has no characters but marks so far
  for (const std::int32_t id : ids) {
    const std::string& token = vocabulary.token(id);
    const bool begins = !subwords || token.starts_with(space_mark);
    if (begins && !words.empty() && !(subwords && only_marks)) {
      ++word;
      only_marks = true;
    }
    only_marks = only_marks && token == space_mark;
    words.push_back(word);
  }
  return words;
}

std::vector<WordLink> link_words(const std::vector<std::size_t>& alignment,
                                 const std::vector<std::size_t>& source_words,
                                 const std::vector<std::size_t>& target_words) {
  std::set<WordLink> links;
  for (std::size_t t = 0; t < alignment.size(); ++t) {
    links.insert({.target = target_words.at(t), .source = source_words.at(alignment[t])});
  }
  return {links.begin(), links.end()};
}

}  // namespace tapestry
