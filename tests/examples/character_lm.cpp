// SPDX-License-Identifier: BSD-3-Clause
// Trains a Transformer to predict the next character of a text, and samples text from it.
//
//     character_lm [text.txt [temperature]]
//
// Without a file, it learns four lines of a sonnet. character_lm.py is the same program in PyTorch.

#include <tapestry.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

using namespace tapestry;

namespace {

constexpr const char* sonnet =
    "Shall I compare thee to a summer's day?\n"
    "Thou art more lovely and more temperate:\n"
    "Rough winds do shake the darling buds of May,\n"
    "And summer's lease hath all too short a date.\n";
constexpr std::size_t context = 32, rows = 16, d_model = 64, steps = 300;

/// Characters and their ids.
struct Alphabet {
  std::string characters;

  explicit Alphabet(const std::string& text) {
    const std::set<char> distinct(text.begin(), text.end());
    characters.assign(distinct.begin(), distinct.end());
  }
  /// (1, characters of the text)
  Ids encode(const std::string& text) const {
    Ids ids = Ids::zeros({1, text.size()});
    for (std::size_t i = 0; i < text.size(); ++i) ids[i] = std::int32_t(characters.find(text[i]));
    return ids;
  }
};

/// `context` characters from each start position, (rows, context).
Ids windows(const Ids& text, const Ids& starts, std::size_t offset) {
  Ids result = Ids::zeros({starts.size(), context});
  for (std::size_t row = 0; row < starts.size(); ++row) {
    for (std::size_t i = 0; i < context; ++i) result(row, i) = text[starts[row] + offset + i];
  }
  return result;
}

struct CharacterModel {
  Scope scope;
  std::size_t vocabulary;
  Embedding embedding{scope / "embedding", vocabulary, d_model};
  Positions positions{
      scope / "positions", d_model, {.kind = PositionKind::learned, .max_length = context}};
  Encoder encoder{scope / "encoder",
                  d_model,
                  {.num_layers = 2,
                   .layer = {.self_attn = {.num_heads = 4, .dropout = 0.1},
                             .ff = {.activation = Activation::gelu, .dropout = 0.1},
                             .residual = {.dropout = 0.1}}}};
  Linear output{scope / "output", d_model, vocabulary};

  /// ids (rows, n) -> logits of each next character (rows, n, vocabulary).
  Tensor operator()(const Ids& ids, const Mode& mode) const {
    return output(encoder(positions(embedding(ids)), AttentionMask::causal(), mode));
  }
};

std::string sample(const CharacterModel& model, const Alphabet& alphabet, std::string text,
                   std::size_t count, double temperature) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::string last = text.substr(text.size() - std::min(text.size(), context));
    const Tensor logits = select(model(alphabet.encode(last), Mode::inference()), 1, -1);
    const Ids next = random_categorical(logits / temperature, RandomStream(1).at(i));
    text += alphabet.characters[next[0]];
  }
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  set_num_threads(2);
  std::string text = sonnet;
  if (argc > 1) {
    std::ifstream file(argv[1]);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const double temperature = argc > 2 ? std::atof(argv[2]) : 0.5;
  const Alphabet alphabet(text);
  const Ids ids = alphabet.encode(text);

  Parameters parameters(DType::float32, /*seed=*/1);
  const CharacterModel model{parameters, alphabet.characters.size()};
  Adam optimizer(parameters.list(), {});
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t step = 0; step < steps; ++step) {
    const RandomStream random = RandomStream(1).at(step);
    const Ids starts = random_ids({rows}, random, 0, std::int32_t(ids.size() - context));
    parameters.zero_grad();
    Tape tape;
    const Tensor logits = model(windows(ids, starts, 0), Mode::training(random.named("dropout")));
    const Tensor loss = cross_entropy(logits, windows(ids, starts, 1)).mean;
    tape.backward(loss);
    optimizer.step(3e-3);
    if (step % 50 == 49) std::printf("step %3zu  loss %.4f\n", step + 1, loss.item());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("trained in %.3f s\n", seconds.count());

  const std::string prompt = text.substr(0, 10);
  std::printf("%s\n", sample(model, alphabet, prompt, 150, temperature).c_str());
  const bool learned = sample(model, alphabet, prompt, 70, 0.1) == text.substr(0, 80);
  return argc > 1 || learned ? 0 : 1;
}
