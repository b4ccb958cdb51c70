#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Kills sweeps at random moments, with or without their runs, and repeats the command until the
sweep ends. Its table must be the same as without kills."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import runs

SWEEPS = {
    "all combinations": ["schedule.learning_rate=0.001,0.01", "train.seed=1..3"],
    "in parallel": ["schedule.learning_rate=0.001,0.003,0.01,0.03", "train.seed=1..3", "--jobs", "2"],
    "successive halving": ["schedule.learning_rate=1e-5,1e-4,1e-3,1e-2", "--halving", "2"],
}
MAX_STARTS = 400  # starts of a sweep, after which the test fails


def command(program, words):
    return [program, "sweep", "config.yaml", "train.steps=24", runs.THREADS, *words]


def children(pid):
    """The child processes of a process."""
    with contextlib.suppress(FileNotFoundError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return []


def kill(process, with_runs):
    """Kills a sweep. Its runs are also killed, or else get SIGTERM from the kernel and save."""
    running = children(process.pid)
    process.kill()
    process.wait()
    for child in running if with_runs else []:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


def table(folder):
    return (folder / "runs/config-sweep/sweep.csv").read_text()


def sweep_killed(program, words, kills, max_wait, rng, folder):
    """Runs a sweep with kills, each after at most `max_wait` seconds. Returns the table and the
    number of kills that hit a running sweep."""
    hits = 0
    for _ in range(MAX_STARTS):
        process = subprocess.Popen(command(program, words), cwd=folder, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE)
        if hits < kills:
            time.sleep(rng.uniform(0, max_wait))
            if process.poll() is None:
                kill(process, rng.random() < 0.5)
                hits += 1
                process.stderr.close()
                continue
        error = process.communicate(timeout=runs.TIMEOUT)[1].decode()
        if process.returncode == 0:
            return table(folder), hits
        # Exit code 7 is expected: a run that outlived its killed sweep may still be saving.
        runs.require(process.returncode == 7 or not error, f"{words}: {process.returncode}: {error}")
    raise runs.Failure(f"{words}: did not end in {MAX_STARTS} starts")


def check(options, folder, name, words, rng):
    for part in ("whole", "killed"):
        (folder / name / part).mkdir(parents=True)
        (folder / name / part / "config.yaml").write_text(runs.SMALL_MODEL)
    started = time.monotonic()
    subprocess.run(command(options.program, words), cwd=folder / name / "whole", check=True,
                   stdout=subprocess.DEVNULL, timeout=runs.TIMEOUT)
    seconds = time.monotonic() - started
    # The kills are spread over the sweep.
    found, hits = sweep_killed(options.program, words, options.kills,
                               max(0.3, 2 * seconds / options.kills), rng, folder / name / "killed")
    expected = table(folder / name / "whole")
    runs.require(found == expected, f"{name}: the tables differ:\n{expected}\n{found}")
    print(f"{name}: {found.count(chr(10)) - 1} runs, {hits} kills, the same table")


def test(options, folder):
    rng = random.Random(options.seed)
    for name, words in SWEEPS.items():
        check(options, folder, name, words, rng)


if __name__ == "__main__":
    sys.exit(runs.main(test, runs.parse_arguments(__doc__, lambda parser: parser.add_argument(
        "--kills", type=int, default=5, help="number of kills per sweep; default 5"))))
