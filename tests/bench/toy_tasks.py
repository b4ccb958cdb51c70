#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Trains generated tasks at sizes published by other programs, over several seeds of model and data.

    tests/bench/toy_tasks.py .build/release/tapestry [--seeds 1 2 ...] [--jobs 2] [copy sort reverse]

copy, sort  the sizes of Sockeye's system tests: 10 symbols, lengths 1 to 10, 10,000 sequences, 2+2 layers,
            width 32, feed-forward 64, 4 heads, batches of 16; 4,000 and 6,000 steps. Its bounds are a
            perplexity of 1.02 and 1.03 and a BLEU of 98 and 97.
reverse     JoeyNMT's tutorial: 50 symbols, 50,000 sequences of 1 to 25, tests of 1 to 30, so that the
            longest are longer than any in training; 2+2 layers, width 64, feed-forward 256, 4 heads. Its
            LSTM reaches a BLEU of 95.19; no result of a Transformer is published.

Prints the scores on the test set for each seed, and fails if one misses its bound.
"""

import argparse
import collections
import concurrent.futures
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCHEDULE = ["schedule.kind=cosine", "schedule.learning_rate=3e-3", "schedule.warmup_steps=10%"]
SOCKEYE = ["data.num_symbols=10", "data.max_length=10", "data.train_size=10000", "model.d_model=32",
           "model.d_ff=64", "train.batch_size=16", "train.validate_every=1000", *SCHEDULE]
TASKS = {
    "copy": (ROOT / "configs/copy.yaml", [*SOCKEYE, "train.steps=4000"], 1.02, 98.0),
    "sort": (ROOT / "configs/sort.yaml", [*SOCKEYE, "train.steps=6000"], 1.03, 97.0),
    "reverse": (ROOT / "configs/parallel.yaml",
                ["data.max_tokens=0", "model.d_model=64",
                 "model.num_heads=4", "model.d_ff=256", "model.num_encoder_layers=2",
                 "model.num_decoder_layers=2", "model.max_length=32", "model.dropout=0",
                 "model.positions=rotary", "train.batch_size=64", "train.label_smoothing=0",
                 "train.steps=8000", "train.validate_every=2000", *SCHEDULE],
                None, 95.19),
}


def write_reversals(folder, seed):
    """The files of JoeyNMT's generate_reverse_task: numbers 0 to 49, separated by spaces."""
    draw = random.Random(seed)
    for name, count, longest in (("train", 50_000, 25), ("dev", 1_000, 30), ("test", 1_000, 30)):
        rows = [[str(draw.randrange(50)) for _ in range(draw.randint(1, longest))] for _ in range(count)]
        for suffix, order in (("src", 1), ("trg", -1)):
            text = "".join(" ".join(row[::order]) + "\n" for row in rows)
            (folder / f"{name}.{suffix}").write_text(text)


def tapestry(program, *arguments, text=None):
    done = subprocess.run([program, *map(str, arguments)], input=text, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def exact_by_length(program, run, folder):
    """The share of correct outputs for lengths 1 to 25, which occur in training, and 26 to 30."""
    sources = (folder / "test.src").read_text()
    targets = (folder / "test.trg").read_text().splitlines()
    correct, all_ = collections.Counter(), collections.Counter()
    for target, output in zip(targets, tapestry(program, "translate", run, text=sources).splitlines()):
        longer = len(target.split()) > 25
        correct[longer] += output == target
        all_[longer] += 1
    return {f"exact, lengths {name}": correct[longer] / all_[longer]
            for longer, name in ((False, "1-25"), (True, "26-30"))}


def measure(program, task, seed, folder):
    """The scores of the test set, by name."""
    config, overrides, _, _ = TASKS[task]
    run = folder / f"{task}-{seed}"
    data = folder / f"data-{task}-{seed}"
    if task == "reverse":
        data.mkdir()
        write_reversals(data, seed)
        overrides = [*overrides, *(f"data.{part}_{side}={data / name}.{suffix}"
                                   for part, name in (("train", "train"), ("validation", "dev"), ("test", "test"))
                                   for side, suffix in (("source", "src"), ("target", "trg")))]
    else:
        overrides = [*overrides, f"data.seed={seed}"]
    tapestry(program, "train", config, f"train.run_dir={run}", f"train.seed={seed}", "train.threads=1",
             *overrides)
    test = json.loads(tapestry(program, "evaluate", run, "--json", "--examples", 0, "--threads", 1))["test"]
    scores = {"perplexity": test["perplexity"], "BLEU": test["bleu"], "exact": test["exact_match"]}
    if task == "reverse":
        scores |= exact_by_length(program, run, data)
    return scores


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("program", type=Path)
    parser.add_argument("tasks", nargs="*", help="tasks out of copy, sort and reverse; default: all")
    parser.add_argument("--seeds", type=int, nargs="+", default=[*range(1, 11)])
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time, of one thread each")
    arguments = parser.parse_intermixed_args()
    if unknown := [task for task in arguments.tasks if task not in TASKS]:
        parser.error(f"found the task {unknown[0]}, expected one of {', '.join(TASKS)}")
    program = arguments.program.resolve()
    missed = 0
    with tempfile.TemporaryDirectory() as name, \
            concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for task in arguments.tasks or TASKS:
            _, _, max_perplexity, min_bleu = TASKS[task]
            results = pool.map(lambda seed: measure(program, task, seed, Path(name)), arguments.seeds)
            for seed, scores in zip(arguments.seeds, results):
                good = scores["BLEU"] >= min_bleu
                good = good and (max_perplexity is None or scores["perplexity"] <= max_perplexity)
                missed += not good
                text = "  ".join(f"{name} {value:.4g}" for name, value in scores.items())
                print(f"{task} seed {seed}: {text}{'' if good else '  MISSED'}", flush=True)
    print(f"{missed} missed")
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
