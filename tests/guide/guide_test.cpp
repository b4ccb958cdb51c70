// SPDX-License-Identifier: BSD-3-Clause
// Compiles and runs the code of the guide layers/from_pytorch.md: its blocks, and the code in the
// second columns of its tables.
#include <doctest/doctest.h>
#include <tapestry.h>
#include <tapestry/autograd/anomaly.h>
#include <tapestry/program.h>
#include <tapestry/train/models/trained_model.h>
#include <tapestry/xtensor.h>

#include <cmath>
#include <deque>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/source_folder.h"
#include "tests/support/temporary_folder.h"

// The code in the guide's tables uses the same few names for different tensors.
#pragma GCC diagnostic ignored "-Wshadow"

using namespace tapestry;

int guide_program(int argc, char** argv);

namespace {

#include "block_1.inc"
#include "block_3.inc"

/// A struct of the guide's program, not of the library.
struct Record {
  int row = 1;
};

constexpr int used_blocks = 8;
static_assert(used_blocks == GUIDE_BLOCKS, "a block of the guide is not tested here");

/// Uses the values of expressions, so that compilers do not warn.
void use(const auto&...) {}

/// A scope of new parameters.
Scope new_scope() {
  static std::deque<Parameters> all;
  return Scope(all.emplace_back(DType::float32, 1));
}

std::vector<double> values(const Tensor& x) { return x.to_vector(); }

/// Captures standard output during its lifetime.
class Printed {
 public:
  Printed() : before_(std::cout.rdbuf(text_.rdbuf())) {}
  ~Printed() { std::cout.rdbuf(before_); }
  std::string text() const { return text_.str(); }

 private:
  std::ostringstream text_;
  std::streambuf* before_;
};

/// Changes the current folder during its lifetime.
class Inside {
 public:
  explicit Inside(const std::filesystem::path& folder) : before_(std::filesystem::current_path()) {
    std::filesystem::current_path(folder);
  }
  ~Inside() { std::filesystem::current_path(before_); }

 private:
  std::filesystem::path before_;
};

/// Calls the main function of a program.
int run(int (*program)(int, char**), std::vector<std::string> arguments) {
  std::vector<char*> argv;
  for (std::string& each : arguments) argv.push_back(each.data());
  return program(static_cast<int>(argv.size()), argv.data());
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(test::source_folder() / path);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string without_spaces(std::string text) {
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  return text;
}

/// The code in backquotes in the second column of every table.
std::vector<std::string> code_of_tables(const std::string& page) {
  std::vector<std::string> code;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t second = line.find(" | ");
    if (!line.starts_with("| ") || second == line.npos) continue;
    for (std::size_t begin = line.find('`', second); begin != line.npos;) {
      const std::size_t end = line.find('`', begin + 1);
      code.push_back(line.substr(begin + 1, end - begin - 1));
      begin = line.find('`', end + 1);
    }
  }
  return code;
}

/// The C++ code blocks of the guide.
std::string blocks(const std::string& page) {
  std::string text;
  for (std::size_t end = 0, begin = 0; (begin = page.find("```cpp", end)) != page.npos;) {
    end = page.find("```", begin + 1) + 3;
    text += page.substr(begin, end - begin);
  }
  return text;
}

}  // namespace

TEST_CASE("all code in the guide's tables is compiled in this file or in the guide's code blocks") {
  const std::string page = read("layers/from_pytorch.md");
  const std::string source = without_spaces(read("tests/guide/guide_test.cpp") + blocks(page));
  const std::vector<std::string> code = code_of_tables(page);
  CHECK(code.size() > 150);
  for (const std::string& each : code) {
    CAPTURE(each);
    CHECK(source.find(without_spaces(each)) != source.npos);
  }
}

