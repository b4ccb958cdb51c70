// SPDX-License-Identifier: BSD-3-Clause
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "autograd/error.h"
#include "autograd/random.h"
#include "tests/support/contains.h"
#include "tests/support/threads.h"
#include "tests/support/values.h"
#include "tests/train/wiring/model_reference.h"
#include "train/config/config.h"
#include "train/config/difference.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/rules.h"

/// Tests every key of the section `model` except `kind` in models of every kind, with each valid
/// word or with a different number. The keys come from the list of keys.
namespace tapestry {
namespace {

using namespace test;
using Overrides = std::vector<std::string>;

/// Values of other keys, since some keys have an effect only with these values.
const std::vector<Overrides> contexts = {{},
                                         {"model.normalization=rms_norm"},
                                         {"model.normalization=batch_norm"},
                                         {"model.positions=learned"},
                                         {"model.num_heads=1"},
                                         {"model.num_heads=1", "model.attention=parameter_free"}};

/// A changed value of a key.
struct Change {
  std::string key, value;

  std::string override() const { return "model." + key + "=" + value; }
  /// Whether the key affects only training.
  bool drops() const { return key.ends_with("dropout") || key == "stochastic_depth"; }
};

std::optional<Config> accepted(const KindCase& kind, Overrides overrides, const Change& change) {
  overrides.push_back(change.override());
  try {
    return parsed(kind, overrides);
  } catch (const ConfigError&) {
    return std::nullopt;  // violates a rule between keys
  }
}

/// All non-default words of a key, or a different number that fits the inputs of the tests.
std::vector<Change> changes_of(const Field& field, const KindCase& kind) {
  const std::string key(field.key);
  const Domain& domain = field.domain;
  std::vector<Change> changes;
  if (domain.is<OneOf>()) {
    for (const std::string& word : domain.words()) {
      if (word != field.printed()) changes.push_back({key, word});
    }
    return changes;
  }
  if (key == "max_length") return {{key, "10"}};
  if (key == "patch_size") return {{key, "4"}};
  for (const char* number : {"1", "4", "0.5", "true", "false"}) {
    const bool is_other = field.printed() != number;
    if (!is_other || !std::holds_alternative<FieldValue>(domain.parse(number))) continue;
    if (!field.in_use() || accepted(kind, {}, {key, number})) return {{key, number}};
  }
  FAIL("no other value of model.", key, " is known: add it to changes_of()");
  return {};
}

/// Calls f(change, kind) for the changes of all keys that a kind uses (`used`), or does not use.
template <class F>
void for_each_change(bool used, const F& f) {
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    for (const Field& field : fields_of(parsed(kind))) {
      const bool applies =
          field.section == "model" && field.key != "kind" && field.in_use() == used;
      if (!applies) continue;
      for (const Change& change : changes_of(field, kind)) {
        CAPTURE(change.override());
        f(change, kind);
      }
    }
  }
}

/// The values of all parameters, by name and shape.
std::map<std::string, std::vector<double>> tensors(const Model& model) {
  std::map<std::string, std::vector<double>> values;
  for (const NamedTensor& p : model.parameters) {
    values[p.name + " " + to_string(p.tensor.shape())] = values_of(p.tensor);
  }
  return values;
}

Results results(const KindOptions& options, const Mode& mode) {
  Model model = perturbed_model(options);
  return results_of(model, options.kind, mode);
}

Mode training_mode() { return Mode::training(RandomStream(3)); }

TEST_CASE("the tests cover every kind of model") {
  for (const ConfigKind& kind : model_kinds()) {
    CHECK_MESSAGE(std::ranges::count(kind_cases, kind.name, &KindCase::name) == 1, kind.name,
                  " is not in kind_cases in tests/train/kinds.h");
  }
  for (const KindCase& kind : kind_cases) {
    // seq2seq is the kind of the other tests of commands.
    CHECK_MESSAGE(kind.configs.empty() == (kind.kind == ModelKind::seq2seq), kind.name,
                  " has no configs in kind_cases in tests/train/kinds.h");
  }
}

TEST_CASE("every model key has its documented effect, and changes no other key") {
  for_each_change(true, [](const Change& change, const KindCase& kind) {
    bool has_effect = false, is_compared = false;
    for (const Overrides& context : contexts) {
      const auto sets_key = [&](const std::string& override) {
        return override.starts_with("model." + change.key + "=");
      };
      if (std::ranges::any_of(context, sets_key)) continue;
      const std::optional<Config> config = accepted(kind, context, change);
      if (!config) continue;
      const Config before = parsed(kind, context);
      for (const ConfigDifference& difference : compare_configs(before, *config)) {
        CHECK(difference.key == "model." + change.key);
      }
      const KindOptions old_options = options_of(before), options = options_of(*config);
      const auto old_tensors = tensors(model_of(old_options)), now = tensors(model_of(options));
      bool same_tensors = old_tensors.size() == now.size();
      for (const auto& tensor : now) {
        CAPTURE(tensor.first);
        const auto found = old_tensors.find(tensor.first);
        same_tensors = same_tensors && found != old_tensors.end();
        // Tensors of the same name and shape have bit-identical initial values.
        if (found != old_tensors.end()) CHECK(tensor.second == found->second);
      }
      const bool effect = !same_tensors || results(old_options, training_mode()) !=
                                               results(options, training_mode());
      // If positions are not learned, max_length is only a limit.
      if (change.key != "max_length") CHECK(effect);
      has_effect = has_effect || effect;
      if (std::exchange(is_compared, true)) continue;
      if (!change.drops()) {
        check_against_reference(options);
        continue;
      }
      Model model = perturbed_model(options);
      check_close(results_of(model, kind.kind, Mode::inference()),
                  results_of_reference(model, options));
    }
    CHECK_MESSAGE(has_effect, "the key has no effect in any of `contexts`");
  });
}

#if defined(TAPESTRY_ASAN) || defined(TAPESTRY_TSAN)
constexpr std::size_t combinations = 12;
#else
constexpr std::size_t combinations = 80;
#endif

TEST_CASE("models of every kind match the reference for random combinations of options") {
  const Threads one(1);
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    std::map<std::string, std::vector<Change>> changes;  // changes of each key
    for_each_change(true, [&](const Change& change, const KindCase& of) {
      if (of.name == kind.name && !change.drops()) changes[change.key].push_back(change);
    });
    std::size_t accepted_combinations = 0;
    for (std::uint64_t seed = 1; accepted_combinations < combinations; ++seed) {
      REQUIRE(seed < 20 * combinations);
      CAPTURE(seed);
      const RandomStream random = RandomStream(seed).named("combinations");
      Overrides overrides;
      std::uint64_t count = 0;
      for (const auto& [key, others] : changes) {  // draws a changed value or the default
        const auto n = static_cast<double>(others.size() + 1);
        const auto chosen = static_cast<std::size_t>(random.uniform(count++) * n);
        if (chosen < others.size()) overrides.push_back(others[chosen].override());
      }
      try {
        const KindOptions options = parsed_options(kind, overrides);
        ++accepted_combinations;
        check_against_reference(options);
      } catch (const ConfigError&) {  // violates a rule between keys
      }
    }
  }
}

