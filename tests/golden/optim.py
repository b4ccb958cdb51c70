# SPDX-License-Identifier: BSD-3-Clause
"""Writes optim.txt beside this file: where PyTorch's optimizers, in float64, take a weight (2, 3)
and a bias (2) in 20 steps down 0.5 * sum(curvature * (x - target)^2), under every schedule of the
learning rate with the gradients clipped, and at a constant rate without clipping. A case also holds
the norm of the gradient of every step before clipping. The schedules have cases of their own. In
the cases */groups, which have the cosine schedule, weight and bias are parameter groups with
learning rates and weight decays of their own.

    python3 tests/golden/optim.py     # needs PyTorch; the file says which version wrote it
"""

import math

import torch

from golden import GoldenFile

X = {"weight": [[1.0, -2.0, 0.5], [3.0, -0.25, 0.0]], "bias": [0.75, -1.5]}
CURVATURE = {"weight": [[1.0, 0.125, 2.0], [0.5, 3.0, 0.0]], "bias": [0.25, 1.5]}
TARGET = 0.375
STEPS, CLIP_NORM = 20, 2.0
GROUP_FACTORS = {"weight": 0.5, "bias": 3.0}
GROUP_OPTIONS = {"weight": {"weight_decay": 0.25}}
PEAK, WARMUP, DECAY_END, FLOOR = 0.1, 5, 16, 0.01

ADAM = {"betas": (0.9, 0.98), "eps": 1e-9}
OPTIMIZERS = {
    "sgd": (torch.optim.SGD, {}),
    "sgd_decay": (torch.optim.SGD, {"weight_decay": 0.1}),
    "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
    "adam": (torch.optim.Adam, ADAM),
    "adam_decay": (torch.optim.Adam, ADAM | {"weight_decay": 0.1}),
    "adamw": (torch.optim.AdamW, ADAM | {"weight_decay": 0.1}),
}


def constant(peak):
    return lambda step: peak


def linear_warmup(peak, warmup):
    return lambda step: peak * min(step / warmup, 1.0)


def inverse_sqrt(peak, warmup):
    """Vaswani et al. 2017, eq. 3, scaled so that its largest value is the peak."""
    return lambda step: peak * warmup**0.5 * min(step**-0.5, step * warmup**-1.5)


def cosine(peak, warmup, end, floor):
    """Loshchilov & Hutter 2017, eq. 5, after a linear warm-up and without restarts."""
    def rate(step):
        if step < warmup:
            return peak * step / warmup
        progress = min((step - warmup) / (end - warmup), 1.0)
        return floor + 0.5 * (peak - floor) * (1.0 + math.cos(math.pi * progress))
    return rate


SCHEDULES = {
    "constant": constant(PEAK),
    "linear_warmup": linear_warmup(PEAK, WARMUP),
    "inverse_sqrt": inverse_sqrt(PEAK, WARMUP),
    "cosine": cosine(PEAK, WARMUP, DECAY_END, FLOOR),
}


def clip_gradients(parameters, limit):
    """Scales all gradients so that their global norm is at most `limit`; returns what it was. By the
    definition: clip_grad_norm_ of PyTorch divides by 1e-6 more than the norm."""
    gradients = [parameter.grad for parameter in parameters]
    norm = math.sqrt(sum((gradient**2).sum().item() for gradient in gradients))
    for gradient in gradients:
        gradient.mul_(min(1.0, limit / norm))
    return norm


def run(optimizer_class, options, schedule, clip_norm, factors=None, group_options=None):
    """Where x ends, and the norms. The learning rate of a parameter is multiplied by its factor."""
    x = {name: torch.tensor(value, requires_grad=True) for name, value in X.items()}
    groups = [{"params": [v], "name": name} | (group_options or {}).get(name, {})
              for name, v in x.items()]
    if optimizer_class is torch.optim.AdamW:
        groups[1]["weight_decay"] = 0.0  # tapestry spares tensors with one axis
    optimizer = optimizer_class(groups, lr=PEAK, **options)
    norms = []
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        sum((0.5 * torch.tensor(CURVATURE[name]) * (v - TARGET) ** 2).sum()
            for name, v in x.items()).backward()
        norms.append(clip_gradients(x.values(), clip_norm))
        for group in optimizer.param_groups:
            group["lr"] = schedule(step) * (factors or {}).get(group["name"], 1.0)
        optimizer.step()
    return x | {"norms": norms}


def main():
    file = GoldenFile(__file__)
    for name, schedule in SCHEDULES.items():
        rates = [schedule(step) for step in range(1, STEPS + 1)]
        file.add(f"schedule/{name}", {"learning_rates": rates})
    for name, (optimizer_class, options) in OPTIMIZERS.items():
        for schedule_name, schedule in SCHEDULES.items():
            result = run(optimizer_class, options, schedule, CLIP_NORM)
            assert min(result["norms"]) < CLIP_NORM < max(result["norms"]), "clipping must matter"
            file.add(f"{name}/{schedule_name}", result)
        file.add(f"{name}/unclipped", run(optimizer_class, options, constant(PEAK), math.inf))
        file.add(f"{name}/groups", run(optimizer_class, options, SCHEDULES["cosine"], CLIP_NORM,
                                       GROUP_FACTORS, GROUP_OPTIONS))
    file.write()


if __name__ == "__main__":
    main()