TEST_CASE("the guide: tensors") {
  const std::uint64_t seed = 1;
  use(Tensor::zeros({2, 3}), Tensor::ones({2, 3}), Tensor::full({2, 3}, 7.0));
  use(Tensor::zeros({2, 3}, DType::float64));
  {
    const Tensor x = Tensor::zeros({2}, DType::float64);
    use(zeros_like(x), ones_like(x));
    CHECK(full_like(x, 7.0).dtype() == DType::float64);
  }
  CHECK(values(Tensor::arange(5)) == std::vector<double>{0, 1, 2, 3, 4});
  CHECK(Tensor::scalar(3.0).item() == 3.0);
  const std::vector<double> values{1, 2, 3, 4};
  CHECK(Tensor::from({1, 2}).to_vector() == std::vector<double>{1, 2});
  CHECK(Tensor::from({{1, 2}, {3, 4}}).to_vector() == values);
  CHECK(Tensor::from({2, 2}, values).to_vector() == values);
  CHECK(Tensor::from({{1}, {2}}).shape() == Shape{2, 1});
  {
    const test::TemporaryFolder folder;
    const std::filesystem::path p = folder.write("table.csv", "1,2\n3,4\n");
    const CsvTable table = read_csv(p);
    CHECK(Tensor::from({table.rows, table.columns}, table.values).to_vector() == values);
    CHECK(read_csv(p, {.header = true}).rows == 1);
  }
  {
    const std::size_t n = 100;
    const Tensor x = Tensor::arange(n);
    const Ids order = random_permutation(n, RandomStream(seed));
    CHECK(concat({x[slice(order, 0, 0, 80)], x[slice(order, 0, 80, 100)]}, 0).shape() == x.shape());
    CHECK_THROWS_AS(slice(x, 0, 0, 101), ValueError);
  }
  const xt::xarray<double> expression{{1.0, 2.0}};
  Tensor x = to_tensor(expression);
  CHECK(as_xtensor<float>(x)(0, 1) == 2.0F);
  x.set_requires_grad(true);
  {
    Tape tape;
    tape.backward(sum(x));
  }
  CHECK(as_xtensor<float>(x.grad())(0, 1) == 1.0F);
  {
    const Tensor x = Tensor::from({2, 1});
    const Ids ids = to_ids(x);
    CHECK(ids == Ids{2, 1});
    use(to_tensor(ids));
    std::ostringstream text;
    text << x.dtype();
    CHECK(text.str() == "float32");
  }
  CHECK(random_ids({3}, RandomStream(seed), 2, 7).shape() == Shape{3});
  CHECK(random_categorical(x, RandomStream(seed)).shape() == Shape{1});
  use(x.to_vector(), x.values<float>());
  {
    Tensor x = Tensor::zeros({5, 3});
    x.mutable_values<float>()[1 * 3 + 2] += 1;
    CHECK(select(x[1], 0, 2).item() == 1.0);
  }
  CHECK(random_uniform({2, 3}, RandomStream(seed)).shape() == Shape{2, 3});
  CHECK(random_normal({2, 3}, RandomStream(seed)).shape() == Shape{2, 3});
  CHECK(min(random_uniform({2, 3}, RandomStream(seed), -1.0, 1.0)).item() < 0.0);
  CHECK(random_normal({2, 3}, RandomStream(seed), DType::float64).dtype() == DType::float64);
  CHECK(Ids{{4, 7}}.shape() == Shape{1, 2});
  CHECK(Ids{4, 7}.shape() == Shape{2});
  const Ids ids = Ids::padded({{4, 7, 5}, {6}}, 0);
  CHECK(select(ids, 0, 1) == Ids::from({6, 0, 0}));
  {
    const Ids labels{4, 7, 5}, rows{2, 0};
    CHECK(labels[rows] == Ids{5, 4});
    CHECK(labels[1] == 7);
    CHECK(ids(0, 2) == 5);
    CHECK(ids.to_vector() == std::vector<std::int32_t>{4, 7, 5, 6, 0, 0});
    CHECK(ids.size() == 6);
    const Ids other = labels;
    CHECK_FALSE(ids == other);
  }
  CHECK(slice(ids, 1, 0, -1) == Ids{{4, 7}, {6, 0}});
  use(x.shape(), x.shape()[0], x.shape()[-1], x.rank(), x.size());
  x = Tensor::scalar(1.0);
  use(x.dtype(), x.item());
  const Printed printed;
  std::cout << x;
  CHECK(printed.text() == to_string(x));
  std::cout << ids;
  std::cout << x.shape();
  CHECK(printed.text() == to_string(x) + to_string(ids) + to_string(x.shape()));
  use(Record().row);
  CHECK(x.to(DType::float64).dtype() == DType::float64);
  use(x.clone(), x.detach());
  const std::size_t threads = num_threads();
  set_num_threads(4);
  set_num_threads(threads);
}

