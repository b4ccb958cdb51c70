#include "train/tasks/subword_regularization.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "data/io/random.h"
#include "data/text/subword_sampler.h"
#include "train/tasks/task.h"

namespace tapestry {
namespace {

using Sampler = std::shared_ptr<const SubwordSampler>;

/// The sides of an example have random numbers of their own.
enum class Side : std::uint64_t { source = 0, target = 1 };

Sampler make_sampler(const Vocabulary& words, const SubwordSampling& sampling) {
  if (!words.subwords()) return nullptr;
  return std::make_shared<const SubwordSampler>(words, sampling);
}

/// Cuts ids to `most` of them, which begin at any place with the same probability. A cut at the end
/// alone would train the last tokens of windows less often than the first.
void cut_at_random(std::vector<std::int32_t>& ids, std::size_t most, RandomDraws& random) {
  if (ids.size() <= most) return;
  const auto begin = static_cast<std::ptrdiff_t>(random.below(ids.size() - most + 1));
  ids.erase(ids.begin(), ids.begin() + begin);
  ids.resize(most);
}

/// Whether the examples are windows of a text.
bool has_windows(const Config& config) { return data_source(config.data).makes_windows; }

class Regularization {
 public:
  Regularization(const Config& config, const Corpus& corpus, const SubwordSampling& sampling)
      : source_(make_sampler(corpus.source_vocabulary, sampling)),
        target_(make_sampler(corpus.target_vocabulary, sampling)),
        layout_(find_task(config).layout()),
        windows_(has_windows(config)),
        max_length_(config.model.max_length),
        seed_(config.train.seed) {}

  Example operator()(const Example& example, std::size_t index, std::uint64_t epoch) const {
    Example sampled = example;
    const auto sample = [&](const Sampler& sampler, std::vector<std::int32_t>& ids, Side side) {
      if (!sampler || ids.empty()) return;
      // The key joins seed and epoch, as for masking.
      RandomDraws random(seed_ + (epoch << 32U), DrawPurpose::subword_segmentation,
                         2 * index + static_cast<std::uint64_t>(side));
      const std::size_t before = ids.size();
      ids = (*sampler)(ids, random);
      if (windows_) cut_at_random(ids, before, random);
    };
    sample(source_, sampled.source, Side::source);
    sample(target_, sampled.target, Side::target);
    return longest_side(sampled, layout_) <= max_length_ ? sampled : example;
  }

 private:
  Sampler source_, target_;  ///< null: not subwords
  RowLayout layout_;
  bool windows_;
  std::size_t max_length_;
  std::uint64_t seed_;
};

}  // namespace

ExampleTransform subword_regularization(const Config& config, const Corpus& corpus) {
  const SubwordSampling& sampling = config.data.words.subwords.sampling;
  if (!sampling.active()) return {};
  return Regularization(config, corpus, sampling);
}

LengthsInEpoch lengths_in_epoch(const Config& config, const Corpus& corpus) {
  ExampleTransform sample = subword_regularization(config, corpus);
  if (!sample || has_windows(config)) return {};
  return [sample = std::move(sample), examples = corpus.training()](
             std::size_t index, std::uint64_t epoch) -> ExampleLengths {
    Example decoded;
    return sample(examples.read(index, decoded), index, epoch);
  };
}

}  // namespace tapestry
