# SPDX-License-Identifier: BSD-3-Clause
# Logistic regression on NumPy arrays: standardization and metrics are NumPy expressions; the loss
# and its gradients are tensors. The same program as logistic_regression.cpp, in PyTorch.

import sys
import time

import numpy as np
import torch
import torch.nn.functional as F

EXAMPLES, FEATURES, TRAINING, STEPS = 20000, 32, 16000, 300


# The area under the ROC curve: how often a positive example has a higher score than a negative
# example, computed from the ranks of the scores (Mann-Whitney U).
def roc_auc(scores, labels):
    ranks = np.argsort(np.argsort(scores)) + 1.0
    positive = labels.sum()
    negative = len(labels) - positive
    rank_sum = (ranks * labels).sum()
    return (rank_sum - positive * (positive + 1.0) / 2.0) / (positive * negative)


def main():
    torch.set_num_threads(2)
    random = np.random.default_rng(1)
    true_weights = random.standard_normal(FEATURES, dtype=np.float32)
    noise = random.standard_normal((EXAMPLES, FEATURES), dtype=np.float32)
    scales = np.exp(random.standard_normal(FEATURES, dtype=np.float32))
    measured = 5.0 + scales * noise
    chances = 1.0 / (1.0 + np.exp(-(noise * true_weights).sum(1)))
    labels = (random.random(EXAMPLES) < chances).astype(np.float32)

    train, test = measured[:TRAINING], measured[TRAINING:]
    actual = labels[TRAINING:]
    mean_of_train = train.mean(0)
    deviation = train.std(0)
    x = torch.from_numpy((train - mean_of_train) / deviation)
    y = torch.from_numpy(labels[:TRAINING, None])

    weight = torch.zeros(1, FEATURES, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    start = time.perf_counter()
    for step in range(STEPS):
        loss = F.binary_cross_entropy_with_logits(F.linear(x, weight, bias), y)
        loss.backward()
        with torch.no_grad():
            for parameter in (weight, bias):
                parameter -= 1.0 * parameter.grad
                parameter.grad = None
        if step % 100 == 99:
            print(f"step {step + 1:3}  loss {loss.item():.4f}")
    print(f"trained in {time.perf_counter() - start:.3f} s")

    with torch.no_grad():
        x_test = torch.from_numpy((test - mean_of_train) / deviation)
        scores = F.linear(x_test, weight, bias).numpy().ravel()
    predicted = (scores > 0.0).astype(np.float32)
    accuracy = (predicted == actual).mean()
    true_positives = (predicted * actual).sum()
    precision = true_positives / predicted.sum()
    recall = true_positives / actual.sum()
    auc = roc_auc(scores, actual)
    print(
        f"accuracy {accuracy:.3f}  precision {precision:.3f}  "
        f"recall {recall:.3f}  ROC AUC {auc:.3f}"
    )
    learned = weight.detach().numpy().ravel()
    norms = np.linalg.norm(learned) * np.linalg.norm(true_weights)
    similarity = learned @ true_weights / norms
    print(f"cosine of learned and true weights {similarity:.4f}")
    return 0 if similarity > 0.99 and auc > 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