TEST_CASE("the guide: operations") {
  const std::uint64_t seed = 1, step = 0;
  const Tensor x = Tensor::from({{1, 2, 3}, {4, 5, 6}}), y = Tensor::from({{1, 1, 1}});
  use(x + y, x - 1.0, 2.0 * x, x / y, -x, x * y);
  {
    Tensor x = y, total = y;
    const Tensor loss = Tensor::scalar(2.0);
    x = x + y;
    CHECK(values(total += loss) == std::vector<double>{3, 3, 3});
    total -= loss;
    total *= loss;
    total /= loss;
    CHECK(values(total) == values(y));
  }
  use(sin(x), cos(x), sign(x));
  {
    const Tensor v = Tensor::ones({3});
    CHECK(values(squeeze(matmul(x, unsqueeze(v, 1)), 1)) == std::vector<double>{6, 15});
  }
  CHECK(argmax(-x) == Ids{0, 0});
  use(maximum(x, 0.1 * x));
  CHECK(mean(abs(x - y)).item() == 2.5);
  CHECK(values(one_hot(Ids{0, 1, 2}, 3))[4] == 1.0);
  CHECK(matmul(x, y, {.transpose_b = true}).shape() == Shape{2, 1});
  {
    const Tensor y = Tensor::ones({3, 2}), w = Tensor::ones({4, 3}), b = Tensor::zeros({4});
    use(matmul(x, y), linear(x, w, b));
  }
  use(exp(x), log(x), sqrt(x), square(x), pow(x, 2), abs(x));
  use(clamp(x, 0, 1), maximum(x, y), minimum(x, y));
  const Tensor c = x < y;
  use(equal(x, y), where(c, x, y), where(c, 0.0, x), where(c, x, 0.0));
  CHECK(sum(x).item() == 21.0);
  CHECK(values(mean(x, -1)) == std::vector<double>{2, 5});
  CHECK(mean(x, -1, true).shape() == Shape{2, 1});
  CHECK(sum(x, {0, 1}).item() == 21.0);
  CHECK(values(sum_to_shape(x, {1, 3})) == std::vector<double>{5, 7, 9});
  CHECK(values(cumsum(x, 1)) == std::vector<double>{1, 3, 6, 4, 9, 15});
  CHECK(values(var(x, 0)) == std::vector<double>{4.5, 4.5, 4.5});
  CHECK(values(tapestry::std(x, 0)) == values(sqrt(var(x, 0))));
  CHECK(values(max(x, 1)) == std::vector<double>{3, 6});
  CHECK(min(x).item() == 1.0);
  CHECK(argmax(x) == Ids::from({2, 2}));
  {
    const auto [values, indices] = topk(x, 2);
    CHECK(values.to_vector() == std::vector<double>{3, 2, 6, 5});
    CHECK(indices == Ids{{2, 1}, {2, 1}});
  }
  CHECK(values(x[0]) == std::vector<double>{1, 2, 3});
  CHECK(values(x[-1]) == std::vector<double>{4, 5, 6});
  CHECK(values(select(x, 1, 2)) == std::vector<double>{3, 6});
  CHECK(values(slice(x, 1, 1, 3)) == values(slice(x, 1, -2, 3)));
  const Ids rows = Ids::from({1, 0}), columns = Ids::from({2}), i{{2}, {0}};
  CHECK(values(x[rows]) == std::vector<double>{4, 5, 6, 1, 2, 3});
  CHECK(values(index_select(x, 1, columns)) == std::vector<double>{3, 6});
  CHECK(values(gather(x, 1, i)) == std::vector<double>{3, 4});
  use(reshape(x, {6}), reshape(x, {inferred, 2}));
  CHECK(unsqueeze(x, 0).shape() == Shape{1, 2, 3});
  CHECK(squeeze(y, 0).shape() == Shape{3});
  CHECK(flatten(x, 1).shape() == Shape{2, 3});
  CHECK(values(split(x, {1, 2}, 1)[0]) == values(chunk(x, 3, 1)[0]));
  CHECK(values(transpose(x, 0, 1)) == values(permute(x, {1, 0})));
  {
    const Tensor y = x;
    CHECK(concat({x, y}, 1).shape() == Shape{2, 6});
    CHECK(stack({x, y}, 0).shape() == Shape{2, 2, 3});
  }
  {
    const Ids x = Ids::arange(5), y = x;
    CHECK(concat({x, y}, 0).shape() == Shape{10});
    CHECK(stack({x, y}, 0).shape() == Shape{2, 5});
    CHECK(Ids::zeros({2, 3}).shape() == Shape{2, 3});
  }
  use(relu(x), gelu(x), gelu_tanh(x), silu(x), sigmoid(x), tanh(x), softplus(x), softmax(x),
      log_softmax(x));
  const Tensor weight = Tensor::ones({3}), bias = Tensor::zeros({3});
  use(layer_norm(x, weight, bias), rms_norm(x, weight));
  use(dropout(x, 0.1, RandomStream(seed).named("dropout").at(step)));
  const Tensor table = Tensor::ones({5, 4});
  const Ids ids{{4, 0}};
  CHECK(one_hot(ids, 5).shape() == Shape{1, 2, 5});
  CHECK(embedding(table, ids, 0).shape() == Shape{1, 2, 4});
  const Tensor q = Tensor::ones({1, 2, 4}), k = q, v = q;
  use(scaled_dot_product_attention(q, k, v, {.num_heads = 4, .mask = AttentionMask::causal()}));
  {
    const Tensor logits = Tensor::from({{-100.0, 100.0}});
    CHECK(random_categorical(logits, RandomStream(seed).at(step)) == Ids{1});
    const Tensor x = Tensor::ones({2}), mask = Tensor::from({1, 0}), y = where(mask, 0.0, x);
    CHECK(values(y) == std::vector<double>{0, 1});
    CHECK_FALSE(allclose(x, y));
  }
  {
    const std::vector<std::uint8_t> values(4, 1);
    const std::vector<std::int32_t> lengths{2};
    const std::size_t batch = 1, n_q = 2, n_k = 2;
    use(AttentionMask::keep(batch, n_q, n_k, values), AttentionMask::padding(lengths));
    use(AttentionMask::causal() & AttentionMask::window(2));
  }
}

