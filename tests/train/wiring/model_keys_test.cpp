#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "autograd/error.h"
#include "tests/support/contains.h"
#include "tests/train/wiring/model_kinds.h"
#include "tests/train/wiring/model_parameters.h"
#include "tests/train/wiring/model_results.h"
#include "train/config/config.h"
#include "train/config/error.h"
#include "train/config/fields.h"
#include "train/config/rules.h"

using namespace tapestry;
using namespace tapestry::test;

namespace {

/// What changes with the key, if the model uses it: names or shapes of tensors, and so everything;
/// the computation in inference and training; training alone; or nothing but what is refused.
enum class Effect { tensors, computation, training, limit };

/// One other value of a key.
struct ModelKeyRow {
  std::string key, value;
  Effect effect;
  void (*set)(TransformerOptions&);
  /// Other keys that both models share.
  std::vector<std::string> context = {};
  void (*set_context)(TransformerOptions&) = [](TransformerOptions&) {};
};

using Opt = TransformerOptions;

/// Every key of the section `model` but `kind` stands here with each of its choices, or with
/// another number; more than once where what else is chosen decides where the key comes in.
const std::vector<ModelKeyRow> key_rows = {
    {"d_model", "12", Effect::tensors, [](Opt& o) { o.d_model = 12; }},
    {"num_heads", "4", Effect::computation, [](Opt& o) { o.num_heads = 4; }},
    {"attention",
     "parameter_free",
     Effect::tensors,
     [](Opt& o) { o.attention = AttentionKind::parameter_free; },
     {"num_heads=1"},
     [](Opt& o) { o.num_heads = 1; }},
    {"score", "dot_product", Effect::computation,
     [](Opt& o) { o.score = AttentionScore::dot_product; }},
    {"score", "additive", Effect::tensors, [](Opt& o) { o.score = AttentionScore::additive; }},
    {"score", "bilinear", Effect::tensors, [](Opt& o) { o.score = AttentionScore::bilinear; }},
    {"d_head", "6", Effect::tensors, [](Opt& o) { o.d_head = 6; }},
    {"window", "1", Effect::computation, [](Opt& o) { o.window = 1; }},
    {"num_encoder_layers", "4", Effect::tensors, [](Opt& o) { o.num_encoder_layers = 4; }},
    {"num_decoder_layers", "1", Effect::tensors, [](Opt& o) { o.num_decoder_layers = 1; }},
    {"d_ff", "10", Effect::tensors, [](Opt& o) { o.d_ff = 10; }},
    {"dropout", "0.3", Effect::training, [](Opt& o) { o.dropout = 0.3; }},
    {"embedding_dropout", "0.3", Effect::training, [](Opt& o) { o.embedding_dropout = 0.3; }},
    {"attention_dropout", "0.3", Effect::training, [](Opt& o) { o.attention_dropout = 0.3; }},
    {"attention_dropout",
     "0.3",
     Effect::training,
     [](Opt& o) { o.attention_dropout = 0.3; },
     {"num_heads=1", "attention=parameter_free"},
     [](Opt& o) {
       o.num_heads = 1;
       o.attention = AttentionKind::parameter_free;
     }},
    {"activation_dropout", "0.3", Effect::training, [](Opt& o) { o.activation_dropout = 0.3; }},
    {"residual_dropout", "0.3", Effect::training, [](Opt& o) { o.residual_dropout = 0.3; }},
    {"stochastic_depth", "0.4", Effect::training, [](Opt& o) { o.stochastic_depth = 0.4; }},
    {"skip_scale", "0.5", Effect::computation, [](Opt& o) { o.skip_scale = 0.5; }},
    {"sublayer_scale", "2", Effect::computation, [](Opt& o) { o.sublayer_scale = 2; }},
    {"norm", "post", Effect::tensors, [](Opt& o) { o.norm = NormPlacement::post; }},
    {"normalization", "rms_norm", Effect::tensors,
     [](Opt& o) { o.normalization = Normalization::rms_norm; }},
    {"normalization", "batch_norm", Effect::computation,
     [](Opt& o) { o.normalization = Normalization::batch_norm; }},
    {"activation", "gelu", Effect::computation, [](Opt& o) { o.activation = Activation::gelu; }},
    {"activation", "gelu_tanh", Effect::computation,
     [](Opt& o) { o.activation = Activation::gelu_tanh; }},
    {"activation", "silu", Effect::computation, [](Opt& o) { o.activation = Activation::silu; }},
    {"activation", "swiglu", Effect::tensors, [](Opt& o) { o.activation = Activation::swiglu; }},
    {"activation", "geglu", Effect::tensors, [](Opt& o) { o.activation = Activation::geglu; }},
    {"positions", "none", Effect::computation, [](Opt& o) { o.positions = PositionKind::none; }},
    {"positions", "learned", Effect::tensors, [](Opt& o) { o.positions = PositionKind::learned; }},
    {"positions", "rotary", Effect::computation,
     [](Opt& o) { o.positions = PositionKind::rotary; }},
    {"positions", "alibi", Effect::computation, [](Opt& o) { o.positions = PositionKind::alibi; }},
    {"max_length", "10", Effect::limit, [](Opt& o) { o.max_length = 10; }},
    {"max_length",
     "10",
     Effect::tensors,
     [](Opt& o) { o.max_length = 10; },
     {"positions=learned"},
     [](Opt& o) { o.positions = PositionKind::learned; }},
    {"tie_embeddings", "target", Effect::tensors,
     [](Opt& o) { o.tie_embeddings = TiedEmbeddings::target; }},
    {"tie_embeddings", "all", Effect::tensors,
     [](Opt& o) { o.tie_embeddings = TiedEmbeddings::all; }},
    {"pooling", "mean", Effect::computation, [](Opt& o) { o.pooling = PoolingKind::mean; }},
    {"patch_size", "4", Effect::tensors, [](Opt& o) { o.patch_size = 4; }},
    {"layer_norm_epsilon", "0.1", Effect::computation, [](Opt& o) { o.layer_norm_epsilon = 0.1; }},
    {"layer_norm_epsilon",
     "0.1",
     Effect::computation,
     [](Opt& o) { o.layer_norm_epsilon = 0.1; },
     {"normalization=rms_norm"},
     [](Opt& o) { o.normalization = Normalization::rms_norm; }},
    {"layer_norm_epsilon",
     "0.1",
     Effect::computation,
     [](Opt& o) { o.layer_norm_epsilon = 0.1; },
     {"normalization=batch_norm"},
     [](Opt& o) { o.normalization = Normalization::batch_norm; }},
    {"dropout",
     "0.3",
     Effect::training,
     [](Opt& o) { o.dropout = 0.3; },
     {"normalization=batch_norm"},
     [](Opt& o) { o.normalization = Normalization::batch_norm; }},
};

std::vector<std::string> overrides_of(const ModelKeyRow& row, bool with_value) {
  std::vector<std::string> overrides;
  for (const std::string& other : row.context) overrides.push_back("model." + other);
  if (with_value) overrides.push_back("model." + row.key + "=" + row.value);
  return overrides;
}

KindOptions before(const ModelKeyRow& row, const KindCase& kind) {
  KindOptions options = base_options(kind);
  row.set_context(options);
  return options;
}

KindOptions after(const ModelKeyRow& row, const KindCase& kind) {
  KindOptions options = before(row, kind);
  row.set(options);
  return options;
}

/// Whether the kind lists the key among those of the section `model`.
bool uses(const KindCase& kind, const std::string& key) {
  static std::map<std::string, std::set<std::string>> used;
  const auto [found, is_new] = used.try_emplace(kind.name);
  if (is_new) {
    for_each_field(parsed(kind), [&](const Field& field, const FieldValue&, const Domain&) {
      if (field.section == "model" && field.use.in_use()) found->second.emplace(field.key);
    });
  }
  return found->second.contains(key);
}

/// Calls f(row, kind) for every row and every kind that uses its key, or for every one that does
/// not.
template <class F>
void for_each_row(bool used, const F& f) {
  for (const KindCase& kind : kind_cases) {
    for (const ModelKeyRow& row : key_rows) {
      if (uses(kind, row.key) != used) continue;
      CAPTURE(kind.name);
      CAPTURE(row.key);
      CAPTURE(row.value);
      f(row, kind);
    }
  }
}

using NamedValues = std::map<std::string, std::vector<double>>;

NamedValues values_of_all(const Model& model) {
  NamedValues values;
  for (const NamedTensor& p : model.parameters) values[p.name] = values_of(p.tensor);
  return values;
}

/// "name (shape)" in alphabetical order.
std::set<std::string> lines(const std::vector<ExpectedTensor>& tensors) {
  std::set<std::string> result;
  for (const auto& t : tensors) result.insert(t.name + " " + to_string(t.shape));
  return result;
}

std::set<std::string> lines(const std::vector<NamedTensor>& tensors) {
  std::set<std::string> result;
  for (const auto& t : tensors) result.insert(t.name + " " + to_string(t.tensor.shape()));
  return result;
}

void check_tensors(const KindOptions& options) {
  const NetworkSizes sizes = sizes_of(options);
  const Model model = model_of(options);
  const ExpectedTensors expected = expected_tensors(options, sizes);
  CHECK(lines(model.parameters.list()) == lines(expected.parameters));
  CHECK(lines(model.parameters.buffers()) == lines(expected.buffers));
  CHECK(model.parameters.list().size() == expected.parameters.size());
  CHECK(count_values(network_maker(options, sizes)).parameters == model.parameters.num_values());
}

}  // namespace

