// SPDX-License-Identifier: BSD-3-Clause
#include "train/loop/memory_need.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/kernels/memory.h"
#include "optim/optimizer.h"
#include "tests/support/contains.h"
#include "tests/support/pool_use.h"
#include "tests/support/threads.h"
#include "tests/train/error_text.h"
#include "tests/train/tiny_run.h"
#include "train/base/error.h"
#include "train/tasks/task.h"
#include "train/tasks/task_data.h"

namespace tapestry {
namespace {

using test::contains;
using test::tiny_config;

/// A config large enough that no single tensor dominates the memory.
Config middling_config() {
  Config config = tiny_config();
  config.data.symbols.max_length = 12;
  config.data.generated.train_size = 300;
  config.model.max_length = 16;
  config.model.d_model = 64;
  config.model.d_ff = 256;
  config.train.batch_size = 64;
  return config;
}

Model model_of(const Config& config, const Corpus& corpus) {
  return {network_maker(config, network_sizes(config, corpus)), config.train.dtype,
          config.train.seed};
}

TEST_CASE(
    "the parameter count equals the number of parameters of the created model, for every option") {
  using enum TiedEmbeddings;
  for (const auto norm : {NormPlacement::pre, NormPlacement::post}) {
    for (const auto positions : {PositionKind::sinusoidal, PositionKind::learned}) {
      for (const auto tied : {none, target, all}) {
        const TransformerOptions options{.d_model = 12,
                                         .num_heads = 3,
                                         .num_encoder_layers = 3,
                                         .num_decoder_layers = 2,
                                         .d_ff = 20,
                                         .norm = norm,
                                         .positions = positions,
                                         .max_length = 17,
                                         .tie_embeddings = tied};
        const NetworkSizes sizes{.source = tied == all ? 41U : 37U, .target = 41};
        CAPTURE(static_cast<int>(tied));
        Config config;
        config.model = options;
        const Model model(network_maker(config, sizes), DType::float32, 1);
        CHECK(count_values(network_maker(config, sizes)) ==
              ValueCount{model.parameters.num_values(), model.parameters.num_constants()});
      }
    }
  }
}

TEST_CASE(
    "the estimated memory of model and optimizer equals their allocations, for each optimizer") {
  Config config = middling_config();
  const Corpus corpus = load_corpus(config.data);
  for (const auto& [kind, momentum] :
       {std::pair(OptimizerKind::adam, 0.0), std::pair(OptimizerKind::adamw, 0.0),
        std::pair(OptimizerKind::sgd, 0.9)}) {
    config.optimizer.kind = kind;
    config.optimizer.momentum = momentum;
    const test::PoolUse use;
    const Model model = model_of(config, corpus);
    const auto optimizer = make_optimizer(config.optimizer, model.parameters.list());
    const auto taken = static_cast<double>(use.peak());
    const auto need = static_cast<double>(need_of_model(config, corpus).state);
    CHECK(taken > 0.8 * need);
    CHECK(taken < 1.25 * need);
  }
}

TEST_CASE("memory of state, validation and saving follows from shapes, vocabulary and data") {
  Config config = tiny_config();
  config.data.task = "toy_translation";
  config.model.max_length = 20;
  Corpus corpus = load_corpus(config.data);
  for (Example& pair : corpus.validation) pair.target.resize(7, first_word_id);
  corpus.validation[2].target.resize(9, first_word_id);  // 10 tokens with <eos>
  const NetworkSizes sizes = network_sizes(config, corpus);
  REQUIRE(sizes.source != sizes.target);
  const ValueCount values = count_values(network_maker(config, sizes));
  REQUIRE(values.constants > 0);
  const std::uint64_t parameters = 4 * values.parameters, constants = 4 * values.constants;
  for (const auto& [batches, sums] :
       {std::pair(1, 0), std::pair(2, 1), std::pair(3, 1), std::pair(8, 3)}) {
    config.train.accumulate = static_cast<std::size_t>(batches);
    CHECK(need_of_model(config, corpus).state ==
          (4 + static_cast<std::uint64_t>(sums)) * parameters + constants);
  }
  // The pending sums of a process, and its shards of the sums of the other processes.
  for (const auto& [processes, waiting] : {std::pair(2, 2), std::pair(4, 1), std::pair(8, 0)}) {
    const auto p = static_cast<std::uint64_t>(processes);
    const std::uint64_t sums =
        static_cast<std::uint64_t>(waiting) * parameters + (p - 1) * (parameters / p);
    CHECK(need_of_model(config, corpus, p).state ==
          std::max(2 * parameters + 2 * parameters / p + sums, 3 * parameters) + constants);
  }
  // Rank 0 has the first of 3 micro-batches; rank 1 has the other two, which are two nodes of the
  // tree of sums.
  config.train.accumulate = 3;
  CHECK(need_of_model(config, corpus, 2).state ==
        2 * parameters + parameters + parameters + 2 * (parameters / 2) + constants);
  CHECK(need_of_model(config, corpus, 2).saving == 3 * parameters + 3 * parameters / 8);
  CHECK(need_of_model(config, corpus).validation == 4 * 4 * 10 * sizes.target);
  config.train.batch_size = 100;  // more than the 6 pairs
  CHECK(need_of_model(config, corpus).validation == 4 * 6 * 10 * sizes.target);
  config.optimizer.kind = OptimizerKind::sgd;
  config.train.accumulate = 1;
  config.train.dtype = DType::float64;
  const MemoryNeed need = need_of_model(config, corpus);
  CHECK(need.state == 6 * parameters + 2 * constants);
  CHECK(need.saving == 2 * parameters + 2 * parameters / 8);
  CHECK(need.validation == 8 * 6 * 10 * sizes.target);
}

TEST_CASE("a validation needs memory for the longest training example that it scores") {
  Config config = tiny_config();
  Corpus corpus = load_corpus(config.data);
  for (Example& pair : corpus.validation) pair.target.resize(2, first_word_id);
  std::vector<Example> training(60, {{first_word_id}, {first_word_id}});
  training[1].target.resize(99, first_word_id);  // not in the sample of 6 evenly spaced examples
  training[50].target.resize(10, first_word_id);
  corpus.train = std::move(training);
  const std::uint64_t vocabulary = network_sizes(config, corpus).target;
  CHECK(need_of_model(config, corpus).validation == 4 * (4 * 3) * vocabulary);
  config.train.batch_size = 2;
  CHECK(need_of_model(config, corpus).validation == 4 * 11 * vocabulary);
}

TEST_CASE(
    "averaging checkpoints needs memory for the sums, and for one checkpoint's file and arrays") {
  Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  const std::uint64_t parameters =
      count_values(network_maker(config, network_sizes(config, corpus))).parameters;
  CHECK(need_of_model(config, corpus).average == 0);
  config.train.average_last = 5;
  MemoryNeed need = need_of_model(config, corpus);
  // The file and the arrays need 2 * (3 * 4) bytes with adam, the sums and averages 8 + 4 bytes.
  CHECK(need.average == 36 * parameters);
  CHECK(need_of_model(config, corpus, 2).average == need.average);
  config.train.ema_decay = 0.9;
  CHECK(need_of_model(config, corpus).average == 44 * parameters);
  config.train.ema_decay = 0.0;
  config.train.dtype = DType::float64;
  CHECK(need_of_model(config, corpus).average == 64 * parameters);

  // Checkpoints are averaged after the last save.
  need = {.state = 1, .step = 20, .validation = 10, .saving = 300, .average = 4000, .other = 50000};
  CHECK(need.per_process() == 50021);
  CHECK(need.for_checkpoints() == 4000);
  CHECK(need.total() == 54021);
  need.average = 0;
  CHECK(need.total() == 50321);
}

TEST_CASE("the largest batch has the longest source, the longest target and the most tokens") {
  std::vector<Example> pairs(6);
  const std::size_t sources[] = {1, 9, 2, 3, 4, 5}, targets[] = {7, 1, 1, 5, 5, 5};
  for (std::size_t i = 0; i < 6; ++i) {
    pairs[i].source.assign(sources[i], first_word_id);
    pairs[i].target.assign(targets[i], first_word_id);
  }
  const Batch four = largest_batch(pairs, 4);
  CHECK(four.rows == 4);
  CHECK(four.source_length == 10);
  CHECK(four.target_length == 8);
  CHECK(four.examples == std::vector<std::size_t>{1, 0, 5, 4});
  CHECK(largest_batch(pairs, 1).examples == std::vector<std::size_t>{1});
  CHECK(largest_batch(pairs, 100).rows == 6);
}

TEST_CASE("the largest batches of tokens have the most positions or the most pairs of positions") {
  Config config = tiny_config();
  config.train.batch_tokens = 24;
  config.model.max_length = 20;
  Corpus corpus = load_corpus(config.data);
  const auto pairs = [](std::size_t count, std::size_t source, std::size_t target) {
    return std::vector<Example>(count, Example{std::vector<std::int32_t>(source, first_word_id),
                                               std::vector<std::int32_t>(target, first_word_id)});
  };
  // The longest source or target, with <eos>, has 13 tokens in one pair, 6 tokens in four pairs and
  // 5 tokens in three pairs.
  corpus.train = pairs(1, 3, 12);
  for (const Example& pair : pairs(4, 5, 2)) corpus.train.push_back(pair);
  for (const Example& pair : pairs(3, 1, 4)) corpus.train.push_back(pair);
  const std::vector<Batch> largest = largest_batches(corpus, config);
  REQUIRE(largest.size() == 2);
  CHECK(largest[0].rows == 1);
  CHECK(largest[0].source_length == 4);
  CHECK(largest[0].target_length == 13);
  CHECK(largest[1].rows == 4);
  CHECK(largest[1].source_length == 6);
  CHECK(largest[1].target_length == 5);  // a shorter pair may be in this batch in another epoch
  config.train.batch_tokens = 200;
  CHECK(largest_batches(corpus, config).size() == 1);
  CHECK(largest_batches(corpus, config)[0].rows == 8);
  config.train.batch_tokens = 0;
  CHECK(largest_batches(corpus, config)[0].examples ==
        largest_batch(corpus.train, config.train.batch_size).examples);
}

TEST_CASE("the memory of the largest step is estimated within 25 %, and rarely too low") {
  Config config = middling_config();
  SUBCASE("batches of tokens") { config.train.batch_tokens = 700; }
  SUBCASE("batches of examples, with dropout") {}
  SUBCASE("batches of examples, without dropout") { config.model.dropout = 0.0; }
  const Corpus corpus = load_corpus(config.data);
  const Model model = model_of(config, corpus);
  const test::PoolUse exact_blocks;
  const auto estimate = static_cast<double>(estimate_step(model, corpus, config));
  double measured = 0.0, of_epochs = 0.0;
  for (const Batch& batch : largest_batches(corpus, config)) {
    measured = std::max(measured, static_cast<double>(warm_up(model, batch, config)));
  }
  BatchSchedule schedule = make_batch_schedule(corpus, config);
  for (const std::uint64_t epoch : {0, 1, 2}) {
    for (const BatchIndices& indices : schedule.epoch(epoch)) {
      const Batch batch = make_batch(corpus.train, indices);
      of_epochs = std::max(of_epochs, static_cast<double>(warm_up(model, batch, config)));
    }
  }
  CHECK(estimate > 0.8 * measured);
  CHECK(estimate < 1.25 * measured);
  CHECK(of_epochs <= 1.1 * measured);
  if (config.train.batch_tokens > 0) CHECK(of_epochs > 0.8 * measured);
}

TEST_CASE(
    "the memory of a step includes its micro-batches and the micro-batches of the next step") {
  Config config = middling_config();
  const Corpus corpus = load_corpus(config.data);
  const Model model = model_of(config, corpus);
  const std::uint64_t one = estimate_step(model, corpus, config);
  config.train.accumulate = 1000;
  const std::uint64_t thousand = estimate_step(model, corpus, config);
  const Batch batch = largest_batches(corpus, config).front();
  const std::uint64_t least =
      sizeof(std::int32_t) * (batch.source.size() + batch.input.size() + batch.labels.size());
  CHECK(thousand > one + 2 * 999 * least);
  CHECK(thousand < one + 2 * 1000 * (2 * least + 1000));
}

TEST_CASE("memory can be estimated for a corpus that is smaller than a batch") {
  Config config = tiny_config();
  config.data.generated.train_size = 1;
  const Corpus corpus = load_corpus(config.data);
  CHECK(estimate_step(model_of(config, corpus), corpus, config) > 0);
}

TEST_CASE("warming up does not change the results of a run, bit for bit") {
  const auto checkpoint_of = [](bool warm) {
    test::TinyRun run;
    const Config config = tiny_config();
    const Corpus corpus = load_corpus(config.data);
    Trainer trainer(config, corpus, run.directory(), run.progress());
    if (warm) {
      estimate_step(trainer.model(), corpus, config);
      warm_up(trainer.model(), largest_batch(corpus.train, config.train.batch_size), config);
      for (const NamedTensor& parameter : trainer.model().parameters) {
        CHECK_FALSE(parameter.tensor.grad().defined());
      }
    }
    trainer.run();
    return run.checkpoint_bytes(test::tiny_steps);
  };
  CHECK(checkpoint_of(true) == checkpoint_of(false));
}

TEST_CASE("after warming up, the largest step allocates no memory from the system") {
  const test::Threads one(1);  // with more threads, the scratch memory of each thread varies
  const Config config = middling_config();
  const Corpus corpus = load_corpus(config.data);
  const Model model = model_of(config, corpus);
  const Batch largest = largest_batch(corpus.train, config.train.batch_size);
  kernels::release_unused_memory();
  warm_up(model, largest, config);
  const auto warm = kernels::memory_statistics();
  warm_up(model, largest, config);
  CHECK(kernels::memory_statistics().system_allocations == warm.system_allocations);
}

TEST_CASE("a model that exceeds the memory is rejected with a hint before it is created") {
  Config config = tiny_config();
  const Corpus corpus = load_corpus(config.data);
  const auto rejection = [&](const AvailableMemory& available) {
    return test::error_text<MemoryError>(
        [&] { require_memory_for_model(config, corpus, available); });
  };
  const std::uint64_t need = need_of_model(config, corpus).state;
  CHECK(rejection({.free = 1, .total = need}) == "nothing was thrown");
  CHECK(contains(rejection({.free = 1, .total = need - 1, .bound = "ulimit -v"}),
                 ", found 0.1 MB (ulimit -v)\nhint: try a smaller model: model.d_model, "));
  config.model.d_model = 65536;
  config.model.num_encoder_layers = 300;
  config.train.accumulate = 1;
  CHECK(
      rejection({.free = 1, .total = 32'000'000'000})
          .starts_with("memory: 5,189,762,950,569 parameters need 83036.2 GB with their gradients "
                       "and the optimizer's moments, found 32.0 GB in this machine\n"));
}

TEST_CASE("a step that exceeds the total memory is rejected before it is computed") {
  const Config config = test::tiny_config();
  const MemoryNeed need{.state = 600, .step = 400, .validation = 5000};
  const auto rejection = [&](const AvailableMemory& available) {
    return test::error_text<MemoryError>([&] { require_memory_for_step(need, available, config); });
  };
  CHECK(rejection({.free = 1, .total = 1000}) == "nothing was thrown");
  const std::string rejected =
      rejection({.free = 1, .total = 999, .bound = "the control group's limit"});
  for (const char* words : {"memory: ", "the largest step", "(the control group's limit)"}) {
    CHECK_MESSAGE(contains(rejected, words), rejected);
  }
}

TEST_CASE("the hint names the batch if validation needs the most memory, and otherwise the model") {
  const auto hint = [](std::uint64_t validation) {
    const std::string warning =
        warning_about_memory({.state = 30, .step = 1, .validation = validation, .saving = 20},
                             {.free = 0})
            .value_or("none");
    return warning.substr(warning.find("; ") + 2, 21);
  };
  CHECK(hint(51) == "try a smaller train.b");
  CHECK(hint(50) == "try a smaller model: ");
}

TEST_CASE("the memory line names each part, and the warning names what to reduce") {
  MemoryNeed need{.state = 900'000'000,
                  .step = 300'000'000,
                  .validation = 400'000'000,
                  .saving = 200'000'000,
                  .other = 100'000'000};
  const auto line = [&] { return to_line(need, "64 x 23 tokens", {.free = 21'300'000'000}); };
  for (const char* part :
       {"memory: about 1.6 GB", "model and optimizer 900 MB", "step of 64 x 23 tokens 300 MB",
        "validation 400 MB", "saving 200 MB, ", "other 100 MB", "21.3 GB free"}) {
    CAPTURE(part);
    CHECK(contains(line(), part));
  }
  need.average = 150'000'000;
  CHECK(contains(line(), "memory: about 1.6 GB"));
  CHECK(contains(line(), "saving 200 MB or averaging the last checkpoints 150 MB, "));
  need.average = 0;

  const auto warning = [&](const AvailableMemory& available, const Config& config = {}) {
    return warning_about_memory(need, available, config).value_or("none");
  };
  CHECK(warning({.free = 1'600'000'000}) == "none");
  CHECK(contains(warning({.free = 1'599'999'999, .bound = "ulimit -v"}), "free (ulimit -v); try"));
  CHECK(contains(warning({.free = 1}), "try a smaller model: model.d_model"));
  need.step = 2'000'000'000;
  CHECK(contains(warning({.free = 1}), "try a smaller train.batch_size"));
  Config config;
  config.train.batch_tokens = 4096;
  CHECK(contains(warning({.free = 1}, config), "try a smaller train.batch_tokens"));
}

TEST_CASE("the hint to use a smaller vocabulary names the key that sets its size") {
  const auto end_of_hint = [](SubwordKind kind) {
    Config config;
    config.data.words.subwords.kind = kind;
    const std::string warning =
        warning_about_memory({.state = 30}, {.free = 0}, config).value_or("none");
    return warning.substr(warning.rfind(" or "));
  };
  CHECK(end_of_hint(SubwordKind::none) == " or data.max_vocabulary");
  CHECK(end_of_hint(SubwordKind::unigram) == " or data.vocabulary_size");
  CHECK(end_of_hint(SubwordKind::bpe) == " or data.vocabulary_size");
  CHECK(end_of_hint(SubwordKind::file) == " or another data.subword_file");
}

}  // namespace
}  // namespace tapestry
