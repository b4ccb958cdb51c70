// SPDX-License-Identifier: BSD-3-Clause
// Logistic regression on xtensor arrays: standardization and metrics are xtensor expressions, the
// loss and its gradients are tensors. logistic_regression.py is the same program with NumPy and
// PyTorch.

#include <tapestry.h>
#include <tapestry/xtensor.h>

#include <chrono>
#include <cstdio>
#include <xtensor/xmath.hpp>
#include <xtensor/xnorm.hpp>
#include <xtensor/xrandom.hpp>
#include <xtensor/xsort.hpp>
#include <xtensor/xview.hpp>

using namespace tapestry;

namespace {

constexpr std::ptrdiff_t examples = 20000, features = 32, training = 16000;

using Array = xt::xarray<float>;

/// The area under the ROC curve: how often a positive example has a higher score than a negative
/// example, computed from the ranks of the scores (Mann-Whitney U).
double roc_auc(const Array& scores, const Array& labels) {
  const Array ranks = xt::argsort(xt::argsort(scores)) + 1.0;
  const double positive = xt::sum<double>(labels)(), negative = double(labels.size()) - positive;
  const double sum = xt::sum<double>(ranks * labels)();
  return (sum - positive * (positive + 1.0) / 2.0) / (positive * negative);
}

}  // namespace

int main() {
  set_num_threads(2);
  xt::random::seed(1);
  const Array true_weights = xt::random::randn<float>({features});
  const Array noise = xt::random::randn<float>({examples, features});
  const Array scales = xt::exp(xt::random::randn<float>({features}));
  const Array measured = 5.0F + scales * noise;
  const Array chances = 1.0F / (1.0F + xt::exp(-xt::sum(noise * true_weights, {1})));
  const Array labels = xt::cast<float>(xt::random::rand<float>({examples}) < chances);

  const Array train = xt::view(measured, xt::range(0, training));
  const Array test = xt::view(measured, xt::range(training, examples));
  const Array actual = xt::view(labels, xt::range(training, examples));
  const Array mean_of_train = xt::mean(train, {0});
  const Array deviation = xt::sqrt(xt::mean(xt::square(train - mean_of_train), {0}));
  const Tensor x = to_tensor((train - mean_of_train) / deviation);
  const Tensor y = to_tensor(xt::view(labels, xt::range(0, training), xt::newaxis()));

  Tensor weight = Tensor::zeros({1, features}).set_requires_grad(true);
  Tensor bias = Tensor::zeros({1}).set_requires_grad(true);
  const auto start = std::chrono::steady_clock::now();
  for (int step = 0; step < 300; ++step) {
    Tape tape;
    const Tensor loss = binary_cross_entropy_with_logits(linear(x, weight, bias), y);
    tape.backward(loss);
    for (Tensor parameter : {weight, bias}) {
      as_mutable_xtensor<float>(parameter) -= 1.0F * as_xtensor<float>(parameter.grad());
      parameter.zero_grad();
    }
    if (step % 100 == 99) std::printf("step %3d  loss %.4f\n", step + 1, loss.item());
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("trained in %.3f s\n", seconds.count());

  const Tensor logits = linear(to_tensor((test - mean_of_train) / deviation), weight, bias);
  const Array scores = xt::flatten(as_xtensor<float>(logits));
  const Array predicted = xt::cast<float>(scores > 0.0F);
  const double accuracy = xt::mean<double>(xt::cast<double>(xt::equal(predicted, actual)))();
  const double true_positives = xt::sum<double>(predicted * actual)();
  const double precision = true_positives / xt::sum<double>(predicted)();
  const double recall = true_positives / xt::sum<double>(actual)();
  const double auc = roc_auc(scores, actual);
  std::printf("accuracy %.3f  precision %.3f  recall %.3f  ROC AUC %.3f\n", accuracy, precision,
              recall, auc);
  const Array learned = xt::flatten(as_xtensor<float>(weight));
  const double norms = xt::norm_l2(learned)() * xt::norm_l2(true_weights)();
  const double similarity = xt::sum<double>(learned * true_weights)() / norms;
  std::printf("cosine of learned and true weights %.4f\n", similarity);
  return similarity > 0.99 && auc > 0.9 ? 0 : 1;
}
