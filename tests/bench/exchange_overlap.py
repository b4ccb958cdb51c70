#!/usr/bin/env python3
"""Trains in two processes on two machines (network namespaces), with a network of given latency and
bandwidth between them, and compares the times of a step: without the delays of the network, without
overlap of exchange and computing (all parameters in one bucket), with overlap, and as predicted by
`tapestry plan`.

    tests/bench/exchange_overlap.py [PROGRAM] [--latency 1] [--bandwidth 100] [--rounds 5]

Prints a table in Markdown, and how much of the exchange is hidden. Needs root, or user namespaces;
see tests/durability/two_machines.py.
"""

import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "durability"))

import runs
from namespaces import enter_namespaces
from runs import require
from two_machines import TwoMachines

PROCESSES = 2
SETTLING_STEPS = 2
SHARE = 0.25  # percentile of times

# Backward has to take longer than the exchange of the gradients, 0.3 s with 100 Mbit/s; forward,
# which takes half as long, hides a part of the equal exchange of the parameters.
CONFIG = """\
data: {task: copy, num_symbols: 100, min_length: 30, max_length: 30, train_size: 2000,
  validation_size: 0, test_size: 0}
model: {d_model: 128, num_heads: 4, d_ff: 512, dropout: 0.1, num_encoder_layers: 4,
  num_decoder_layers: 4, max_length: 40}
train: {batch_size: 128, accumulate: 2, threads: 1, log_every: 1, validate_every: 1000000,
  save_every: 1000000, run_dir: run}
"""
FAST = 0, 1e6  # ms and Mbit/s
ONE_BUCKET, SMALL_BUCKETS = 1000, 0.5  # MB of a bucket; all gradients have 7 MB


class Measured:
    """Times of a step, and those that `plan` predicts.

    network  latency in ms, bandwidth in Mbit/s
    bucket   train.bucket_size
    """

    def __init__(self, network, bucket):
        self.latency, self.bandwidth = network
        self.setting = f"train.bucket_size={bucket}"
        self.times, self.predictions = [], []

    def seconds(self):
        return percentile(self.times)

    def row(self, name):
        predicted = statistics.median(self.predictions)
        return (f"| {name} | {1e3 * self.seconds():.0f} | {1e3 * predicted:.0f} | "
                f"{100 * (predicted / self.seconds() - 1):+.0f} % |")


def percentile(values):
    return sorted(values)[int(SHARE * len(values))]


def train(options, folder, launcher, setting):
    """Times of the steps of a run, in seconds."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    command = [*launcher(PROCESSES), options.program, "train", "run.yaml", "--quiet", setting,
               f"train.steps={SETTLING_STEPS + options.steps}"]
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    require(done.returncode == 0, f"exit code {done.returncode}: {done.stdout}{done.stderr}")
    with open(folder / "run/timing.csv", encoding="ascii") as file:
        return [float(row["step_seconds"]) for row in csv.DictReader(file)][SETTLING_STEPS:]


def predict(options, folder, one):
    """The seconds of a step by `tapestry plan`, measured as a run is: with one process for each
    core, since the processes of a run slow each other down on one machine."""
    command = [options.program, "plan", "run.yaml", one.setting, "--processes", str(PROCESSES),
               "--json", "--bandwidth", str(one.bandwidth / 1e3), "--latency",
               str(one.latency * 1e3)]
    plans = [subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    outputs = [plan.communicate()[0] for plan in plans]
    return max(json.loads(output)["processes"]["step_seconds"] for output in outputs)


def measure(options, folder):
    (folder / "run.yaml").write_text(CONFIG)
    slow = options.latency, options.bandwidth
    measured = {"fast network, with overlap": Measured(FAST, SMALL_BUCKETS),
                "without overlap": Measured(slow, ONE_BUCKET),
                "with overlap": Measured(slow, SMALL_BUCKETS)}
    for _ in range(options.rounds):
        for one in measured.values():
            with TwoMachines(folder, one.latency * 1e-3, one.bandwidth * 1e6 / 8) as network:
                one.times += train(options, folder, network.mpirun, one.setting)
            one.predictions.append(predict(options, folder, one))
    return measured


def test(options, folder):
    enter_namespaces("nu", ["true"], folder)
    load = os.getloadavg()[0]
    measured = measure(options, folder)
    print("| network | step ms | predicted ms | difference |\n|---|---|---|---|")
    for name, one in measured.items():
        print(one.row(name))
    fast, without, overlapped = (one.seconds() for one in measured.values())
    # In one bucket neither gradients nor parameters are exchanged while processes compute.
    print(f"\n{100 * (without - overlapped) / (without - fast):.0f} % of the exchange of gradients "
          f"and parameters is hidden; {options.bandwidth:g} Mbit/s and {options.latency:g} ms in each direction; "
          f"load average before and after: {load:.1f}, {os.getloadavg()[0]:.1f}")


def add_arguments(parser):
    parser.add_argument("--latency", type=float, default=1, help="ms; default 1")
    parser.add_argument("--bandwidth", type=float, default=100, help="Mbit/s; default 100")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=10, help="of each run")


if __name__ == "__main__":
    os.environ.setdefault("TAPESTRY_PEER_TIMEOUT", "60")
    sys.exit(runs.main(test, runs.parse_arguments(__doc__, add_arguments)))
