// Times one whole training step of a named model: forward, loss with label smoothing, backward,
// clipping, Adam, with dropout 0.1, on random ids.
//
//   bench_step NAME [--threads N] [--steps N]

#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "autograd/kernels/gemm.h"
#include "autograd/kernels/memory.h"
#include "autograd/kernels/parallel.h"
#include "autograd/ops/cross_entropy.h"
#include "autograd/tape.h"
#include "data/vocabulary.h"
#include "layers/token_batch.h"
#include "optim/clip.h"
#include "optim/make_optimizer.h"
#include "train/seq2seq_model.h"

namespace {

using namespace tapestry;
using Clock = std::chrono::steady_clock;

struct Problem {
  std::size_t vocabulary, d_model, num_heads, d_ff, num_layers;  // layers of each stack
  std::size_t batch, length;                                     // of source and target alike
};

const std::map<std::string, Problem> problems = {
    {"toy", {16, 64, 4, 256, 2, 64, 16}},
    {"tiny", {8000, 128, 4, 256, 4, 128, 20}},
    {"small", {8000, 256, 4, 1024, 3, 64, 24}},
    {"base", {8000, 512, 8, 2048, 6, 32, 32}},
};

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// The 10th percentile: what the program takes when the machine lets it.
double low_percentile(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 10];
}

TokenBatch random_tokens(const Problem& p, std::uint64_t seed) {
  TokenBatch tokens{.ids = Ids::from_shape({p.batch, p.length}),
                    .lengths = std::vector<std::int32_t>(p.batch,
                                                         static_cast<std::int32_t>(p.length))};
  const RandomStream random = RandomStream(seed).named("bench");
  const auto words = static_cast<double>(p.vocabulary - first_word_id);
  std::uint64_t counter = 0;
  for (std::int32_t& id : tokens.ids) {
    id = first_word_id + static_cast<std::int32_t>(words * random.uniform(counter++));
  }
  return tokens;
}

/// Floating point operations of the matrix products of a step: forward, and twice that backward.
double flops_per_step(const Problem& p) {
  const auto d = static_cast<double>(p.d_model);
  const auto n = static_cast<double>(p.length);
  const double feed_forward = 2.0 * d * static_cast<double>(p.d_ff);
  const double attention = 4.0 * d * d + 2.0 * n * d;  // projections, scores and weighted values
  const double layers = static_cast<double>(p.num_layers);
  const double per_token = layers * (attention + feed_forward) +
                           layers * (2.0 * attention + feed_forward) +
                           d * static_cast<double>(p.vocabulary);
  return 3.0 * 2.0 * per_token * static_cast<double>(p.batch) * n;
}

/// What a large single-precision product reaches on the same threads, in FLOP/s.
double gemm_peak() {
  constexpr std::size_t n = 1024;
  const Tensor a = Tensor::full({n, n}, 0.5, DType::float32);
  Tensor c = Tensor::full({n, n}, 0.0, DType::float32);
  std::vector<double> times;
  for (int i = 0; i < 40; ++i) {
    const Clock::time_point start = Clock::now();
    const float* x = a.values<float>().data();
    kernels::gemm<float>(n, n, n, 1.0F, {x, n}, {x, n}, {c.mutable_values<float>().data()}, n);
    times.push_back(seconds_since(start));
  }
  return 2.0 * n * n * n / low_percentile(times);
}

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt + usage.ru_majflt;
}

long peak_kilobytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

class Step {
 public:
  explicit Step(const Problem& p)
      : model_(options(p), {p.vocabulary, p.vocabulary}, DType::float32, 1),
        optimizer_(make_optimizer({}, model_.parameters.list())),
        source_(random_tokens(p, 1)),
        target_(random_tokens(p, 2)),
        labels_(random_tokens(p, 3).ids) {}

  void run(std::uint64_t step) {
    model_.parameters.clear_gradients();
    Tape tape;
    const Tensor logits =
        model_.transformer(source_, target_, RandomStream(1).named("dropout").at(step));
    tape.backward(
        cross_entropy(logits, labels_, {.ignored_id = pad_id, .label_smoothing = 0.1}));
    const double norm = global_gradient_norm(model_.parameters.list());
    optimizer_->step(1e-4, clip_factor(norm, 1.0));
  }

 private:
  static TransformerOptions options(const Problem& p) {
    return {.d_model = p.d_model,
            .num_heads = p.num_heads,
            .num_encoder_layers = p.num_layers,
            .num_decoder_layers = p.num_layers,
            .d_ff = p.d_ff,
            .dropout = 0.1};
  }

  Seq2SeqModel model_;
  std::unique_ptr<Optimizer> optimizer_;
  TokenBatch source_, target_;
  Ids labels_;
};

void measure(const std::string& name, const Problem& problem, std::size_t steps) {
  Step step(problem);
  constexpr std::uint64_t warm_up = 3;
  for (std::uint64_t i = 0; i < warm_up; ++i) step.run(i);

  const auto allocations = kernels::memory_statistics().system_allocations;
  const long faults = page_faults();
  std::vector<double> times;
  for (std::uint64_t i = 0; i < steps; ++i) {
    const Clock::time_point start = Clock::now();
    step.run(warm_up + i);
    times.push_back(seconds_since(start));
  }
  const double time = low_percentile(times);
  const double rate = flops_per_step(problem) / time;
  fmt::print("{:<6} {} threads  {:8.2f} ms a step  {:9.0f} target tokens/s  {:6.1f} GFLOP/s = "
             "{:4.1f} % of gemm  {:.0f} MB peak  {:.1f} page faults  {} allocations\n",
             name, kernels::num_threads(), 1e3 * time,
             static_cast<double>(problem.batch * problem.length) / time, 1e-9 * rate,
             100.0 * rate / gemm_peak(), static_cast<double>(peak_kilobytes()) / 1024.0,
             static_cast<double>(page_faults() - faults) / static_cast<double>(steps),
             kernels::memory_statistics().system_allocations - allocations);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Times one training step of a named model.");
  std::string name;
  std::size_t threads = 0, steps = 50;
  app.add_option("name", name, "toy, tiny, small or base")
      ->required()
      ->check(CLI::IsMember({"toy", "tiny", "small", "base"}));
  app.add_option("--threads", threads, "0 takes all cores");
  app.add_option("--steps", steps, "Steps to time")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  tapestry::kernels::set_num_threads(threads);
  measure(name, problems.at(name), steps);
  return 0;
}
