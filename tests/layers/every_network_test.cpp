#include <doctest/doctest.h>

#include "layers/encoder_models.h"
#include "layers/transformer.h"
#include "tests/layers/network_cases.h"

using namespace tapestry;
using namespace tapestry::test;

TEST_CASE("a language model has the same logits as a Network and by its own call operator") {
  const MadeNetwork made(with_kind(small(), ModelKind::language_model));
  const auto& model = dynamic_cast<const LanguageModel&>(*made.network);
  CHECK(made.network->causal());
  CHECK(values_of((*made.network)(network_input(), Mode::inference())) ==
        values_of(model(sentences, Mode::inference())));
}

TEST_CASE("logits depend on the random stream only with dropout") {
  for (const ModelKind kind : every_model_kind) {
    CAPTURE(static_cast<int>(kind));
    const NetworkInput input = network_input();
    KindOptions options = with_kind(small(), kind);
    const MadeNetwork plain(options);
    const auto scores = values_of((*plain.network)(input, Mode::inference()));
    CHECK(values_of((*plain.network)(input, Mode::training(RandomStream(1)))) == scores);
    options.dropout = 0.3;
    const MadeNetwork dropping(options);
    const auto dropped =
        values_of((*dropping.network)(input, Mode::training(RandomStream(1).at(1))));
    CHECK(values_of((*dropping.network)(input, Mode::inference())) == scores);
    CHECK(dropped != scores);
    CHECK(values_of((*dropping.network)(input, Mode::training(RandomStream(1).at(1)))) == dropped);
    CHECK(values_of((*dropping.network)(input, Mode::training(RandomStream(1).at(2)))) != dropped);
  }
}

TEST_CASE("dropout of every kind of model applies to its embeddings") {
  for (const ModelKind kind : every_model_kind) {
    CAPTURE(static_cast<int>(kind));
    KindOptions options = with_kind(small(), kind);
    options.dropout = 0.5;
    const MadeNetwork made(options);
    const TokenVectors kept = made.network->embed(network_input(), Mode::inference());
    const TokenVectors dropped =
        made.network->embed(network_input(), Mode::training(RandomStream(1)));
    if (kept.source.defined()) CHECK(values_of(kept.source) != values_of(dropped.source));
    if (kept.target.defined()) CHECK(values_of(kept.target) != values_of(dropped.target));
    CHECK((kept.source.defined() || kept.target.defined()));
  }
}

TEST_CASE("loss and gradients of every kind of model have the same bits on any number of threads") {
  for (const ModelKind kind : every_model_kind) {
    CAPTURE(static_cast<int>(kind));
    KindOptions options = with_kind(small(), kind);
    options.d_model = 32;
    options.d_ff = 64;
    options.dropout = 0.1;
    options.pooling = PoolingKind::mean;
    MadeNetwork made(options, DType::float32);
    NetworkInput input = network_input();
    input.images = input.images.copied(DType::float32);
    CHECK(same_on_any_number_of_threads([&] { return step(made, input, labels_for(kind)); }));
  }
}

TEST_CASE("every parameter of every kind of model has a gradient") {
  for (const ModelKind kind : every_model_kind) {
    MadeNetwork made(with_kind(small(), kind));
    step(made, network_input(), labels_for(kind));
    for (const NamedTensor& p : made.parameters) {
      CAPTURE(p.name);
      CHECK(p.tensor.gradient().defined());
    }
  }
}

TEST_CASE("the parameters of every kind of model are counted alike with and without values") {
  for (const ModelKind kind : every_model_kind) {
    CAPTURE(static_cast<int>(kind));
    const MadeNetwork made(with_kind(small(), kind));
    Parameters counted = Parameters::without_values(DType::float64);
    make_network(Scope(counted), with_kind(small(), kind));
    CHECK(listing(counted) == listing(made.parameters));
    CHECK(counted.num_values() == made.parameters.num_values());
    CHECK(counted.num_constants() == made.parameters.num_constants());
    CHECK(counted.num_constants() > 0);
  }
}
