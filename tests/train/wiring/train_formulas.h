#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "layers/model.h"
#include "optim/options.h"
#include "train/config/config.h"

/// Update rules, learning rates and checkpoint files of a run, written out from their formulas.
namespace tapestry::test {

/// Values of all parameters by name.
using Values = std::map<std::string, std::vector<double>>;

/// The learning rate of a step, from 1.
double rate_of(const Config& config, std::uint64_t step);

/// The update rules as the documentation of the optimizers states them.
class HandOptimizer {
 public:
  explicit HandOptimizer(const OptimizerOptions& options) : options_(options) {}

  /// Moves the values against the gradients, which are scaled.
  void step(const Model& model, Values& values, const Values& gradients, double rate,
            double gradient_scale) {
    ++t_;
    for (const auto& [name, tensor] : model.parameters) {
      if (!gradients.contains(name)) continue;
      const bool matrix = tensor.rank() >= 2;
      std::vector<double>& p = values.at(name);
      std::vector<double>& m = first_[name];
      std::vector<double>& v = second_[name];
      m.resize(p.size());
      v.resize(p.size());
      for (std::size_t i = 0; i < p.size(); ++i) {
        const double g = gradient_scale * gradients.at(name)[i];
        p[i] -= options_.kind == OptimizerKind::sgd ? sgd(g, p[i], m[i], rate)
                                                    : adam(g, p[i], m[i], v[i], rate, matrix);
      }
    }
  }

 private:
  double sgd(double g, double p, double& velocity, double rate) const {
    velocity = options_.momentum * velocity + g + options_.weight_decay * p;
    return rate * velocity;
  }

  double adam(double g, double p, double& m, double& v, double rate, bool matrix) const {
    const bool decoupled = options_.kind == OptimizerKind::adamw;
    const double h = decoupled ? g : g + options_.weight_decay * p;
    m = options_.beta1 * m + (1.0 - options_.beta1) * h;
    v = options_.beta2 * v + (1.0 - options_.beta2) * h * h;
    const double m_hat = m / (1.0 - std::pow(options_.beta1, t_));
    const double v_hat = v / (1.0 - std::pow(options_.beta2, t_));
    const double decay = decoupled && matrix ? rate * options_.weight_decay * p : 0.0;
    return rate * m_hat / (std::sqrt(v_hat) + options_.epsilon) + decay;
  }

  OptimizerOptions options_;
  double t_ = 0.0;
  Values first_, second_;
};

/// Which checkpoint files a run leaves.
class HandFiles {
 public:
  explicit HandFiles(const TrainOptions& options) : options_(options) {}

  /// A validation that is due, of which a smaller value is better. Returns whether it is one of
  /// those whose checkpoints are kept.
  bool validate(std::uint64_t step, double value) {
    validated_.insert({value, step});
    return best_steps().contains(step);
  }

  void save(std::uint64_t step, std::optional<std::uint64_t> best, bool scheduled) {
    if (scheduled) scheduled_ = step;
    saved_.insert(step);
    std::set<std::uint64_t> kept;
    for (auto newest = saved_.rbegin(); newest != saved_.rend() && kept.size() < options_.keep_last;
         ++newest) {
      kept.insert(*newest);
    }
    const std::set<std::uint64_t> best_ones = best_steps(), averaged = averaged_steps(step);
    for (const std::uint64_t one : saved_) {
      if (one == best || one == kept_ || one == scheduled_) kept.insert(one);
      if (best_ones.contains(one) || averaged.contains(one)) kept.insert(one);
    }
    saved_ = kept;
  }

  /// From now on, this step stays as well.
  void keep(std::uint64_t step) { kept_ = step; }

  bool has(std::uint64_t step) const { return saved_.contains(step); }
  std::vector<std::uint64_t> steps() const { return {saved_.begin(), saved_.end()}; }

 private:
  std::set<std::uint64_t> best_steps() const {
    std::set<std::uint64_t> steps;
    for (const auto& [value, step] : validated_) {
      if (steps.size() < options_.keep_best) steps.insert(step);
    }
    return steps;
  }

  /// The newest step and the last multiples of train.save_every before it.
  std::set<std::uint64_t> averaged_steps(std::uint64_t newest) const {
    std::set<std::uint64_t> steps;
    for (std::uint64_t step = newest; step > 0; --step) {
      const bool counts = step == newest || step % options_.save_every == 0;
      if (counts && steps.size() < options_.average_last) steps.insert(step);
    }
    return steps;
  }

  TrainOptions options_;
  std::set<std::pair<double, std::uint64_t>> validated_;
  std::set<std::uint64_t> saved_;
  std::uint64_t scheduled_ = 0;
  std::optional<std::uint64_t> kept_;
};

}  // namespace tapestry::test
