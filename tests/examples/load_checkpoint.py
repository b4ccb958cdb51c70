#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Loads the model of a checkpoint without Tapestry and computes its loss on held-out sentences.

    load_checkpoint.py CHECKPOINT SOURCE TARGET

CHECKPOINT is a step-*.h5 of a run with model.kind: seq2seq; SOURCE and TARGET are text files with one
sentence per line and tokens separated by spaces. Prints the mean negative log-likelihood of the target
tokens, <eos> included, which `tapestry evaluate` prints as the loss.

Written only from train/checkpoint/format.md and rebuilding.md, which describe the arrays, the tokens and
the formulas. Rejects models whose options differ from the ones below.
"""

import sys

import h5py
import numpy as np

UNK, BOS, EOS = 1, 2, 3
SUPPORTED = {"kind": ["seq2seq"], "attention": ["multi_head"], "score": ["scaled_dot_product"],
             "window": ["0"], "skip_scale": ["1"], "sublayer_scale": ["1"], "norm": ["pre", "post"],
             "normalization": ["layer_norm"], "activation": ["relu"],
             "positions": ["sinusoidal", "learned", "none"]}


def text(file, path):
    return file[path][()].decode()


def model_options(file):
    """The section `model` of the config, as strings."""
    options, section = {}, ""
    for line in text(file, "config").splitlines():
        if not line.startswith(" "):
            section = line.rstrip(":")
        elif section == "model":
            key, value = line.strip().split(": ", 1)
            options[key] = value
    for key, values in SUPPORTED.items():
        if options[key] not in values:
            sys.exit(f"model.{key}: found {options[key]}, expected {' or '.join(values)}")
    return options


class Model:
    def __init__(self, file):
        self.o = model_options(file)
        self.p = {name: array[()].astype(np.float64) for name, array in file["parameters"].items()}
        # Tied embeddings are not stored: the target embedding is used instead.
        self.source_embedding = self.p.get("source_embedding.weight",
                                           self.p["target_embedding.weight"])
        self.output = self.p.get("output.weight", self.p["target_embedding.weight"])

    def linear(self, name, x):
        return x @ self.p[name + ".weight"].T + self.p[name + ".bias"]

    def norm(self, name, x):
        centered = x - x.mean(-1, keepdims=True)
        variance = (centered**2).mean(-1, keepdims=True)
        scaled = centered / np.sqrt(variance + float(self.o["layer_norm_epsilon"]))
        return scaled * self.p[name + ".weight"] + self.p[name + ".bias"]

    def residual(self, name, x, sublayer):
        if self.o["norm"] == "pre":
            return x + sublayer(self.norm(name + ".norm", x))
        return self.norm(name + ".norm", x + sublayer(x))

    def attention(self, name, x, memory, causal):
        heads = int(self.o["num_heads"])
        split = lambda y: y.reshape(len(y), heads, -1).transpose(1, 0, 2)
        q = split(self.linear(name + ".q_proj", x))
        k = split(self.linear(name + ".k_proj", memory))
        v = split(self.linear(name + ".v_proj", memory))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tri(len(x), dtype=bool), scores, -np.inf)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        return self.linear(name + ".out_proj", (weights @ v).transpose(1, 0, 2).reshape(len(x), -1))

    def feed_forward(self, name, x):
        return self.linear(name + ".linear2", np.maximum(self.linear(name + ".linear1", x), 0))

    def embed(self, side, table, ids):
        d = table.shape[1]
        x = table[ids] * np.sqrt(d)
        if self.o["positions"] == "learned":
            x = x + self.p[f"{side}_positions.weight"][: len(ids)]
        elif self.o["positions"] == "sinusoidal":
            pos, j = np.arange(len(ids))[:, None], np.arange(d)
            angle = pos / 10000 ** ((j - j % 2) / d)
            x = x + np.where(j % 2 == 0, np.sin(angle), np.cos(angle))
        return x

    def stack(self, side, layers, x, memory=None):
        for i in range(layers):
            at = f"{side}.layers.{i}"
            x = self.residual(at + ".self_attn_residual", x,
                              lambda y: self.attention(at + ".self_attn", y, y, memory is not None))
            if memory is not None:
                x = self.residual(at + ".cross_attn_residual", x,
                                  lambda y: self.attention(at + ".cross_attn", y, memory, False))
            x = self.residual(at + ".ff_residual", x, lambda y: self.feed_forward(at + ".ff", y))
        return self.norm(side + ".norm", x) if self.o["norm"] == "pre" else x

    def log_probabilities(self, source, target_input):
        memory = self.stack("encoder", int(self.o["num_encoder_layers"]),
                            self.embed("source", self.source_embedding, source))
        y = self.stack("decoder", int(self.o["num_decoder_layers"]),
                       self.embed("target", self.p["target_embedding.weight"], target_input), memory)
        logits = y @ self.output.T + self.p["output.bias"]
        logits -= logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def ids(vocabulary, line):
    return [vocabulary.get(token, UNK) for token in line.split()]


def held_out_loss(checkpoint, source_file, target_file):
    with h5py.File(checkpoint, "r") as file:
        model = Model(file)
        source_words, target_words = (
            {token: i for i, token in enumerate(text(file, f"data/{side}_vocabulary").splitlines())}
            for side in ("source", "target"))
    loss, tokens = 0.0, 0
    with open(source_file) as sources, open(target_file) as targets:
        for source, target in zip(sources, targets):
            wanted = ids(target_words, target) + [EOS]
            log_p = model.log_probabilities(ids(source_words, source) + [EOS],
                                            [BOS] + wanted[:-1])
            loss -= log_p[np.arange(len(wanted)), wanted].sum()
            tokens += len(wanted)
    return loss / tokens


if __name__ == "__main__":
    print(held_out_loss(*sys.argv[1:]))
