# SPDX-License-Identifier: BSD-3-Clause
"""What the scripts of this folder share: their random numbers and the files that they write.
tests/support/golden.h describes the format and reads it."""

import pathlib

import torch


def on_grid(x):
    """Rounded to multiples of 1/256, which float32 holds exactly: tests of either precision start
    from the same numbers."""
    return (x * 256).round() / 256


def random(*shape, low=-1.5, high=1.5):
    return on_grid(torch.empty(shape).uniform_(low, high))


def away_from_zero(*shape):
    """Of either sign, with magnitudes from 0.5 to 1.5."""
    return random(*shape, low=0.5, high=1.5) * torch.where(torch.rand(shape) < 0.5, -1, 1)


def randomize(module):
    """No parameter keeps an initial value that hides a mistake, such as a bias of 0."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.empty_like(parameter).uniform_(-0.5, 0.5))
            parameter.copy_(on_grid(parameter))
    return module


def digits(number):
    """As many as it takes to read the same float64 again, 17 at the most."""
    return repr(number).removesuffix(".0")


def is_padding(lengths, length):
    return torch.arange(length)[None, :] >= torch.as_tensor(lengths)[:, None]


def is_later(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


class GoldenFile:
    """The text file next to a script and under its name. Everything is computed in float64."""

    def __init__(self, script, seed=1):
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1)
        script = pathlib.Path(script)
        self.path = script.with_suffix(".txt")
        self.lines = [f"# Written by tests/golden/{script.name} with PyTorch {torch.__version__}."]

    def add(self, case, tensors):
        """Adds a case of these tensors, {name: value}."""
        self.lines.append(f"[{case}]")
        for name, value in tensors.items():
            value = torch.as_tensor(value).detach().double()
            self.lines.append(" ".join([name, *map(str, value.shape)]))
            self.lines.append(" ".join(map(digits, value.flatten().tolist())))

    def add_backward(self, case, inputs, output, parameters=dict, extra=None):
        """Adds a case that runs backward from a random dL/d(output). Inputs are tensors or numbers;
        `parameters` makes {name: (value, gradient)} when the gradients are there."""
        output_gradient = random(*output.shape)
        output.backward(output_gradient)
        tensors = {f"input/{name}": value for name, value in inputs.items()}
        tensors |= {"output": output, "output_gradient": output_gradient} | (extra or {})
        tensors |= {f"gradient/{name}": value.grad for name, value in inputs.items()
                    if isinstance(value, torch.Tensor) and value.requires_grad}
        for name, (value, gradient) in parameters().items():
            tensors |= {f"parameter/{name}": value, f"gradient/{name}": gradient}
        self.add(case, tensors)

    def write(self):
        self.path.write_text("\n".join(self.lines) + "\n", encoding="ascii")