TEST_CASE("the guide: gradients") {
  Tensor x = Tensor::from({1, 2}, DType::float64);
  x.set_requires_grad(true);
  CHECK(x.requires_grad());
  {
    Tensor p = x.clone();
    p.set_requires_grad(false);
    CHECK(p.is_frozen());
  }
  {
    Tape tape;
    const Tensor loss = sum(square(x));
    tape.backward(loss);
    CHECK(values(x.grad()) == std::vector<double>{2, 4});
    x.zero_grad();
    CHECK(!x.grad().defined());
  }
  {
    Tape tape;
    const Tensor y = square(x), dy = Tensor::from({1, 1}, DType::float64);
    tape.backward(y, dy);
    const NoGrad no_grad;
    CHECK_FALSE(square(x).requires_grad());
  }
  {
    x.zero_grad();
    Tape tape;
    Tensor h = square(x);
    CHECK_THROWS_AS(h.set_requires_grad(true), ValueError);
    h.retain_grad();
    tape.backward(sum(3.0 * h));
    CHECK(values(h.grad()) == std::vector<double>{3, 3});
    CHECK(values(x.grad()) == std::vector<double>{6, 12});
    CHECK_THROWS_AS(tape.backward(sum(h)), ValueError);
    tape.backward(sum(x));  // the tape records again
    CHECK(values(x.grad()) == std::vector<double>{7, 13});
  }
  {
    Parameters parameters(DType::float32, 1);
    const Linear layer(Scope(parameters) / "encoder" / "layers" / 11, 2, 2);
    parameters.freeze("encoder");
    CHECK(parameters.list()[0].tensor.is_frozen());
    parameters.unfreeze("encoder.layers.11");
    CHECK_FALSE(parameters.list()[0].tensor.is_frozen());
  }
  {
    AnomalyDetector detector;
    Tape tape(&detector);
    CHECK_THROWS_AS(log(x - x), AnomalyError);
  }
  {
    const Profiler profiler;
    use(square(x));
    CHECK(to_string(profiler.profile()).find("square") != std::string::npos);
  }
  const auto f = [&] { return square(x); };
  CHECK(
      gradcheck(f, {{"x", x}}, {.step = 1e-3, .tolerance = 1e-6}).count(GradcheckVerdict::agrees) ==
      1);
  {
    const std::uint64_t seed = 1;
    Parameters parameters(DType::float64, seed);
    const Mlp model{parameters, 4};
    const Tensor x = Tensor::from({{0.5, -1.0}}, DType::float64);
    const auto f = [&] { return model(x); };
    CHECK(gradcheck(f, parameters.list()).count(GradcheckVerdict::agrees) == 4);
  }
}

