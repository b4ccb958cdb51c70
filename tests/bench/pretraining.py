#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Measures the effect of masked pre-training: test accuracy of configs/toy_agreement.yaml, with and
without the parameters of configs/toy_masked.yaml, over several seeds of model and data."""

import argparse
import re
import statistics
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def tapestry(program, *arguments):
    done = subprocess.run([program, *map(str, arguments)], capture_output=True, text=True,
                          check=True)
    return done.stdout


def test_accuracy(program, run):
    scores = tapestry(program, "evaluate", run, "--examples", 0)
    return float(re.search(r"^test .*accuracy ([\d.]+) %", scores, re.MULTILINE)[1])


def train(program, config, run, seed, *overrides):
    tapestry(program, "train", ROOT / "configs" / config, f"train.run_dir={run}",
             f"train.seed={seed}", f"data.seed={seed}", *overrides)


def compare(program, folder, seed):
    """Accuracies with and without pre-training."""
    masked, fine, scratch = (folder / f"{name}-{seed}" for name in ("masked", "fine", "scratch"))
    train(program, "toy_masked.yaml", masked, seed)
    train(program, "toy_agreement.yaml", fine, seed, f"train.initialize_from={masked}")
    train(program, "toy_agreement.yaml", scratch, seed)
    return test_accuracy(program, fine), test_accuracy(program, scratch)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program", type=Path)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3, 4, 5])
    arguments = parser.parse_args()
    results = []
    with tempfile.TemporaryDirectory() as name:
        for seed in arguments.seeds:
            results.append(compare(arguments.program.resolve(), Path(name), seed))
            print(f"seed {seed}: pre-trained {results[-1][0]:.1f} %, from scratch "
                  f"{results[-1][1]:.1f} %", flush=True)
    for name, accuracies in zip(("pre-trained", "from scratch"), zip(*results)):
        print(f"{name}: mean {statistics.mean(accuracies):.1f} %, standard deviation "
              f"{statistics.stdev(accuracies):.1f}")


if __name__ == "__main__":
    main()
