#include "train/parallel/memory_blocks.h"

#include "autograd/dtype.h"

namespace tapestry {

std::span<std::byte> element_bytes(Tensor tensor, const ElementRange& range) {
  return dispatch(tensor.dtype(), [&]<class T>() {
    return std::as_writable_bytes(tensor.mutable_values<T>().subspan(range.begin, range.size()));
  });
}

std::vector<std::span<std::byte>> memory_blocks(std::span<const Tensor> tensors,
                                                std::span<const ElementRange> ranges) {
  constexpr std::size_t alignment = 64;
  const auto follows = [](std::span<std::byte> next, std::span<std::byte> last) {
    const std::byte* const end = last.data() + last.size();
    return next.data() >= end && next.data() < end + alignment;
  };
  std::vector<std::span<std::byte>> blocks;
  const std::byte* last_memory = nullptr;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    if (ranges[i].size() == 0 || !tensors[i].defined()) continue;
    const std::span<std::byte> values = element_bytes(tensors[i], ranges[i]);
    const std::byte* const memory = tensors[i].memory().data();
    if (memory == last_memory && follows(values, blocks.back())) {
      blocks.back() = {blocks.back().data(), values.data() + values.size()};
    } else {
      blocks.push_back(values);
    }
    last_memory = memory;
  }
  return blocks;
}

}  // namespace tapestry
