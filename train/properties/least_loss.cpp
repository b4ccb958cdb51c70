#include "train/properties/least_loss.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace tapestry {
namespace {

template <class T>
void append(std::string& bytes, const std::vector<T>& values, std::size_t begin, std::size_t end) {
  bytes.append(reinterpret_cast<const char*>(values.data() + begin), (end - begin) * sizeof(T));
}

/// What a label is told from, as bytes.
std::string read_for(const Batch& batch, std::size_t row, std::size_t position, bool causal) {
  std::string bytes;
  const std::size_t source = row * batch.source_length, target = row * batch.target_length;
  const std::size_t pixels = batch.pixels.size() / batch.rows;
  append(bytes, batch.source, source, source + batch.source_length);
  append(bytes, batch.pixels, row * pixels, (row + 1) * pixels);
  append(bytes, batch.decoder_input, target,
         target + (causal ? position + 1 : batch.target_length));
  return causal ? bytes : bytes + std::to_string(position);
}

}  // namespace

double least_loss(const Batch& batch, bool causal) {
  std::map<std::string, std::map<std::int32_t, std::size_t>> labels_after;
  for (std::size_t row = 0; row < batch.rows; ++row) {
    for (std::size_t i = 0; i < batch.target_length; ++i) {
      const std::int32_t label = batch.labels[row * batch.target_length + i];
      if (label != no_label) ++labels_after[read_for(batch, row, i, causal)][label];
    }
  }
  double nll = 0.0;
  for (const auto& [read, labels] : labels_after) {
    double all = 0.0;
    for (const auto& [label, count] : labels) all += static_cast<double>(count);
    for (const auto& [label, count] : labels) {
      nll += static_cast<double>(count) * std::log(all / static_cast<double>(count));
    }
  }
  return nll / static_cast<double>(std::max<std::size_t>(batch.target_tokens, 1));
}

}  // namespace tapestry
