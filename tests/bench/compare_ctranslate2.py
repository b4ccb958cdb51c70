#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares the speed and the outputs of `tapestry translate` with CTranslate2.

    compare_ctranslate2.py TAPESTRY CHECKPOINT SOURCE [--repeat N] [--threads 1 2]

Both read the same float32 parameters (CHECKPOINT is converted) and translate the lines of SOURCE with
the same beams, batches and threads, without length normalization. They run alternately, and the fastest
run of each counts. Prints CPU seconds and elapsed seconds, with tokenization but without start and
loading, and the share of equal outputs. Needs ctranslate2, h5py, numpy and PyYAML, and sentencepiece for
models with subwords.

The model must be a seq2seq with layer norm, ReLU and sinusoidal positions.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import ctranslate2
import h5py
import numpy as np
import yaml


MAX_OUTPUT_TOKENS = 60


def linear(spec, parameters, *names):
    """Sets a linear layer. CTranslate2 applies several layers as one; their rows are concatenated."""
    spec.weight = np.concatenate([parameters[name + ".weight"] for name in names])
    spec.bias = np.concatenate([parameters[name + ".bias"] for name in names])


def norm(spec, parameters, name):
    spec.gamma, spec.beta = parameters[name + ".weight"], parameters[name + ".bias"]


def self_attention(spec, parameters, name):
    linear(spec.linear[0], parameters, *(f"{name}.{p}_proj" for p in "qkv"))
    linear(spec.linear[1], parameters, name + ".out_proj")


def cross_attention(spec, parameters, name):
    linear(spec.linear[0], parameters, name + ".q_proj")
    linear(spec.linear[1], parameters, name + ".k_proj", name + ".v_proj")
    linear(spec.linear[2], parameters, name + ".out_proj")


def layer(spec, parameters, name):
    self_attention(spec.self_attention, parameters, name + ".self_attn")
    norm(spec.self_attention.layer_norm, parameters, name + ".self_attn_residual.norm")
    if hasattr(spec, "attention"):
        cross_attention(spec.attention, parameters, name + ".cross_attn")
        norm(spec.attention.layer_norm, parameters, name + ".cross_attn_residual.norm")
    linear(spec.ffn.linear_0, parameters, name + ".ff.linear1")
    linear(spec.ffn.linear_1, parameters, name + ".ff.linear2")
    norm(spec.ffn.layer_norm, parameters, name + ".ff_residual.norm")


def positions(length, width):
    """PE(p, 2i) = sin(p / 10000^(2i/d)), PE(p, 2i + 1) = cos(same)."""
    angles = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
    return np.stack([np.sin(angles), np.cos(angles)], axis=2).reshape(length, width).astype(np.float32)


class Words:
    """Tokens that are separated by spaces."""

    def prepare(self, line):
        return " ".join(re.findall(r"\w+(?:[-'’]\w+)*|[^\w\s]", line))

    def split(self, line):
        return line.split()

    def join(self, tokens):
        return " ".join(tokens)


class Subwords:
    """Pieces of the SentencePiece models of a checkpoint."""

    def __init__(self, source, target):
        import sentencepiece
        self.source = sentencepiece.SentencePieceProcessor(model_proto=source)
        self.target = sentencepiece.SentencePieceProcessor(model_proto=target)

    def prepare(self, line):
        return line

    def split(self, line):
        return self.source.encode(line, out_type=str)

    def join(self, tokens):
        return self.target.decode(tokens)


def read_tokenizer(file):
    if "data/source_subwords" not in file:
        return Words()
    models = [file[f"data/{side}_subwords"][()].tobytes() for side in ("source", "target")
              if f"data/{side}_subwords" in file]
    return Subwords(models[0], models[-1])


def convert(checkpoint, folder):
    """Writes the model of a checkpoint as a model of CTranslate2; returns its config and tokenizer."""
    with h5py.File(checkpoint) as file:
        config = yaml.safe_load(file["config"][()].tobytes().decode())
        # Like `tapestry translate`, use the averages of a run with train.ema_decay.
        group = "average" if "average" in file else "parameters"
        parameters = {name: value[()] for name, value in file[group].items()}
        words = {side: file[f"data/{side}_vocabulary"][()].tobytes().decode().split("\n")[:-1]
                 for side in ("source", "target")}
        tokenizer = read_tokenizer(file)
    model = config["model"]
    expected = {"kind": "seq2seq", "positions": "sinusoidal", "activation": "relu",
                "normalization": "layer_norm", "score": "scaled_dot_product", "d_head": 0, "window": 0}
    for key, value in expected.items():
        assert model[key] == value, f"model.{key} is {model[key]}, expected {value}"
    spec = ctranslate2.specs.TransformerSpec.from_config(
        (model["num_encoder_layers"], model["num_decoder_layers"]), model["num_heads"],
        pre_norm=model["norm"] == "pre")
    target = parameters["target_embedding.weight"]
    table = positions(model["max_length"], model["d_model"])
    spec.encoder.embeddings[0].weight = parameters.get("source_embedding.weight", target)
    spec.decoder.embeddings.weight = target
    spec.encoder.position_encodings.encodings = table
    spec.decoder.position_encodings.encodings = table
    spec.decoder.projection.weight = parameters.get("output.weight", target)
    if "output.bias" in parameters:
        spec.decoder.projection.bias = parameters["output.bias"]
    for side in ("encoder", "decoder"):
        stack = getattr(spec, side)
        for i, spec_layer in enumerate(stack.layer):
            layer(spec_layer, parameters, f"{side}.layers.{i}")
        if model["norm"] == "pre":
            norm(stack.layer_norm, parameters, side + ".norm")
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "<bos>", "<eos>", "<unk>"
    spec.config.add_source_eos, spec.config.decoder_start_token = True, "<bos>"
    spec.register_source_vocabulary(words["source"])
    spec.register_target_vocabulary(words["target"])
    spec.validate()
    os.makedirs(folder)
    spec.save(folder)
    return config, tokenizer


