# SPDX-License-Identifier: BSD-3-Clause
"""The models of bench_step, written in PyTorch for speed on a CPU.

Attention is composed of single operations: on 2 threads, toy, tiny, char, base and long took 1 to 20 %
less time than with nn.TransformerEncoder and nn.TransformerDecoder (PyTorch 2.13). With dropout,
F.scaled_dot_product_attention has no fused kernel on the CPU and composes the same operations with
more passes over the scores. Projections of one input are one matrix product. Modules, except such
joint projections, have Tapestry's names.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F

DROPOUT = 0.1
JOINT_PROJECTIONS = ("q_proj", "kv_proj", "qkv_proj")


class Attention(nn.Module):
    """Multi-head self-attention, or cross-attention if `cross`."""

    def __init__(self, width, heads, cross):
        super().__init__()
        self.heads = heads
        if cross:
            self.q_proj, self.kv_proj = nn.Linear(width, width), nn.Linear(width, 2 * width)
        else:
            self.qkv_proj = nn.Linear(width, 3 * width)
        self.out_proj = nn.Linear(width, width)

    def forward(self, x, memory=None, mask=None):
        """x (batch, n, width); mask (n, n), 0 where a query may attend and -inf elsewhere."""
        if memory is None:
            q, k, v = self.qkv_proj(x).chunk(3, -1)
        else:
            q, (k, v) = self.q_proj(x), self.kv_proj(memory).chunk(2, -1)
        q, k, v = map(self.split_heads, (q, k, v))
        scores = self.scores(q, k, mask)
        weights = F.dropout(scores.softmax(-1), DROPOUT, self.training)
        return self.out_proj(self.join_heads(weights @ v, x.shape))

    def split_heads(self, x):
        """(batch, n, width) to (batch * heads, n, width / heads)."""
        batch, length, width = x.shape
        x = x.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
        return x.reshape(batch * self.heads, length, width // self.heads)

    def join_heads(self, x, shape):
        batch, length, width = shape
        x = x.view(batch, self.heads, length, width // self.heads)
        return x.transpose(1, 2).reshape(shape)

    @staticmethod
    def scores(q, k, mask):
        scale = 1 / math.sqrt(q.shape[-1])
        if mask is None:
            return torch.baddbmm(q.new_empty(1, 1, 1), q, k.transpose(1, 2), beta=0, alpha=scale)
        return torch.baddbmm(mask, q, k.transpose(1, 2), alpha=scale)


class FeedForward(nn.Module):
    def __init__(self, width, inner_width):
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(width, inner_width), nn.Linear(inner_width, width)

    def forward(self, x):
        return self.linear2(F.dropout(F.relu(self.linear1(x)), DROPOUT, self.training))


class Residual(nn.Module):
    """x + dropout(sublayer(norm(x)))."""

    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)

    def forward(self, x, sublayer):
        return x + F.dropout(sublayer(self.norm(x)), DROPOUT, self.training)


class Layer(nn.Module):
    """A layer of an encoder or, with attention to the encoder's output, of a decoder."""

    def __init__(self, width, heads, inner_width, cross):
        super().__init__()
        self.self_attn = Attention(width, heads, cross=False)
        self.self_attn_residual = Residual(width)
        if cross:
            self.cross_attn = Attention(width, heads, cross=True)
            self.cross_attn_residual = Residual(width)
        self.ff = FeedForward(width, inner_width)
        self.ff_residual = Residual(width)

    def forward(self, x, memory=None, mask=None):
        x = self.self_attn_residual(x, lambda v: self.self_attn(v, mask=mask))
        if memory is not None:
            x = self.cross_attn_residual(x, lambda v: self.cross_attn(v, memory))
        return self.ff_residual(x, self.ff)


class Stack(nn.Module):
    def __init__(self, problem, layers, cross):
        super().__init__()
        sizes = problem["d_model"], problem["num_heads"], problem["d_ff"]
        self.layers = nn.ModuleList(Layer(*sizes, cross) for _ in range(layers))
        self.norm = nn.LayerNorm(problem["d_model"])

    def forward(self, x, memory=None, mask=None):
        for layer in self.layers:
            x = layer(x, memory, mask)
        return self.norm(x)


class Transformer(nn.Module):
    """Encoder-decoder, or only a decoder where the problem has no encoder layers; ids to logits."""

    def __init__(self, problem):
        super().__init__()
        words, width, length = problem["vocabulary"], problem["d_model"], problem["length"]
        self.has_encoder = problem["num_encoder_layers"] > 0
        if self.has_encoder:
            self.source_embedding = nn.Embedding(words, width)
            self.target_embedding = nn.Embedding(words, width)
            self.encoder = Stack(problem, problem["num_encoder_layers"], cross=False)
        else:
            self.embedding = nn.Embedding(words, width)
        self.decoder = Stack(problem, problem["num_decoder_layers"], cross=self.has_encoder)
        self.output = nn.Linear(width, words)
        later = torch.full((length, length), -torch.inf).triu(1)
        self.register_buffer("causal", later, persistent=False)
        self.register_buffer("positions", sinusoids(length, width), persistent=False)

    def forward(self, source, target):
        if not self.has_encoder:
            return self.output(self.decoder(self.embed(self.embedding, target), mask=self.causal))
        memory = self.encoder(self.embed(self.source_embedding, source))
        embedded = self.embed(self.target_embedding, target)
        return self.output(self.decoder(embedded, memory, self.causal))

    def embed(self, embedding, ids):
        vectors = embedding(ids) * math.sqrt(embedding.embedding_dim) + self.positions
        return F.dropout(vectors, DROPOUT, self.training)


def sinusoids(length, width):
    """PE(pos, 2i) = sin(pos / 10000^(2i / width)), PE(pos, 2i + 1) = cos(the same)."""
    exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = torch.arange(length)[:, None] / 10000**exponents
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1).float()


def tapestry_names(name):
    """Names of Tapestry's parameters that are concatenated in the parameter `name`."""
    parts = name.split(".")
    joint = parts[-2]
    if joint not in JOINT_PROJECTIONS:
        return [name]
    return [".".join([*parts[:-2], f"{letter}_proj", parts[-1]])
            for letter in joint.removesuffix("_proj")]


def load(model, values):
    """Loads the values of Tapestry's parameters, {name: tensor}, which must all be used."""
    unused = set(values)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            names = tapestry_names(name)
            parameter.copy_(torch.cat([values[n] for n in names]))
            unused -= set(names)
    if unused:
        raise ValueError(f"the model has no parameters for {', '.join(sorted(unused))}")