TEST_CASE("the guide: a custom layer is named in errors") {
  Parameters parameters(DType::float32, 1);
  const Scope scope(parameters);
  const Gain gain{scope / "gain", 32};
  CHECK(parameters.find("gain.gain") != nullptr);
  CHECK(gain(Tensor::ones({2, 32})).shape() == Shape{2, 32});
  CHECK_THROWS_WITH_AS(gain(Tensor::ones({2, 3})), doctest::Contains("gain: "), ShapeError);
}

TEST_CASE("the guide: a custom operation passes its gradient check") {
  const Printed printed;
#include "block_2.inc"
  CHECK(report.count(GradcheckVerdict::agrees) == 1);
  CHECK(printed.text() == to_string(report));
}

TEST_CASE("the guide: layers") {
  const std::uint64_t seed = 1, step = 0;
  {
    const Scope scope = new_scope();
    use(Linear(scope / "hidden", 4, 8));
  }
  const Scope scope = new_scope();
  use(Linear(scope / "hidden", 4, 8, {.bias = false}));
  use(Embedding(scope / "embedding", 100, 8, {.padding_id = 0}));
  use(LayerNorm(scope / "norm", 8));
  {
    const Scope scope = new_scope();
    use(RmsNorm(scope / "norm", 8));
  }
  {
    const Scope scope = new_scope();
    use(BatchNorm(scope / "norm", 8));
  }
  use(Dropout(scope / "dropout", 0.1));
  use(MultiHeadAttention(scope / "attention", 64, {.num_heads = 4}));
  const Sequential sequential = Sequential{Linear(scope / 0, 4, 8), relu};
  CHECK(sequential(Tensor::ones({1, 4}), Mode::inference()).shape() == Shape{1, 8});
  {
    const Mode mode = Mode::inference();
    const Tensor x = Tensor::ones({1});
    const Sequential net{tanh, relu};
    CHECK(values(net(x)) == values(net(x, mode)));
  }
  std::vector<Linear> list;
  for (std::size_t i = 1; i < 3; ++i) list.emplace_back(scope / i, 4, 4);
  use(Encoder(scope / "encoder", 64, {.num_layers = 2}));
  {
    const Scope scope = new_scope();
    use(Encoder(scope / "encoder", 64,
                {.num_layers = 2,
                 .layer = {.self_attn = {.num_heads = 4, .dropout = 0.1},
                           .ff = {.d_ff = 256, .dropout = 0.1},
                           .residual = {.dropout = 0.1}}}));
  }
  {
    const Scope scope = new_scope();
    std::vector<Linear> layers;
    for (std::size_t i = 0; i < 2; ++i) layers.push_back(Linear(scope / "layers" / i, 8, 8));
    const Mode mode = Mode::inference();
    const LayerNorm norm(scope / "norm", 64);
    const Dropout dropout(scope / "dropout", 0.1);
    const FeedForward feed_forward =
        FeedForward(scope / "feed_forward", 64, {.d_ff = 256, .activation = Activation::gelu});
    const Positions positions =
        Positions(scope / "positions", 64, {.kind = PositionKind::learned, .max_length = 100});
    const MultiHeadAttention attention(scope / "attention", 64, {.num_heads = 4});
    const BatchNorm batch_norm(scope / "batch_norm", 64);
    const Encoder encoder(scope / "encoder", 64, {.num_layers = 2});
    const double d_model = 64;
    Tensor x = std::sqrt(d_model) * random_normal({2, 5, 64}, RandomStream(1));
    const Tensor y = x;
    use(norm(x), dropout(x, mode), feed_forward(x, mode), batch_norm(x, mode), positions(x));
    use(dropout(x, mode.at(0)), dropout(x, mode.at(1)));
    const AttentionMask mask = AttentionMask::padding({5, 3});
    use(AttentionMask::causal());
    CHECK(attention(x, y, mask, mode).shape() == x.shape());
    x = encoder(x, mask, mode);
    CHECK(select(pool(PoolingKind::mean, x, {5, 3}), 1, 0).shape() == Shape{2, 64});
  }
  use(Decoder(scope / "decoder", 64, {.num_layers = 2}));
  use([](const Transformer&, const LanguageModel&, const MaskedLanguageModel&, const Classifier&,
         const Tagger&, const VisionTransformer&) {});
  use(scope.parameter("bias", {8}, zeros_initializer()));
  use(CustomKey("model.window", 3, between(1, 64), "tokens read"));
  CHECK(CustomKey("model.slope", 0.1, between_reals(0, 1), "slope for x < 0")
            .definition_error()
            .empty());
  CHECK(CustomKey("model.squash", "relu", OneOf{{"relu", "tanh"}}, "activation")
            .definition_error()
            .empty());
  use(scope.buffer("running_mean", {8}, zeros_initializer()));
  use(glorot_uniform(4, 8));
  {
    const Scope scope = new_scope();
    const Linear linear = Linear(scope / "hidden", 4, 8, {.weight = normal_initializer(0.02)});
    CHECK(linear.weight().shape() == Shape{8, 4});
    const Embedding embedding(scope / "embedding", 100, 8);
    const Tensor x = Tensor::ones({2, 8});
    CHECK(matmul(x, embedding.weight(), {.transpose_b = true}).shape() == Shape{2, 100});
  }
  Parameters parameters(DType::float32, seed);
  use(Linear(parameters / "hidden", 4, 8));
  CHECK(parameters.list().size() == 2);
  CHECK(parameters.num_values() == 40);
  CHECK(parameters.find("hidden.weight")->tensor.shape() == Shape{8, 4});
  CHECK(parameters.num_values() == 40);
  {
    Tensor w = parameters.find("hidden.weight")->tensor;
    for (float& value : w.mutable_values<float>()) value = 0.01F;
    CHECK(parameters.find("hidden.weight")->tensor.to_vector()[5] == doctest::Approx(0.01));
  }
  const RandomStream random = RandomStream(1).named("dropout").at(step);
  CHECK(Mode::training(random).is_training());
  CHECK_FALSE(Mode::inference().is_training());
}

