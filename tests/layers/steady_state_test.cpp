// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "autograd/kernels/memory.h"
#include "autograd/tape.h"
#include "tests/layers/transformer_cases.h"
#include "tests/support/allocations.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/source_folder.h"
#include "tests/support/threads.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// Number of page faults, blocks allocated by the pool and calls of `new` in the process so far.
struct Allocations {
  std::uint64_t page_faults, pool_blocks, calls;

  static Allocations now() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return {static_cast<std::uint64_t>(usage.ru_minflt + usage.ru_majflt),
            kernels::memory_statistics().system_allocations, calls_of_new()};
  }
  bool operator==(const Allocations&) const = default;
};

/// A model that trains on one batch, with new dropout masks in each step.
struct Training {
  Training(const TransformerOptions& options, std::size_t words, TokenBatch from, TokenBatch to)
      : model(options, DType::float32, 1, words), source(std::move(from)), target(std::move(to)) {
    model.parameters.gather();
  }

  /// Computes the loss and the gradients, then changes the parameters.
  void run_step() {
    model.parameters.zero_grad();
    {
      const Mode mode = Mode::training(RandomStream(1).named("dropout").at(++step));
      Tape tape;
      const Tensor memory = model.transformer.encode(source, mode);
      const Tensor decoded = model.transformer.decode(target, memory, source, mode);
      tape.backward(model.transformer.loss(decoded, target.ids, {.ignored_id = padding_id}).mean);
    }
    for (const NamedTensor& named : model.parameters.list()) {
      Tensor parameter = named.tensor;
      const auto gradient = parameter.grad().values<float>();
      const auto values = parameter.mutable_values<float>();
      for (std::size_t i = 0; i < values.size(); ++i) values[i] -= 0.01F * gradient[i];
    }
    model.parameters.commit_buffers();
  }

  TestTransformer model;
  TokenBatch source, target;
  std::uint64_t step = 0;
};

/// True if at least one of several steps allocates nothing. Single steps may allocate: the system
/// may reclaim pages at any time, and a thread that takes over work of another thread needs memory
/// for it.
bool stops_allocating(Training& training) {
  for (int warm_up = 0; warm_up < 3; ++warm_up) training.run_step();
  bool nothing_taken = false;
  for (int repeat = 0; repeat < 5; ++repeat) {
    const Allocations before = Allocations::now();
    training.run_step();
    nothing_taken = nothing_taken || Allocations::now() == before;
  }
  return nothing_taken;
}

TokenBatch whole_sentences(std::size_t rows, std::size_t length, std::size_t words,
                           std::uint64_t seed) {
  return {.ids = random_ids(rows, length, words, seed),
          .lengths = std::vector<std::int32_t>(rows, static_cast<std::int32_t>(length))};
}

}  // namespace

// In a guarded run, blocks do not come from the pool.
TEST_SUITE_BEGIN("steady state" * doctest::skip(is_guarded_run()));

TEST_CASE("after warm-up, a step of a model of any kind allocates no memory from the system") {
  for (TransformerOptions options : every_choice()) {
    options.dropout = 0.1;
    Training training(options, vocabulary, source, target);
    CHECK(stops_allocating(training));
  }
}

TEST_CASE("after warm-up, a step with batch norms allocates no memory from the system") {
  TransformerOptions options = small();
  options.normalization = Normalization::batch_norm;
  Training training(options, vocabulary, source, target);
  CHECK(stops_allocating(training));
}

TEST_CASE("after warm-up, a step on several threads allocates no memory from the system") {
  constexpr std::size_t words = 1000;
  TransformerOptions options = small();
  options.d_model = 128;
  options.num_heads = 4;
  options.d_ff = 512;
  options.dropout = 0.1;
  options.max_length = 24;
  for (const std::size_t threads : {1, 2}) {
    const Threads count(threads);
    Training training(options, words, whole_sentences(16, 24, words, 1),
                      whole_sentences(16, 24, words, 2));
    CHECK(stops_allocating(training));
  }
}

TEST_SUITE_END();

namespace tapestry {
namespace {

std::string read(const std::filesystem::path& path) {
  std::ifstream file(test::source_folder() / path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// The lines between the line with `begin` and the line with `end`.
std::string between(const std::string& text, const std::string& begin, const std::string& end) {
  const std::size_t from = text.find('\n', text.find(begin)) + 1;
  return text.substr(from, text.rfind('\n', text.find(end, from)) + 1 - from);
}

/// The lines of a function body without its indentation.
std::string without_indent(const std::string& body) {
  std::istringstream lines(body);
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    text += (line.starts_with("  ") ? line.substr(2) : line) + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("README.md quotes the training loop of the example literally") {
  const std::string quoted = between(read("README.md"), "```cpp\n", "```");
  const std::string example =
      between(read("tests/examples/training_loop.cpp"), "README.md quotes from here", "// to here");
  CHECK(quoted.find("Mode::training(") != std::string::npos);
  CHECK(quoted == without_indent(example));
}

}  // namespace tapestry