TEST_CASE("every model key has a row, and so has each choice") {
  INFO("the rows are in key_rows in tests/train/wiring/model_keys_test.cpp");
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    const Config config = parsed(kind);
    for_each_field(config, [&](const Field& field, const FieldValue& value, const Domain& domain) {
      if (field.section != "model" || field.key == "kind") return;
      CAPTURE(field.key);
      std::set<std::string> values{domain.print(value)};
      for (const ModelKeyRow& row : key_rows) {
        if (row.key != field.key) continue;
        CAPTURE(row.value);
        values.insert(row.value);
      }
      CHECK_MESSAGE(values.size() > 1, "the key has no row with another value");
      if (!domain.is<OneOf>()) return;
      for (const std::string& name : domain.words()) {
        CHECK_MESSAGE(values.contains(name), "no row has the value " << name);
      }
    });
  }
  std::set<std::string> keys;
  for (const ConfigKey& key : config_keys()) {
    if (key.section == "model") keys.insert(key.key);
  }
  for (const ModelKeyRow& row : key_rows) CHECK_MESSAGE(keys.contains(row.key), row.key);
}

TEST_CASE("the keys of every kind of model are tested") {
  for (const ConfigKind& kind : model_kinds()) {
    CHECK_MESSAGE(std::ranges::count(kind_cases, kind.name, &KindCase::name) == 1, kind.name,
                  " is not in kind_cases in tests/train/kind_cases.h");
  }
  for (const KindCase& kind : kind_cases) {  // seq2seq is the kind of the other tests of commands
    CHECK_MESSAGE(kind.configs.empty() == (kind.kind == ModelKind::seq2seq), kind.name,
                  " has no configs in kind_cases in tests/train/kind_cases.h");
  }
}

