# SPDX-License-Identifier: BSD-3-Clause
"""The encoder-decoder that tapestry builds, put together from PyTorch's layers, and the names that
its parameters have here."""

import math

import torch
from torch import nn

from golden import is_later, is_padding

PADDING = 0


def tapestry_name(name):
    """The name here of a parameter that PyTorch calls `name`."""
    name = name.removeprefix("transformer.")
    norms = {"norm1": "self_attn_residual.norm", "norm2": "ff_residual.norm"}
    if name.startswith("decoder"):
        norms |= {"norm2": "cross_attn_residual.norm", "norm3": "ff_residual.norm"}
    replaced = norms | {"linear1": "ff.linear1", "linear2": "ff.linear2",
                        "multihead_attn": "cross_attn"}
    return ".".join(replaced.get(part, part) for part in name.split("."))


def parameters_of(module):
    """{name here: (value, gradient)} of every parameter; a stacked input projection is split."""
    result = {}
    for name, parameter in module.named_parameters():
        gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
        name = tapestry_name(name)
        prefix, stacked, kind = name.rpartition("in_proj_")
        if not stacked:
            result[name] = parameter, gradient
            continue
        for part, value, share in zip("qkv", parameter.chunk(3), gradient.chunk(3)):
            result[f"{prefix}{part}_proj.{kind}"] = value, share
    return result


def sinusoids(length, d_model):
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)) and PE(pos, 2i + 1) = cos(the same); Vaswani
    et al. 2017, section 3.5."""
    angles = torch.arange(length)[:, None] / 10000 ** (torch.arange(0, d_model, 2) / d_model)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


class EncoderDecoder(nn.Module):
    """Scaled embeddings plus sinusoids into nn.Transformer, with two layers on either side. `tied`
    says which embeddings share one matrix: none, target (with the output) or all."""

    def __init__(self, source_words, target_words, tied, **options):
        super().__init__()
        width, heads, pre = options["d_model"], options["nhead"], options["norm_first"]
        options |= {"dropout": 0.0, "batch_first": True}
        norm = (lambda: nn.LayerNorm(width)) if pre else (lambda: None)
        self.target_embedding = nn.Embedding(target_words, width, padding_idx=PADDING)
        self.source_embedding = (self.target_embedding if tied == "all" else
                                 nn.Embedding(source_words, width, padding_idx=PADDING))
        self.transformer = nn.Transformer(
            width, heads, batch_first=True,
            custom_encoder=nn.TransformerEncoder(nn.TransformerEncoderLayer(**options), 2, norm(),
                                                 enable_nested_tensor=False),
            custom_decoder=nn.TransformerDecoder(nn.TransformerDecoderLayer(**options), 2, norm()))
        self.output = nn.Linear(width, target_words)
        if tied != "none":
            self.output.weight = self.target_embedding.weight

    def forward(self, source, source_lengths, target, target_lengths):
        source_padding = is_padding(source_lengths, source.shape[1])
        decoded = self.transformer(
            self.embedded(self.source_embedding, source),
            self.embedded(self.target_embedding, target),
            tgt_mask=is_later(target.shape[1]), src_key_padding_mask=source_padding,
            tgt_key_padding_mask=is_padding(target_lengths, target.shape[1]),
            memory_key_padding_mask=source_padding)
        return self.output(decoded)

    @staticmethod
    def embedded(embedding, ids):
        width = embedding.embedding_dim
        return embedding(ids) * math.sqrt(width) + sinusoids(ids.shape[1], width)