TEST_CASE("every tensor of a model affects the results compared with the reference") {
  for (const KindCase& kind : kind_cases) {
    Model model = perturbed_model(base_options(kind));
    const Results expected = results_of_reference(model, base_options(kind));
    for (const auto& gradient : expected.gradients) {
      CAPTURE(kind.name);
      CAPTURE(gradient.first);
      // The bias of a key projection adds a constant to all scores of a query, which does not
      // change the softmax.
      const bool affects =
          std::ranges::any_of(gradient.second, [](double g) { return std::abs(g) > 1e-5; });
      CHECK(affects == !gradient.first.ends_with("k_proj.bias"));
    }
  }
}

TEST_CASE("a key that a kind of model does not use is rejected, and has no effect on the network") {
  for_each_change(false, [](const Change& change, const KindCase& kind) {
    std::string message;
    try {
      parsed(kind, {change.override()});
    } catch (const ConfigError& error) {
      message = error.what();
    }
    CHECK(contains(message, "`" + change.key + "` is only used with `model.kind: "));
    CHECK(contains(message, ", found `" + kind.name + "`"));
    Config config = parsed(kind);
    for_each_field(config, [&](Field& field) {
      if (field.path() != "model." + change.key) return;
      field.value = std::get<FieldValue>(field.domain.parse(change.value));
    });
    const KindOptions before = parsed_options(kind), after = options_of(config);
    CHECK(tensors(model_of(before)) == tensors(model_of(after)));
    CHECK(results(before, training_mode()) == results(after, training_mode()));
    CHECK(results(before, Mode::inference()) == results(after, Mode::inference()));
  });
}

TEST_CASE("a model accepts at most max_length tokens in the source and in the target") {
  const auto batch = [](std::size_t length) {
    return TokenBatch{.ids = Ids(Shape{1, length}, 5),
                      .lengths = {static_cast<std::int32_t>(length)}};
  };
  for (const KindCase& kind : kind_cases) {
    const TaskTraits traits = find_task(kind.name).traits();
    for (const char* positions : {"sinusoidal", "learned", "none", "rotary", "alibi"}) {
      CAPTURE(kind.name);
      CAPTURE(positions);
      KindOptions options = parsed_options(kind, {std::string("model.positions=") + positions});
      options.max_length = 9;  // an image: eight patches and the class token
      const auto reads = [&](std::size_t source, std::size_t target) {
        const NetworkInput input{batch(source), batch(target), wiring_input().images};
        (*model_of(options).network)(input, Mode::inference());
      };
      CHECK_NOTHROW(reads(9, 9));
      if (traits.reads_source && !traits.reads_images) CHECK_THROWS_AS(reads(10, 9), ShapeError);
      if (!traits.one_label_per_example) CHECK_THROWS_AS(reads(9, 10), ShapeError);
      options.max_length = 8;
      CHECK_THROWS_AS(reads(9, 9), ShapeError);
    }
  }
}

}  // namespace
}  // namespace tapestry