TEST_CASE("a model key sets its own option and no other") {
  for (const KindCase& kind : kind_cases) {
    Config expected = parsed(kind);
    expected.model = base_options(kind);
    CHECK(dump_config(parsed(kind)) == dump_config(expected));
  }
  for_each_row(true, [](const ModelKeyRow& row, const KindCase& kind) {
    Config expected = parsed(kind);
    expected.model = after(row, kind);
    CHECK(dump_config(parsed(kind, overrides_of(row, true))) == dump_config(expected));
    expected.model = before(row, kind);
    CHECK(dump_config(parsed(kind, overrides_of(row, false))) == dump_config(expected));
  });
}

TEST_CASE("a kind of model refuses a value other than the default of a key that it does not use") {
  for_each_row(false, [](const ModelKeyRow& row, const KindCase& kind) {
    std::string message;
    try {
      parsed(kind, overrides_of(row, true));
    } catch (const ConfigError& error) {
      message = error.what();
    }
    CHECK(test::contains(message, "`" + row.key + "` is used with `model.kind: "));
    CHECK(test::contains(message, ", found `" + kind.name + "`"));
  });
}

TEST_CASE("a model does not depend on options that its kind does not use") {
  for_each_row(false, [](const ModelKeyRow& row, const KindCase& kind) {
    const KindOptions options = after(row, kind);
    Model found = perturbed_model(options);
    Model expected = perturbed_model(before(row, kind));
    CHECK(listing(found.parameters) == listing(expected.parameters));
    CHECK(values_of_all(found) == values_of_all(expected));
    for (const Mode& mode : {Mode::inference(), Mode::training(RandomStream(3))}) {
      CHECK(results_of(found, kind.kind, mode) == results_of(expected, kind.kind, mode));
    }
  });
}

TEST_CASE("a model of each kind has the tensors of its options") {
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    check_tensors(base_options(kind));
  }
  for_each_row(true, [](const ModelKeyRow& row, const KindCase& kind) {
    check_tensors(before(row, kind));
    check_tensors(after(row, kind));
    const bool same = lines(model_of(before(row, kind)).parameters.list()) ==
                      lines(model_of(after(row, kind)).parameters.list());
    CHECK(same == (row.effect != Effect::tensors));
  });
}