TEST_CASE("the guide: training") {
  const test::TemporaryFolder folder;
  const std::string p = folder / "parameters.h5";
  const double lr = 1e-3;
  Parameters parameters(DType::float32, 1);
  const Linear head(Scope(parameters) / "head", 2, 3);
  const Tensor z = Tensor::from({{0.5, -1.0}}), y = Tensor::from({{1, 0}}), x = z;
  const Ids target = Ids::from({1});
  Sgd sgd(parameters.list(), {.momentum = 0.9});
  Adam adam(parameters.list());
  {
    Adam adam(parameters.list(), {.beta2 = 0.98, .epsilon = 1e-9});
    CHECK(adam.steps() == 0);
  }
  AdamW adamw(parameters.list(), {}, {{.path = "head", .learning_rate_factor = 10}});
  {
    Tape tape;
    const Tensor logits = head(x);
    use(cross_entropy(logits, target, {.ignored_id = 0, .label_smoothing = 0.1}).mean);
    tape.backward(cross_entropy(logits, target).mean);
    CHECK(accuracy(logits, target) <= 1.0);
  }
  use(mean_squared_error(x, y), binary_cross_entropy_with_logits(z, y));
  adam.step(lr);
  adam.step(lr, clip_factor(global_gradient_norm(parameters.list()), 1.0));
  parameters.zero_grad();
  const ScheduleOptions options;
  const auto schedule = make_schedule(options);
  const std::uint64_t step = 1, e = 0, n = 2;
  CHECK(schedule->learning_rate(step) == options.learning_rate);
  {
    class Decay : public Schedule {
      double rate(double t) const override { return 0.1 / t; }
    };
    CHECK(Decay().learning_rate(2) == 0.05);
  }
  const auto rate = [](std::uint64_t step) { return 0.1 / static_cast<double>(step); };
  adam.step(rate(step));
  parameters.zero_grad();
  const std::size_t num_examples = 100;
  const DataLoader loader = DataLoader(num_examples, {.batch_size = 64});
  CHECK(loader.epoch(e).size() == 2);
  CHECK(DataLoader(num_examples, {.batch_size = 64, .shuffle = false}).epoch(e)[1].front() == 64);
  {
    const Tensor x = Tensor::arange(num_examples);
    const std::vector<std::int32_t> batch = loader.epoch(e).front();
    CHECK(x[Ids(batch)].shape() == Shape{64});
    const Ids labels({num_examples}, 1);
    CHECK(labels[Ids(batch)].shape() == Shape{64});
  }
  save_parameters(parameters, p);
  CHECK(load_parameters(parameters, p).complete());
  save_parameters(parameters, adam, p);
  load_parameters(parameters, adam, p);
  const auto best = parameters.state_dict();
  parameters.load_state_dict(best);
  CHECK(load_parameters(parameters, p, {.strict = false}).loaded.size() == 2);
  CHECK(adam.state().size() == 4);
  adam.set_steps(n);
  CHECK(adam.steps() == n);
}