def cpu_seconds(process):
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0, f"exit status {status}"
    return usage.ru_utime + usage.ru_stime


def run_tapestry(program, arguments, lines):
    """Elapsed and CPU seconds of a process, and its output."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as output:
        given.write(lines.encode())
        given.seek(0)
        begin = time.perf_counter()
        process = subprocess.Popen([program, "translate", *arguments], stdin=given, stdout=output,
                                   stderr=subprocess.DEVNULL)
        cpu = cpu_seconds(process)
        elapsed = time.perf_counter() - begin
        output.seek(0)
        return elapsed, cpu, output.read().decode().splitlines()


class Peer:
    """CTranslate2, in a separate process for each number of threads."""

    def __init__(self, folder, tokenizer, threads):
        self.tokenizer = tokenizer
        self.translator = ctranslate2.Translator(folder, device="cpu", compute_type="float32",
                                                 inter_threads=1, intra_threads=threads)

    def run(self, lines, beam, tokens):
        begin, cpu = time.perf_counter(), time.process_time()
        sources = [self.tokenizer.split(line) for line in lines]
        results = self.translator.translate_batch(
            sources, beam_size=beam, length_penalty=0, max_batch_size=tokens, batch_type="tokens",
            max_decoding_length=MAX_OUTPUT_TOKENS)
        outputs = [self.tokenizer.join(result.hypotheses[0]) for result in results]
        return time.perf_counter() - begin, time.process_time() - cpu, outputs

    def run_one_by_one(self, lines, beam):
        begin, cpu = time.perf_counter(), time.process_time()
        outputs = [self.run([line], beam, 4096)[2][0] for line in lines]
        return time.perf_counter() - begin, time.process_time() - cpu, outputs


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tapestry")
    parser.add_argument("checkpoint")
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--beams", type=int, nargs="+", default=[1, 5])
    parser.add_argument("--single", type=int, default=100, help="lines that are translated one by one")
    parser.add_argument("--differences", type=int, default=0, help="unequal outputs to print")
    options = parser.parse_args()
    folder = tempfile.mkdtemp()
    config, tokenizer = convert(options.checkpoint, os.path.join(folder, "model"))
    lines = options.source.read_text().splitlines()
    if config["data"]["lowercase"]:
        lines = [line.lower() for line in lines]
    # Spaces separate the words, so that both programs read the same tokens; outputs are compared
    # without spaces.
    lines = [tokenizer.prepare(line) for line in lines if line.strip()]
    print("| threads | beam | batch | tapestry CPU s | CTranslate2 CPU s | tapestry s | CTranslate2 s | equal |")
    print("|---|---|---|---|---|---|---|---|")
    for threads in options.threads:
        peer = Peer(os.path.join(folder, "model"), tokenizer, threads)
        for beam in options.beams:
            for batch in ("1 line", "2,048 tokens"):
                some = lines[:options.single] if batch == "1 line" else lines
                arguments = [options.checkpoint, "--beam-size", str(beam), "--length-penalty", "0",
                             "--max-length", str(MAX_OUTPUT_TOKENS), "--threads", str(threads)]
                arguments += ["--interactive"] if batch == "1 line" else ["--batch-tokens", "2048"]
                ours, theirs, idle = [], [], []
                for _ in range(options.repeat):
                    idle.append(run_tapestry(options.tapestry, arguments, ""))
                    ours.append(run_tapestry(options.tapestry, arguments, "\n".join(some) + "\n"))
                    theirs.append(peer.run_one_by_one(some, beam) if batch == "1 line"
                                  else peer.run(some, beam, 2048))
                pairs = [(a.replace(" ", ""), b.replace(" ", ""))
                         for a, b in zip(ours[0][2], theirs[0][2], strict=True)]
                equal = sum(a == b for a, b in pairs) / len(pairs)
                best = lambda runs, i: min(run[i] for run in runs)
                print(f"| {threads} | {beam} | {batch} | {best(ours, 1) - best(idle, 1):.2f} "
                      f"| {best(theirs, 1):.2f} | {best(ours, 0) - best(idle, 0):.2f} "
                      f"| {best(theirs, 0):.2f} | {100 * equal:.1f} % |", flush=True)
                for a, b in [p for p in pairs if p[0] != p[1]][:options.differences]:
                    print(f"  tapestry     {a}\n  CTranslate2  {b}", file=sys.stderr)


if __name__ == "__main__":
    main()
