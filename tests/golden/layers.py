# SPDX-License-Identifier: BSD-3-Clause
"""Writes layers.txt beside this file: outputs and gradients of PyTorch's counterparts of the small
layers, in float64, with the weights renamed to the layout of tapestry, and the table of sinusoidal
positions by the formula of the paper.

    python3 tests/golden/layers.py     # needs PyTorch; the file says which version wrote it
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

from golden import GoldenFile, is_later, is_padding, random, randomize
from model import parameters_of, sinusoids


def layer(file, case, module, forward, **inputs):
    """A case of `module`, {path here: layer}; forward takes the inputs."""
    file.add_backward(case, inputs, forward(**inputs), lambda: parameters_of(module))


def of_one_input(file, case, path, module):
    randomize(module)
    layer(file, case, nn.ModuleDict({path: module}), lambda x: module(x),
          x=random(2, 3, 5).requires_grad_())


def embedding_cases(file):
    ids = torch.tensor([[3, 1, 0, 3], [6, 3, 0, 0]])
    for case, padding in {"embedding/all_ids": None, "embedding/padding": 0}.items():
        module = randomize(nn.Embedding(7, 5, padding_idx=padding))
        layer(file, case, nn.ModuleDict({"embedding": module}),
              lambda ids: module(ids) * math.sqrt(5), ids=ids)


def position_cases(file):
    file.add("positions/table", {"output": sinusoids(20, 6)})
    layer(file, "positions/sinusoidal", nn.Module(), lambda x: x + sinusoids(3, 6),
          x=random(2, 3, 6).requires_grad_())
    learned = randomize(nn.Embedding(5, 4))
    layer(file, "positions/learned", nn.ModuleDict({"positions": learned}),
          lambda x: x + learned(torch.arange(3)), x=random(2, 3, 4).requires_grad_())


class FeedForward(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.linear1, self.linear2, self.activation = nn.Linear(5, 7), nn.Linear(7, 5), activation

    def forward(self, x):
        return self.linear2(self.activation(self.linear1(x)))


def feed_forward_cases(file):
    for activation, function in {"relu": F.relu, "gelu": F.gelu,
                                 "gelu_tanh": lambda x: F.gelu(x, approximate="tanh")}.items():
        module = randomize(FeedForward(function))
        layer(file, f"feed_forward/{activation}", module, module,
              x=random(2, 3, 5).requires_grad_())


class GatedFeedForward(nn.Module):
    """Shazeer 2020, eq. 6, with biases; the rows of linear1 give values, then gates."""

    def __init__(self, activation):
        super().__init__()
        self.linear1, self.linear2, self.activation = nn.Linear(5, 14), nn.Linear(7, 5), activation

    def forward(self, x):
        values, gates = self.linear1(x).chunk(2, -1)
        return self.linear2(values * self.activation(gates))


def later_feed_forward_cases(file):
    for activation, module in {"silu": FeedForward(F.silu), "swiglu": GatedFeedForward(F.silu),
                               "geglu": GatedFeedForward(F.gelu)}.items():
        randomize(module)
        layer(file, f"feed_forward/{activation}", module, module,
              x=random(2, 3, 5).requires_grad_())


def attention(file, case, inputs, lengths=None, causal=False):
    """Queries from x, keys and values from memory, or else from x."""
    module = randomize(nn.MultiheadAttention(4, 2, batch_first=True))
    x, memory = inputs["x"], inputs.get("memory", inputs["x"])
    length = memory.shape[1]
    y, weights = module(x, memory, memory, average_attn_weights=False,
                        key_padding_mask=None if lengths is None else is_padding(lengths, length),
                        attn_mask=is_later(length) if causal else None)
    options = ({} if lengths is None else {"lengths": lengths}) | {"causal": causal}
    file.add_backward(case, inputs | options, y,
                      lambda: parameters_of(nn.ModuleDict({"attn": module})), {"weights": weights})


def attention_cases(file):
    for form, masks in {"unmasked": {}, "padding": {"lengths": [3, 2]}, "causal": {"causal": True},
                        "padding_causal": {"lengths": [3, 2], "causal": True}}.items():
        attention(file, f"attention/self_{form}", {"x": random(2, 3, 4).requires_grad_()}, **masks)
    for form, masks in {"unmasked": {}, "padding": {"lengths": [2, 4]}}.items():
        inputs = {"x": random(2, 3, 4).requires_grad_(),
                  "memory": random(2, 4, 4).requires_grad_()}
        attention(file, f"attention/cross_{form}", inputs, **masks)


def batch_norm_cases(file):
    """Training on `earlier` and then on x, and inference with moments that are given."""
    inputs = {"earlier": random(2, 3, 5), "x": random(2, 3, 5).requires_grad_()}
    module = randomize(nn.BatchNorm1d(5))
    module(inputs["earlier"].flatten(0, 1))
    y = module(inputs["x"].flatten(0, 1)).reshape(2, 3, 5)
    file.add_backward("batch_norm/training", inputs, y,
                      lambda: parameters_of(nn.ModuleDict({"norm": module})),
                      {"running_mean": module.running_mean, "running_var": module.running_var})
    module = randomize(nn.BatchNorm1d(5)).eval()
    module.running_mean, module.running_var = random(5), random(5, low=0.5, high=2)
    layer(file, "batch_norm/inference", nn.ModuleDict({"norm": module}),
          lambda x, running_mean, running_var: module(x.flatten(0, 1)).reshape(2, 3, 5),
          x=random(2, 3, 5).requires_grad_(), running_mean=module.running_mean,
          running_var=module.running_var)


def main():
    file = GoldenFile(__file__)
    of_one_input(file, "linear", "linear", nn.Linear(5, 3))
    of_one_input(file, "layer_norm/default", "norm", nn.LayerNorm(5))
    of_one_input(file, "layer_norm/epsilon", "norm", nn.LayerNorm(5, eps=0.25))
    embedding_cases(file)
    position_cases(file)
    feed_forward_cases(file)
    attention_cases(file)
    later_feed_forward_cases(file)
    of_one_input(file, "rms_norm", "norm", nn.RMSNorm(5, eps=1e-5))
    batch_norm_cases(file)
    file.write()


if __name__ == "__main__":
    main()