TEST_CASE("the guide: the training loop learns, and its parameters are saved") {
  const test::TemporaryFolder folder;
  const Inside inside(folder.path());
  const Tensor x = random_uniform({128, 2}, RandomStream(1), -1.0, 1.0);
  const Tensor y = sum(square(x), {1}, true);
  const Printed printed;
#include "block_4.inc"
  CHECK(mean_squared_error(model(x), y).item() < 0.01);
  CHECK(printed.text().starts_with("loss 0.0"));
  CHECK(std::filesystem::exists("mlp.h5"));
  const std::uint64_t steps = optimizer.steps();
  const std::vector<Ids> parts{Ids::from({0, 1}), Ids::from({2, 3})};
#include "block_5.inc"
  CHECK(optimizer.steps() == steps + 1);
  CHECK_THROWS_WITH_AS(model(Tensor::ones({5, 3})),
                       "hidden: linear: x has shape (5, 3), expected last axis 2 (weight is (32, "
                       "2))",
                       ShapeError);
}

TEST_CASE("the guide: a run of the program is loaded for inference") {
  const test::TemporaryFolder folder;
  const Inside inside(folder.path());
  folder.write("copy.yaml",
               "data: {task: copy, num_symbols: 4, min_length: 1, max_length: 3, train_size: 50, "
               "validation_size: 2, test_size: 2}\n"
               "model: {d_model: 8, num_heads: 2, d_ff: 16, num_encoder_layers: 1, "
               "num_decoder_layers: 1, max_length: 16}\n"
               "train: {steps: 2, batch_size: 8, threads: 1}\n");
  REQUIRE(run([](int argc, char** argv) { return run_program(argc, argv); },
              {"tapestry", "train", "copy.yaml"}) == 0);
  const Printed printed;
#include "block_7.inc"
  CHECK(std::ranges::count(printed.text(), '\n') == 2);
  CHECK(trained.step == 2);
#include "block_8.inc"
  CHECK(memory.shape() == Shape{1, 3, 8});
  CHECK_THROWS_AS(load_trained_model("runs/other"), UserError);
}

TEST_CASE("the guide: the program trains the custom model") {
  const test::TemporaryFolder folder;
  const Inside inside(folder.path());
  std::string text;
  for (int i = 0; i < 500; ++i) text += "abcabcabc\n";
  folder.write("text.txt", text);
  const std::string page = read("layers/from_pytorch.md");
  const std::size_t begin = page.find("```yaml\n") + 8;
  folder.write("my.yaml", page.substr(begin, page.find("```", begin) - begin));
  CHECK(run(guide_program,
            {"my_program", "train", "my.yaml", "train.steps=2", "train.threads=1"}) == 0);
  const TrainedModel trained = load_trained_model("runs/my");
  CHECK(trained.model->parameters.find("output.weight") != nullptr);
  CHECK(trained.model->parameters.find("output.bias") == nullptr);
  // No model can predict English from one character. The check must not call this an error.
  folder.write("text.txt", read("README.md") + read("CONTRIBUTING.md"));
  const auto program = [](int argc, char** argv) { return run_program(argc, argv); };
  CHECK(run(program, {"my_program", "check", "my.yaml"}) == 0);
}
