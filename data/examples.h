// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <span>
#include <vector>

namespace tapestry {

class ExampleFile;  // defined in data/example_file.h

/// One training or evaluation example. The meaning of its members depends on the task:
///
///   pairs        a sentence and its translation, without `<bos>` and `<eos>`
///   text         target: a window of a text, or a sentence with `<bos>` and `<eos>`
///   labels       source: `<bos>` and a sentence; target: the id of its class in the target
///                vocabulary, first_word_id for the first class
///   tags         source: a sentence; target: the id of the class of each token
///   images       pixels; target: the id of its class
struct Example {
  std::vector<std::int32_t> source{};  ///< token ids of the input
  std::vector<std::int32_t> target{};  ///< token ids or classes to predict
  std::vector<float> pixels{};         ///< (height, width, channels), usually in [0, 1]

  friend bool operator==(const Example&, const Example&) = default;
};

/// The lengths of an example, which decide how examples are divided into batches.
struct ExampleLengths {
  std::size_t source = 0;  ///< tokens of Example::source
  std::size_t target = 0;  ///< tokens or classes of Example::target
  std::size_t pixels = 0;  ///< values of Example::pixels

  ExampleLengths() = default;
  /// The lengths of source, target and pixels.
  ExampleLengths(std::size_t of_source, std::size_t of_target, std::size_t of_pixels)
      : source(of_source), target(of_target), pixels(of_pixels) {}
  /// Not explicit, because examples are passed where their lengths are expected.
  ExampleLengths(const Example& example)
      : ExampleLengths(example.source.size(), example.target.size(), example.pixels.size()) {}
};

/// Consecutive examples of a training set, repeated `weight` times per epoch.
struct WeightedExamples {
  std::size_t count = 0;   ///< number of examples
  std::size_t weight = 1;  ///< passes per epoch, >= 1
};

/// A view of examples in memory or in a memory-mapped file. Does not own the examples, like
/// std::span; examples of a file are decoded when they are read. Can be read from several threads
/// at once.
///
/// `kept` contains the indices of the selected examples. `parts` repeats the first parts[0].count
/// selected examples parts[0].weight times, then continues with the next part. Repeated examples
/// have different indices, so each of them gets different masks and subword segmentations.
class Examples {
 public:
  /// All examples of a vector.
  Examples(const std::vector<Example>& examples) : Examples(std::span(examples)) {}
  /// The examples of an initializer list; valid until the end of the full expression.
  Examples(std::initializer_list<Example> examples)
      : Examples(std::span(examples.begin(), examples.size())) {}
  /// Examples in memory.
  explicit Examples(std::span<const Example> examples,
                    std::span<const WeightedExamples> parts = {});
  /// The examples of a file with the indices `kept`, or all if `kept` is empty.
  explicit Examples(const ExampleFile& file, std::span<const std::uint32_t> kept = {},
                    std::span<const WeightedExamples> parts = {});

  /// Number of examples.
  std::size_t size() const { return size_; }
  /// Whether there are no examples.
  bool empty() const { return size_ == 0; }

  /// Whether the examples are in memory, so that read() returns a reference without decoding.
  bool in_memory() const { return file_ == nullptr; }

  /// The lengths of the example with this index, which must be less than size().
  ExampleLengths lengths(std::size_t index) const;

  /// A copy of the example.
  Example operator[](std::size_t index) const;

  /// The example in memory, or decoded into `buffer`. Valid as long as the examples and `buffer`
  /// exist.
  const Example& read(std::size_t index, Example& buffer) const;

  /// Calls f(example) once for every stored example, in order, ignoring `kept` and `parts`.
  void for_each(const std::function<void(const Example&)>& f) const;

  /// The position in memory or in the file of the example with this index.
  std::size_t stored_index(std::size_t index) const;

 private:
  const ExampleFile* file_ = nullptr;  ///< null if the examples are in memory_
  std::span<const Example> memory_;
  std::span<const std::uint32_t> kept_;  ///< if empty: all examples
  std::span<const WeightedExamples> parts_;
  std::size_t size_ = 0;
};

/// `count` evenly spaced indices in [0, size), beginning with 0; all indices if `size` is smaller.
inline std::vector<std::size_t> evenly_spaced(std::size_t size, std::size_t count) {
  std::vector<std::size_t> indices(std::min(count, size));
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i * size / indices.size();
  return indices;
}

}  // namespace tapestry
