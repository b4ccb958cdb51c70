"""Writes the golden files of the layer tests: what PyTorch computes, in float64, with the weights
renamed to the layout of tapestry. tests/support/golden.h describes the format.

    python3 tests/golden/transformer.py     # rewrites *.txt beside this file; needs PyTorch

Every case holds random parameters and inputs, the output, a random dL/d(output) and the gradients
that follow from it.
"""

import math
import pathlib

import torch
from torch import nn
from torch.nn import functional as F

D_MODEL, HEADS, D_FF = 4, 2, 6
SOURCE_WORDS, TARGET_WORDS, PADDING = 7, 6, 0
SOURCE = torch.tensor([[3, 5, 2, 6], [4, 3, 0, 0]]), [4, 2]
TARGET = torch.tensor([[1, 4, 5], [1, 3, 0]]), [3, 2]


def random(*shape):
    return torch.empty(*shape).uniform_(-1.5, 1.5)


def randomise(module):
    """No parameter keeps an initial value that hides a mistake, such as a bias of 0."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(torch.empty_like(parameter).uniform_(-0.5, 0.5))
    return module


def is_padding(lengths, length):
    return torch.arange(length)[None, :] >= torch.tensor(lengths)[:, None]


def is_later(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def tapestry_name(name):
    """The name here of a parameter that PyTorch calls `name`."""
    norms = {"norm1": "self_attn_residual.norm", "norm2": "ff_residual.norm"}
    if name.startswith("decoder"):
        norms |= {"norm2": "cross_attn_residual.norm", "norm3": "ff_residual.norm"}
    replaced = norms | {"linear1": "ff.linear1", "linear2": "ff.linear2",
                        "multihead_attn": "cross_attn"}
    return ".".join(replaced.get(part, part) for part in name.split("."))


def parameters_of(module):
    """(name here, value, gradient) of every parameter; a stacked input projection is split."""
    for name, parameter in module.named_parameters():
        name = tapestry_name(name)
        prefix, stacked, kind = name.rpartition("in_proj_")
        if not stacked:
            yield name, parameter, parameter.grad
            continue
        for part, value, gradient in zip("qkv", parameter.chunk(3), parameter.grad.chunk(3)):
            yield f"{prefix}{part}_proj.{kind}", value, gradient


def write(case, inputs, module, output, extra=()):
    """Runs backward from a random dL/d(output) and writes everything of the case."""
    output_gradient = random(*output.shape)
    output.backward(output_gradient)
    tensors = [(f"input/{name}", torch.as_tensor(value)) for name, value in inputs.items()]
    tensors += [("output", output), ("output_gradient", output_gradient), *extra]
    tensors += [(f"gradient/{name}", value.grad) for name, value in inputs.items()
                if isinstance(value, torch.Tensor) and value.requires_grad]
    for name, value, gradient in parameters_of(module):
        tensors += [(f"parameter/{name}", value), (f"gradient/{name}", gradient)]
    lines = [f"# Written by tests/golden/transformer.py with PyTorch {torch.__version__}."]
    for name, value in tensors:
        lines.append(" ".join([name, *map(str, value.shape)]))
        numbers = value.detach().double().flatten().tolist()
        lines.append(" ".join(format(number, ".17g") for number in numbers))
    path = pathlib.Path(__file__).with_name(f"{case}.txt")
    path.write_text("\n".join(lines) + "\n", encoding="ascii")


class Named(nn.Module):
    """One layer under the name that the C++ test gives it."""

    def __init__(self, name, layer):
        super().__init__()
        self.add_module(name, layer)
        self.layer = lambda *args, **kwargs: layer(*args, **kwargs)


def attention_cases():
    x, memory = random(2, 3, D_MODEL).requires_grad_(), random(2, 4, D_MODEL).requires_grad_()
    module = randomise(Named("attn", nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)))
    y, weights = module.layer(x, x, x, key_padding_mask=is_padding([3, 2], 3),
                              attn_mask=is_later(3), average_attn_weights=False)
    write("attention_self", {"x": x, "lengths": [3, 2]}, module, y, [("weights", weights)])

    module.zero_grad()
    x.grad = None
    y, weights = module.layer(x, memory, memory, key_padding_mask=is_padding([2, 4], 4),
                              average_attn_weights=False)
    write("attention_cross", {"x": x, "memory": memory, "lengths": [2, 4]}, module, y,
          [("weights", weights)])


def gelu_tanh(x):
    return F.gelu(x, approximate="tanh")


def layer_options(norm_first, activation):
    return {"d_model": D_MODEL, "nhead": HEADS, "dim_feedforward": D_FF, "dropout": 0.0,
            "batch_first": True, "norm_first": norm_first, "activation": activation}


def encoder_layer_case(case, norm_first, activation):
    x = random(2, 3, D_MODEL).requires_grad_()
    layer = nn.TransformerEncoderLayer(**layer_options(norm_first, activation))
    module = randomise(Named("encoder", layer))
    y = module.layer(x, src_key_padding_mask=is_padding([3, 2], 3))
    write(case, {"x": x, "lengths": [3, 2]}, module, y)


def decoder_layer_case(case, norm_first, activation):
    x, memory = random(2, 3, D_MODEL).requires_grad_(), random(2, 4, D_MODEL).requires_grad_()
    layer = nn.TransformerDecoderLayer(**layer_options(norm_first, activation))
    module = randomise(Named("decoder", layer))
    y = module.layer(x, memory, tgt_mask=is_later(3), tgt_key_padding_mask=is_padding([3, 2], 3),
                     memory_key_padding_mask=is_padding([2, 4], 4))
    write(case, {"x": x, "memory": memory, "lengths": [3, 2], "memory_lengths": [2, 4]}, module, y)


def sinusoids(length):
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, D_MODEL, 2) / D_MODEL)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class EncoderDecoder(nn.Module):
    """Scaled embeddings plus sinusoids into two encoder and two decoder layers."""

    def __init__(self, norm_first, activation, tied):
        super().__init__()
        options = layer_options(norm_first, activation)
        norm = (lambda: nn.LayerNorm(D_MODEL)) if norm_first else (lambda: None)
        self.source_embedding = nn.Embedding(SOURCE_WORDS, D_MODEL, padding_idx=PADDING)
        self.target_embedding = nn.Embedding(TARGET_WORDS, D_MODEL, padding_idx=PADDING)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**options), 2, norm(),
                                             enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(**options), 2, norm())
        self.output = nn.Linear(D_MODEL, TARGET_WORDS)
        if tied:
            self.output.weight = self.target_embedding.weight

    def forward(self, source, source_lengths, target, target_lengths):
        source_padding = is_padding(source_lengths, source.shape[1])
        target_padding = is_padding(target_lengths, target.shape[1])
        x = self.source_embedding(source) * math.sqrt(D_MODEL) + sinusoids(source.shape[1])
        y = self.target_embedding(target) * math.sqrt(D_MODEL) + sinusoids(target.shape[1])
        memory = self.encoder(x, src_key_padding_mask=source_padding)
        decoded = self.decoder(y, memory, tgt_mask=is_later(target.shape[1]),
                               tgt_key_padding_mask=target_padding,
                               memory_key_padding_mask=source_padding)
        return self.output(decoded)


def transformer_case(case, norm_first, activation, tied):
    module = randomise(EncoderDecoder(norm_first, activation, tied))
    inputs = {"source": SOURCE[0], "source_lengths": SOURCE[1], "target": TARGET[0],
              "target_lengths": TARGET[1]}
    write(case, inputs, module, module(*inputs.values()))


def main():
    torch.manual_seed(1)
    torch.set_default_dtype(torch.float64)
    attention_cases()
    encoder_layer_case("encoder_layer_pre", True, "gelu")
    encoder_layer_case("encoder_layer_post", False, "relu")
    decoder_layer_case("decoder_layer_pre", True, gelu_tanh)
    decoder_layer_case("decoder_layer_post", False, "relu")
    transformer_case("transformer_pre_tied", True, "gelu", tied=True)
    transformer_case("transformer_post", False, "relu", tied=False)


if __name__ == "__main__":
    main()
