#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Runs `tapestry check` on models that together have every pair of config choices (pairwise
testing). Usage: tests/every_combination.py PROGRAM [--kind KIND]"""

import argparse
import itertools
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = """\
model:
  d_model: 64
  d_ff: 128
  max_length: 24
"""

SIZES = {"num_heads": ["1", "4"], "d_head": ["0", "24"], "window": ["0", "8"]}
CHOICES = {
    "attention": ["multi_head", "parameter_free"],
    "score": ["scaled_dot_product", "dot_product", "additive", "bilinear"],
    "positions": ["none", "sinusoidal", "learned", "rotary", "alibi"],
    "norm": ["pre", "post"],
    "normalization": ["layer_norm", "rms_norm", "batch_norm"],
    "activation": ["relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu"],
    "dropout": ["0", "0.1"],
    "attention_dropout": ["dropout", "0.2"],
    "stochastic_depth": ["0", "0.2"],
    "skip_scale": ["1", "0.7"],
    "train.ema_decay": ["0", "0.9"],
}
BATCHES = {"train.batch_tokens": ["0", "120"]}
TOKENS = BATCHES | {"tie_embeddings": ["none", "target"]}
POOLED = {"pooling": ["class_token", "mean"]}
GENERATED = {"train_size": "40", "validation_size": "0", "test_size": "0"}
IMAGES = {"task": "images", "train_images": "images.csv", "image_height": "4", "image_width": "4",
          "pixel_maximum": "9", "validation_size": "0", "test_size": "0"}
# The section `data` and the choices for each model.kind; write_files() writes the data files.
KINDS = {
    "seq2seq": ({"task": "reverse"} | GENERATED, TOKENS | {"num_encoder_layers": ["1", "2"]}),
    "language_model": ({"task": "toy_sentences"} | GENERATED, TOKENS),
    "masked_language_model": ({"task": "toy_sentences"} | GENERATED, TOKENS),
    "classifier": ({"task": "toy_agreement"} | GENERATED, BATCHES | POOLED),
    "vision_transformer": (IMAGES, POOLED | {"patch_size": ["1", "2"]}),
    "tagger": ({"task": "tagged_text", "train_text": "tags.txt"}, BATCHES),
}


def is_allowed(choice):
    """Whether the rules of a config allow the choice."""
    if choice["attention"] == "parameter_free":
        if choice["num_heads"] != "1" or choice["d_head"] != "0":
            return False
        if choice["score"] in ("additive", "bilinear"):
            return False
    if choice["normalization"] == "batch_norm" and choice.get("train.batch_tokens", "0") != "0":
        return False
    return not (choice["positions"] == "rotary" and choice["score"] == "additive")


def pairs_of(choice):
    return set(itertools.combinations(sorted(choice.items()), 2))


def random_choice(options, fixed, rng):
    """An allowed random choice that has the values `fixed`; None if none was found."""
    for _ in range(2000):
        choice = {key: rng.choice(values) for key, values in options.items()} | fixed
        if is_allowed(choice):
            return choice
    return None


def covering_set(options, rng):
    """Allowed choices that together have every pair of values of any allowed choice."""
    wanted = set()
    for (a, of_a), (b, of_b) in itertools.combinations(sorted(options.items()), 2):
        wanted |= {((a, x), (b, y)) for x in of_a for y in of_b}
    cover = []
    while wanted:
        first = min(wanted)
        candidates = [random_choice(options, dict(first), rng) for _ in range(30)]
        candidates = [choice for choice in candidates if choice]
        if not candidates:  # no allowed choice has this pair
            wanted.remove(first)
            continue
        best = max(candidates, key=lambda choice: len(pairs_of(choice) & wanted))
        wanted -= pairs_of(best)
        cover.append(best)
    return cover


def check(program, folder, kind, data, choice):
    overrides = [f"data.{key}={value}" for key, value in data.items()]
    overrides += [f"{key}={value}" if "." in key else f"model.{key}={value}"
                  for key, value in choice.items()]
    command = [program, "check", "tiny.yaml", f"model.kind={kind}", *overrides]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return True
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    print(" ".join(map(str, command[2:])), *failed, done.stderr, sep="\n  ")
    return False


def write_files(folder, rng):
    """The files of KINDS. Sentences have several words: with one, attention has no gradient."""
    (folder / "tiny.yaml").write_text(CONFIG)
    rows = [[str(rng.randrange(10)) for _ in range(16)] + [str(i % 3)] for i in range(40)]
    (folder / "images.csv").write_text("".join(",".join(row) + "\n" for row in rows))
    lines = []
    for i in range(40):
        words = [(3 * i + 5 * k) % 8 for k in range(3 + i % 5)]
        lines += [f"word{word}\tlabel{word % 3}\n" for word in words] + ["\n"]
    (folder / "tags.txt").write_text("".join(lines))


def require_every_kind(program):
    """Exits with an error that names the values of model.kind which KINDS lacks."""
    done = subprocess.run([program, "config", "schema"], capture_output=True, check=True)
    sections = json.loads(done.stdout)["properties"]
    missing = set(sections["model"]["properties"]["kind"]["enum"]) - KINDS.keys()
    if missing:
        sys.exit(f"KINDS in {Path(__file__).name}: found no {', '.join(sorted(missing))}, expected "
                 "every value of model.kind\nhint: add an entry with its data and choices")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all of them")
    parser.add_argument("--at-most", type=int, help="maximum number of models of a kind")
    arguments = parser.parse_args()
    program = arguments.program.resolve()
    require_every_kind(program)
    rng = random.Random(1)
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, rng)
        for kind in arguments.kind or KINDS:
            data, options = KINDS[kind]
            cover = covering_set(SIZES | CHOICES | options, rng)[:arguments.at_most]
            passed = sum(check(program, folder, kind, data, choice) for choice in cover)
            print(f"{kind}: {passed} of {len(cover)} models pass all their checks", flush=True)
            failures += len(cover) - passed
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
