// SPDX-License-Identifier: BSD-3-Clause
#include "data/examples.h"

#include <stdexcept>

#include "data/example_file.h"

namespace tapestry {
namespace {

std::size_t weighted_size(std::size_t stored, std::span<const WeightedExamples> parts) {
  if (parts.empty()) return stored;
  std::size_t count = 0, repeated = 0;
  for (const WeightedExamples& part : parts) {
    count += part.count;
    repeated += part.count * part.weight;
  }
  if (count == stored) return repeated;
  throw std::invalid_argument("examples: the parts do not add up to the number of examples");
}

}  // namespace

Examples::Examples(std::span<const Example> examples, std::span<const WeightedExamples> parts)
    : memory_(examples), parts_(parts), size_(weighted_size(examples.size(), parts)) {}

Examples::Examples(const ExampleFile& file, std::span<const std::uint32_t> kept,
                   std::span<const WeightedExamples> parts)
    : file_(&file),
      kept_(kept),
      parts_(parts),
      size_(weighted_size(kept.empty() ? file.size() : kept.size(), parts)) {}

std::size_t Examples::stored_index(std::size_t index) const {
  std::size_t first = 0;  // first example of the part, not counting repetitions
  for (const WeightedExamples& part : parts_) {
    const std::size_t repeated = part.count * part.weight;
    if (index < repeated) {
      index = first + index % part.count;
      break;
    }
    index -= repeated;
    first += part.count;
  }
  return kept_.empty() ? index : kept_[index];
}

ExampleLengths Examples::lengths(std::size_t index) const {
  const std::size_t stored = stored_index(index);
  return file_ != nullptr ? file_->lengths(stored) : ExampleLengths(memory_[stored]);
}

Example Examples::operator[](std::size_t index) const {
  Example example;
  return read(index, example);
}

const Example& Examples::read(std::size_t index, Example& buffer) const {
  const std::size_t stored = stored_index(index);
  if (file_ == nullptr) return memory_[stored];
  file_->read(stored, buffer);
  return buffer;
}

void Examples::for_each(const std::function<void(const Example&)>& f) const {
  if (file_ != nullptr) return file_->for_each(f);
  for (const Example& example : memory_) f(example);
}

}  // namespace tapestry
