#!/usr/bin/env -S python3 -B
"""Runs `tapestry check` on models in which every two choices of a config meet at least once: a
covering set of pairs. Usage: tests/every_combination.py PROGRAM [--kind KIND]"""

import argparse
import itertools
import random
import subprocess
import sys
import tempfile
from pathlib import Path

CONFIG = """\
data:
  train_size: 40
  validation_size: 0
  test_size: 0
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
KINDS = {
    "seq2seq": ("reverse", TOKENS | {"num_encoder_layers": ["1", "2"]}),
    "language_model": ("toy_sentences", TOKENS),
    "masked_language_model": ("toy_sentences", TOKENS),
    "classifier": ("toy_agreement", BATCHES | POOLED),
    "vision_transformer": ("images", POOLED | {"patch_size": ["1", "2"]}),
}


def is_allowed(choice):
    """The rules of a config."""
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
    """One that is allowed, with the given values, or None if none was found."""
    for _ in range(2000):
        choice = {key: rng.choice(values) for key, values in options.items()} | fixed
        if is_allowed(choice):
            return choice
    return None


def covering_set(options, rng):
    """Allowed choices among which is every pair of values that any allowed choice has."""
    wanted = set()
    for (a, of_a), (b, of_b) in itertools.combinations(sorted(options.items()), 2):
        wanted |= {((a, x), (b, y)) for x in of_a for y in of_b}
    cover = []
    while wanted:
        first = min(wanted)
        candidates = [random_choice(options, dict(first), rng) for _ in range(30)]
        candidates = [choice for choice in candidates if choice]
        if not candidates:  # no allowed choice has it
            wanted.remove(first)
            continue
        best = max(candidates, key=lambda choice: len(pairs_of(choice) & wanted))
        wanted -= pairs_of(best)
        cover.append(best)
    return cover


def check(program, config, kind, task, choice):
    overrides = [f"{key}={value}" if "." in key else f"model.{key}={value}"
                 for key, value in choice.items()]
    command = [program, "check", config, f"model.kind={kind}", f"data.task={task}", *overrides]
    if task == "images":
        command += [f"data.train_images={config.with_name('images.csv')}", "data.image_height=4",
                    "data.image_width=4", "data.pixel_maximum=9", "data.train_size=20000"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return True
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED")]
    print(" ".join(map(str, command[2:])), *failed, done.stderr, sep="\n  ")
    return False


def write_files(folder, rng):
    (folder / "tiny.yaml").write_text(CONFIG)
    rows = [[str(rng.randrange(10)) for _ in range(16)] + [str(i % 3)] for i in range(40)]
    (folder / "images.csv").write_text("".join(",".join(row) + "\n" for row in rows))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--kind", choices=KINDS, action="append", help="default: all of them")
    parser.add_argument("--at-most", type=int, help="so many models of a kind, from the first on")
    arguments = parser.parse_args()
    rng = random.Random(1)
    failures = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, rng)
        for kind in arguments.kind or KINDS:
            task, options = KINDS[kind]
            cover = covering_set(SIZES | CHOICES | options, rng)[:arguments.at_most]
            passed = sum(check(arguments.program.resolve(), folder / "tiny.yaml", kind, task, choice)
                         for choice in cover)
            print(f"{kind}: {passed} of {len(cover)} models pass all their checks", flush=True)
            failures += len(cover) - passed
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
