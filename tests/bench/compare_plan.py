#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Compares predictions of `tapestry plan` with the run: parameters, peak memory, time of a step and
of the whole run.

    python3 tests/bench/compare_plan.py [CONFIGS...] [--seconds 20] [--rounds 3]

Plans and trains each config for about this many seconds, alternately for several rounds. Replaces its
train.steps; keys in percent of the steps scale with it. Prints a table in Markdown of the round with
the median deviation of the total time; a deviation is run / plan - 1.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

from compare_pytorch import Failure, print_heading, print_row, run_main

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = ROOT / ".build/release/tapestry"
DEFAULT = ["copy", "toy_translation", "toy_masked", "toy_agreement"]
COLUMNS = ["config", "steps", "parameters, plan", "run", "peak, plan, MB", "run", "deviation",
           "step, plan, ms", "run", "deviation", "total, plan, s", "run", "deviation"]
FEWEST_STEPS = 50


def run(command):
    """The standard output, seconds and peak memory in bytes of a command."""
    began = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, text=True)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status != 0:
        raise Failure(f"{' '.join(map(str, command))}: exit status {status}")
    return output, time.monotonic() - began, usage.ru_maxrss * 1024


def plan(program, config, overrides):
    return json.loads(run([program, "plan", config, "--json", *overrides])[0])


def measure(config, overrides, options, folder):
    """The numbers of a plan and of its run."""
    predicted = plan(options.program, config, overrides)
    _, seconds, peak = run([options.program, "train", config, "--quiet", *overrides])
    events = map(json.loads, (folder / "events.jsonl").read_text().splitlines())
    times = [event["step_seconds"] for event in events if event["event"] == "speed"]
    log = (folder / "train.log").read_text(encoding="utf-8")
    parameters = re.search(r"model: ([\d,]+) parameters", log)[1].replace(",", "")
    shutil.rmtree(folder)
    return {"parameters": (predicted["model"]["parameters"], int(parameters)),
            "peak": (predicted["memory"]["peak_bytes"] / 1e6, peak / 1e6),
            "step": (1e3 * predicted["step"]["seconds"], 1e3 * statistics.median(times)),
            "total": (predicted["time"]["seconds"], seconds)}


def deviation(pair):
    return pair[1] / pair[0] - 1


def compare(config, options, folder):
    """The cells of a row."""
    overrides = [*options.set, f"train.run_dir={folder / 'run'}"]
    step = plan(options.program, config, overrides)["step"]["seconds"]
    steps = max(FEWEST_STEPS, round(options.seconds / step))
    overrides += [f"train.steps={steps}", f"train.log_every={max(1, steps // 50)}"]
    rounds = [measure(config, overrides, options, folder / "run") for _ in range(options.rounds)]
    chosen = sorted(rounds, key=lambda found: deviation(found["total"]))[len(rounds) // 2]

    def cells(name, digits):
        return [*(f"{value:.{digits}f}" for value in chosen[name]),
                f"{deviation(chosen[name]):+.1%}"]

    return [pathlib.Path(config).stem, steps, *chosen["parameters"], *cells("peak", 1),
            *cells("step", 2), *cells("total", 1)]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("configs", nargs="*", metavar="CONFIG",
                        default=[ROOT / f"configs/{name}.yaml" for name in DEFAULT],
                        help=f"default: {', '.join(DEFAULT)}")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                        help="an override for all configs, such as data.folder=FOLDER")
    parser.add_argument("--seconds", type=float, default=20, help="of training, in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--program", type=pathlib.Path, default=PROGRAM)
    return parser.parse_args()


def main():
    options = parse_arguments()
    print_heading(COLUMNS)
    for config in options.configs:
        with tempfile.TemporaryDirectory() as folder:
            print_row(compare(config, options, pathlib.Path(folder)))
    print(f"\nload average: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    run_main("compare_plan", main)