TEST_CASE("tensors that a key does not affect have the same initial bits") {
  for_each_row(true, [](const ModelKeyRow& row, const KindCase& kind) {
    const auto expected = [](const KindOptions& options) {
      std::map<std::string, ExpectedTensor> tensors;
      const ExpectedTensors all = expected_tensors(options, sizes_of(options));
      for (const ExpectedTensor& tensor : all.parameters) tensors[tensor.name] = tensor;
      return tensors;
    };
    const auto old_tensors = expected(before(row, kind)), new_tensors = expected(after(row, kind));
    const NamedValues old_values = values_of_all(model_of(before(row, kind)));
    const NamedValues new_values = values_of_all(model_of(after(row, kind)));
    for (const auto& tensor : new_tensors) {
      const std::string& name = tensor.first;
      const auto found = old_tensors.find(name);
      if (found == old_tensors.end()) continue;
      CAPTURE(name);
      CHECK((new_values.at(name) == old_values.at(name)) == (tensor.second == found->second));
    }
  });
}

TEST_CASE("a model key changes training, or also inference, as its row says") {
  for_each_row(true, [](const ModelKeyRow& row, const KindCase& kind) {
    if (row.effect == Effect::tensors) return;
    Model old_model = perturbed_model(before(row, kind));
    Model new_model = perturbed_model(after(row, kind));
    const auto differ = [&](const Mode& mode) {
      const Results old_results = results_of(old_model, kind.kind, mode);
      const Results new_results = results_of(new_model, kind.kind, mode);
      const bool logits = new_results.logits != old_results.logits;
      CHECK((new_results.gradients != old_results.gradients) == logits);
      CHECK((new_results.loss != old_results.loss) == logits);
      return logits;
    };
    CHECK(differ(Mode::inference()) == (row.effect == Effect::computation));
    CHECK(differ(Mode::training(RandomStream(3))) == (row.effect != Effect::limit));
  });
}

TEST_CASE("every value of a key computes what is documented, in models of every kind") {
  for_each_row(true, [](const ModelKeyRow& row, const KindCase& kind) {
    KindOptions options = after(row, kind);
    if (row.effect == Effect::training) {  // inference alone can be told
      Model model = perturbed_model(options);
      Reference reference(model.parameters, options, false);
      check_close(results_of(model, kind.kind, Mode::inference()),
                  results_of(reference, model, kind.kind));
    } else {
      check_against_reference(options);
    }
  });
}

TEST_CASE("a model reads at most max_length tokens on either side") {
  const auto batch = [](std::size_t length) {
    return TokenBatch{.ids = Ids(Shape{1, length}, 5),
                      .lengths = {static_cast<std::int32_t>(length)}};
  };
  for (const KindCase& kind : kind_cases) {
    CAPTURE(kind.name);
    for (const char* positions : {"sinusoidal", "learned", "none", "rotary", "alibi"}) {
      CAPTURE(positions);
      KindOptions options = parsed_options(kind, {std::string("model.positions=") + positions});
      const Task& task = find_task(kind.name);
      const Tensor images = wiring_input().images;
      const std::size_t longest = 9;
      options.max_length = longest;
      const Model model = model_of(options);
      CHECK_NOTHROW((*model.network)({batch(longest), batch(longest), images}, Mode::inference()));
      if (task.traits().reads_images) {  // eight patches and the class token
        options.max_length = longest - 1;
        CHECK_THROWS_AS((*model_of(options).network)({.images = images}, Mode::inference()),
                        ShapeError);
        continue;
      }
      if (task.traits().reads_source) {
        CHECK_THROWS_AS(
            (*model.network)({batch(longest + 1), batch(longest), images}, Mode::inference()),
            ShapeError);
      }
      if (!task.traits().one_label_per_example) {
        CHECK_THROWS_AS(
            (*model.network)({batch(longest), batch(longest + 1), images}, Mode::inference()),
            ShapeError);
      }
    }
  }
}

TEST_CASE("model.kind makes a model of that kind") {
  std::set<std::set<std::string>> different;
  for (const KindCase& kind : kind_cases) {
    const Config config = parsed(kind);
    CHECK(config.model_kind == kind.name);
    different.insert(lines(model_of(options_of(config)).parameters.list()));
  }
  CHECK(different.size() == kind_cases.size() - 1);  // a tagger has the tensors of a classifier
}
