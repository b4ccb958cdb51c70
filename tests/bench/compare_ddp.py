#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains models of bench_step with Tapestry and with PyTorch, alternately, in one process of two
threads and in two processes of one thread, and compares the times of a step. One process of one
thread shows the speed without a division of work.

    python3 tests/bench/compare_ddp.py [NAMES...] [--rounds 5] [--seconds 6]

PyTorch's two processes use DistributedDataParallel over gloo, Tapestry's are started by mpirun.
Prints a table in Markdown of the 10th percentiles of all times, and the ratios.
"""

import argparse
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import tempfile

import compare_pytorch
from compare_pytorch import (Contender, Failure, low_percentile, print_heading, print_row,
                             run_main)

PROGRAM = pathlib.Path(__file__).resolve().parents[2] / ".build/release/tapestry"
PROCESSES = 2
COLUMNS = ["model", "Tapestry, 1 thread, one batch, ms", "PyTorch, 1 thread, one batch, ms",
           "Tapestry, 2 threads, one batch, ms", "PyTorch, 2 threads, one batch, ms",
           "Tapestry, 2 threads, ms", "Tapestry, 2 processes, ms", "DDP, 2 processes, ms",
           "threads / processes", "PyTorch / Tapestry, 1 thread", "PyTorch / Tapestry, 2 threads",
           "DDP / Tapestry, 2 processes"]
SETTLING_STEPS = 2  # of each run of the program: memory and caches

# The models of bench_step (problems.cpp) as configs. Vocabularies have four special tokens;
# sequences of the task begin with <bos> or end with <eos>.
CONFIG = """\
data: {{task: copy, num_symbols: {symbols}, min_length: {words}, max_length: {words},
  train_size: 2000, validation_size: 0, test_size: 0}}
model: {{d_model: {d_model}, num_heads: {num_heads}, d_ff: {d_ff}, dropout: 0.1,
  num_encoder_layers: {num_encoder_layers}, num_decoder_layers: {num_decoder_layers},
  max_length: {length}}}
optimizer: {{kind: adam, beta1: 0.9, beta2: 0.98, epsilon: 1e-9, clip_norm: 1}}
schedule: {{kind: constant, learning_rate: 1e-4}}
train: {{batch_size: {batch}, accumulate: {processes}, label_smoothing: 0.1, log_every: 1,
  validate_every: 1000000, save_every: 1000000, digest_every: 1000000, run_dir: run}}
"""


def write_config(folder):
    """Writes run.yaml for the model that bench_step has described in the folder."""
    problem = json.loads((folder / "model.json").read_text())["problem"]
    (folder / "run.yaml").write_text(CONFIG.format(**{
        **problem, "symbols": problem["vocabulary"] - 4, "words": problem["length"] - 1,
        "batch": problem["batch"] // PROCESSES, "processes": PROCESSES}))


class ProgramRuns:
    """`tapestry train`, restarted for each round; has the members of a Contender."""

    def __init__(self, name, folder, program, processes, threads):
        self.name, self.times, self.rounds = name, [], []
        self.folder = folder
        launcher = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n",
                    str(processes)] if processes > 1 else []
        self.command = [*launcher, program, "train", "run.yaml", "--quiet",
                        f"train.threads={threads}"]

    def run(self, steps):
        """Runs the steps; returns their times in seconds."""
        shutil.rmtree(self.folder / "run", ignore_errors=True)
        done = subprocess.run(
            [*self.command, f"train.steps={SETTLING_STEPS + steps}"], cwd=self.folder,
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise Failure(f"{self.name} ended with exit code {done.returncode}: {done.stderr}")
        lines = (self.folder / "run/events.jsonl").read_text().splitlines()
        speeds = [event for event in map(json.loads, lines) if event["event"] == "speed"]
        return [event["step_seconds"] for event in speeds][SETTLING_STEPS:]

    run_round = Contender.run_round


def compare(model, options):
    """The times of the contenders in the order of COLUMNS."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as running:
        folder = pathlib.Path(directory)
        def start(contender):
            return running.enter_context(contender)

        def start_both(threads):
            return (start(compare_pytorch.start_tapestry(model, threads, directory,
                                                         options.bench_step)),
                    start(compare_pytorch.start_pytorch("eager", threads, directory)))

        single = start_both(1)
        tapestry, pytorch = start_both(PROCESSES)
        ddp = start(compare_pytorch.start_pytorch("ddp", 1, directory))
        for rival in (*single, pytorch, ddp):
            compare_pytorch.require_same_loss(tapestry, rival)
        write_config(folder)
        threads = ProgramRuns("tapestry train", folder, options.program, 1, PROCESSES)
        processes = ProgramRuns("mpirun tapestry train", folder, options.program, PROCESSES, 1)
        contenders = [*single, tapestry, pytorch, threads, processes, ddp]
        steps = compare_pytorch.steps_of_a_round([tapestry, pytorch], options.seconds)
        for _ in range(options.rounds):
            for contender in contenders:
                contender.run_round(steps)
    return [low_percentile(contender.times) for contender in contenders]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", default=["small", "base"],
                        help="models of bench_step --list; default small base")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6, help="of a round, for one contender")
    parser.add_argument("--bench-step", type=pathlib.Path, default=compare_pytorch.BENCH_STEP)
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM)
    return parser.parse_args()


def main():
    options = parse_arguments()
    load = os.getloadavg()[0]
    print_heading(COLUMNS)
    for model in options.names:
        times = compare(model, options)
        tapestry_1, pytorch_1, tapestry_2, pytorch_2, threads, processes, ddp = times
        ratios = [threads / processes, pytorch_1 / tapestry_1, pytorch_2 / tapestry_2,
                  ddp / processes]
        print_row([model, *(f"{1e3 * time:.1f}" for time in times),
                   *(f"{ratio:.2f}" for ratio in ratios)])
    print(f"\nload average before and after: {load:.1f}, {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    run_main("compare_ddp", main)
