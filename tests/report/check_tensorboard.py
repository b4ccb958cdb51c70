#!/usr/bin/env python3
"""Trains runs with train.tensorboard, kills and resumes them, and reads their event files as
TensorBoard does: every row of metrics.csv is there once, with its samples and histograms.

check_tensorboard.py PROGRAM    needs the Python package tensorboard
"""

import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

CONFIG = """\
data: {task: copy, num_symbols: 5, max_length: 6, train_size: 200, validation_size: 20, test_size: 4}
model: {d_model: 32, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 64}
schedule: {learning_rate: 0.003}
train: {steps: 400, batch_size: 16, log_every: 20, validate_every: 50, save_every: 30,
        tensorboard: true, threads: 1}
"""


def train(program, folder, rng, kills):
    arguments = [program, "train", "config.yaml", "--quiet"]
    killed = 0
    while True:
        process = subprocess.Popen(arguments, cwd=folder)
        if killed < kills:
            time.sleep(rng.uniform(0.1, 0.6))
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
                killed += 1
                has_checkpoint = any((folder / "runs/config/checkpoints").glob("*.h5"))
                arguments = [program, "train", "--quiet", "config.yaml"]
                if has_checkpoint:
                    arguments = [program, "train", "--quiet", "--resume", "runs/config"]
                continue
        if process.wait() != 0:
            sys.exit(f"training failed with exit code {process.returncode}")
        return killed


def check(run):
    rows = list(csv.DictReader((run / "metrics.csv").open()))
    events = EventMultiplexer(size_guidance={"scalars": 0, "tensors": 0, "histograms": 0})
    events.AddRunsFromDirectory(str(run / "tensorboard"))
    events.Reload()
    scalars = 0
    for split in ("train", "validation"):
        of_split = [row for row in rows if row["split"] == split]
        for name in of_split[0]:
            expected = [(int(row["step"]), float(row[name])) for row in of_split
                        if name not in ("step", "epoch", "split") and row[name]]
            if not expected:
                continue
            found = [(event.step, event.value) for event in events.Scalars(split, name)]
            assert [step for step, _ in found] == [step for step, _ in expected], (split, name)
            for (step, value), (_, number) in zip(found, expected):
                assert abs(value - number) <= 1e-6 * abs(number), (split, name, step)
            scalars += len(found)
    validations = [int(row["step"]) for row in rows if row["split"] == "validation"]
    accumulator = events.GetAccumulator("validation")
    tags = accumulator.Tags()
    kinds = {"histograms": accumulator.Histograms, "tensors": accumulator.Tensors}
    counts = {}
    for kind, read in kinds.items():
        for tag in tags[kind]:
            if tag.startswith("gradients/") or tag.startswith("update_ratio/"):
                continue  # a validation that was interrupted has none
            steps = [event.step for event in read(tag)]
            assert steps == validations, (kind, tag, steps, validations)
            counts[kind] = counts.get(kind, 0) + len(steps)
    assert counts.get("histograms") and counts.get("tensors"), tags
    return scalars, counts


def main():
    program = str(Path(sys.argv[1]).resolve())
    rng = random.Random(1)
    for kills in (0, 1, 2, 2, 2, 4):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "config.yaml").write_text(CONFIG)
            killed = train(program, folder, rng, kills)
            scalars, counts = check(folder / "runs/config")
            print(f"{killed} kills: {scalars} scalars, {counts}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
