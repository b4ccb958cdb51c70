// SPDX-License-Identifier: BSD-3-Clause
// Why dot products work: users and films become vectors, learned only from ratings. The dot product
// of a user and a film predicts how much the user likes the film. The elements of the vectors have
// no given meaning, but films of the same genre get similar vectors.

#include <tapestry/autograd/ops/elementwise.h>
#include <tapestry/autograd/ops/losses.h>
#include <tapestry/autograd/ops/reductions.h>
#include <tapestry/autograd/random.h>
#include <tapestry/autograd/tape.h>
#include <tapestry/layers/embedding.h>
#include <tapestry/layers/parameters.h>
#include <tapestry/optim/adam.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

using namespace tapestry;

namespace {

constexpr std::size_t users = 40, films = 20, width = 2;
constexpr std::size_t genres = 2;  // films with an even number are comedies, the others thrillers

/// How much a user likes a film, from -1 to 1. Users who like comedies dislike thrillers.
double taste(std::size_t user, std::size_t film) {
  const double for_comedies = std::cos(static_cast<double>(user));
  return film % genres == 0 ? for_comedies : -for_comedies;
}

/// Ratings of pairs of users and films: three quarters of all pairs; the others are held out.
struct Ratings {
  Ids user = Ids::zeros({1, users*films}), film = user;
  std::vector<double> rating;
};

Ratings ratings(bool known) {
  Ratings some;
  std::vector<std::array<std::int32_t, 2>> pairs;
  for (std::size_t u = 0; u < users; ++u) {
    for (std::size_t f = 0; f < films; ++f) {
      const bool held_out = RandomStream(1).uniform(u * films + f) < 0.25;
      if (held_out == known) continue;
      pairs.push_back({static_cast<std::int32_t>(u), static_cast<std::int32_t>(f)});
      some.rating.push_back(taste(u, f));
    }
  }
  some.user = some.film = Ids::zeros({1, pairs.size()});
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    some.user(0, i) = pairs[i][0];
    some.film(0, i) = pairs[i][1];
  }
  return some;
}

/// The mean squared error of user · film as a prediction of the rating.
Tensor error(const Embedding& of_users, const Embedding& of_films, const Ratings& some) {
  const Tensor products = mul(of_users(some.user), of_films(some.film));  // (1, pairs, width)
  return mean_squared_error(sum(products, {-1}),
                            Tensor::from({1, some.rating.size()}, some.rating, DType::float32));
}

double cosine(const Tensor& vectors, std::size_t a, std::size_t b) {
  const auto values = vectors.values<float>();
  double ab = 0.0, aa = 0.0, bb = 0.0;
  for (std::size_t i = 0; i < width; ++i) {
    const double x = values[a * width + i], y = values[b * width + i];
    ab += x * y, aa += x * x, bb += y * y;
  }
  return ab / std::sqrt(aa * bb);
}

}  // namespace

int main() {
  Parameters parameters(DType::float32, 1);
  const Embedding of_users(Scope(parameters) / "users", users, width);
  const Embedding of_films(Scope(parameters) / "films", films, width);
  Adam adam(parameters.list(), {});

  const Ratings known = ratings(true), unknown = ratings(false);
  for (int step = 0; step < 400; ++step) {
    parameters.zero_grad();
    Tape tape;
    const Tensor loss = error(of_users, of_films, known);
    tape.backward(loss);
    adam.step(0.02);
    if (step % 100 == 0) std::printf("step %3d  error %.4f\n", step, loss.item());
  }
  const double test_error = error(of_users, of_films, unknown).item();
  const Tensor vectors = parameters.find("films.weight")->tensor;
  std::printf("error of %zu ratings never seen: %.4f\n", unknown.rating.size(), test_error);
  std::printf("cosine of two comedies %.3f, of a comedy and a thriller %.3f\n",
              cosine(vectors, 0, 2), cosine(vectors, 0, 1));
  return test_error < 0.02 && cosine(vectors, 0, 2) > 0.9 && cosine(vectors, 0, 1) < -0.9 ? 0 : 1;
}
