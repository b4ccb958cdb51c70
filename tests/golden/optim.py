"""Writes optim.txt beside this file: where PyTorch's optimisers, in float64, take a weight (2, 3)
and a bias (2) in 20 steps down 0.5 * sum(curvature * (x - target)^2). For each case a line with
its name, a line with the weight and a line with the bias, 17 digits each.

    python3 tests/golden/optim.py     # needs PyTorch
"""

import pathlib

import torch

WEIGHT, BIAS = [[1.0, -2.0, 0.5], [3.0, -0.25, 0.0]], [0.75, -1.5]
CURVATURE = {"weight": torch.tensor([[1.0, 0.1, 2.0], [0.5, 3.0, 0.0]], dtype=torch.float64),
             "bias": torch.tensor([0.2, 1.5], dtype=torch.float64)}
TARGET = 0.3
STEPS, LEARNING_RATE = 20, 0.05

ADAM = {"betas": (0.9, 0.98), "eps": 1e-9}
CASES = {
    "sgd": (torch.optim.SGD, {"weight_decay": 0.1}),
    "sgd_momentum": (torch.optim.SGD, {"momentum": 0.9, "weight_decay": 0.1}),
    "adam": (torch.optim.Adam, ADAM),
    "adam_decay": (torch.optim.Adam, ADAM | {"weight_decay": 0.1}),
    "adamw": (torch.optim.AdamW, ADAM | {"weight_decay": 0.1}),
}


def run(optimizer_class, options):
    x = {"weight": torch.tensor(WEIGHT, dtype=torch.float64, requires_grad=True),
         "bias": torch.tensor(BIAS, dtype=torch.float64, requires_grad=True)}
    groups = [{"params": [x["weight"]]}, {"params": [x["bias"]]}]
    if optimizer_class is torch.optim.AdamW:
        groups[1]["weight_decay"] = 0.0  # tapestry spares tensors with one axis
    optimizer = optimizer_class(groups, lr=LEARNING_RATE, **options)
    for _ in range(STEPS):
        optimizer.zero_grad()
        sum((0.5 * CURVATURE[name] * (v - TARGET) ** 2).sum() for name, v in x.items()).backward()
        optimizer.step()
    return x


def main():
    lines = [f"# Written by tests/golden/optim.py with PyTorch {torch.__version__}."]
    for case, (optimizer_class, options) in CASES.items():
        x = run(optimizer_class, options)
        lines.append(case)
        lines += [" ".join(format(v, ".17g") for v in value.flatten().tolist())
                  for value in x.values()]
    path = pathlib.Path(__file__).with_name("optim.txt")
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
