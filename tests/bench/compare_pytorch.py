#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Trains the models of bench_step with Tapestry and with PyTorch, alternately, and compares times and
memory. Both start from the same parameters, train on the same batch and must agree on its loss.

    python3 tests/bench/compare_pytorch.py [NAMES...] [--threads 1 2] [--rounds 5] [--compile]

Prints a table in Markdown, one row for each model, number of threads and rival: the 10th percentile
of all times; how many times as long the rival took, as the median over the rounds with their range
in brackets; the peak memory of either process.
"""

import argparse
import contextlib
import dataclasses
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BENCH_STEP = HERE.parents[1] / ".build/release/tests/bench/bench_step"
WARM_UP_STEPS = 3
MOST_STEPS = 200
LOSS_TOLERANCE = 1e-4  # relative

COLUMNS = ["model", "threads", "rival", "Tapestry ms", "rival ms", "times as long", "Tapestry MB",
           "rival MB", "times as much"]


class Failure(Exception):
    """An error that is reported to the user in one line."""


class Contender:
    """A process that runs training steps on request; serve.h describes its protocol."""

    def __init__(self, name, command):
        self.name, self.times, self.rounds = name, [], []
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)
        try:
            self.loss = float(self.read_line())
        except BaseException:
            self.process.kill()
            raise

    def read_line(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"{self.name} stopped with exit code {self.process.wait()}; see its output "
                          "above")
        return line

    def run(self, steps):
        """Runs the steps; returns their times in seconds."""
        try:
            print(steps, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # read_line says why
        return [float(time) for time in self.read_line().split()]

    def run_round(self, steps):
        """Runs one more step first, unmeasured, which brings data back into the caches."""
        times = self.run(1 + steps)[1:]
        self.times += times
        self.rounds.append(low_percentile(times))

    def finish(self):
        self.process.stdin.close()
        self.peak_memory = json.loads(self.read_line())["peak_memory"]
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@dataclasses.dataclass
class Comparison:
    """Tapestry against one rival."""
    tapestry: Contender
    rival: Contender

    def cells(self):
        ours, theirs = (1e3 * low_percentile(c.times) for c in (self.tapestry, self.rival))
        ratios = [b / a for a, b in zip(self.tapestry.rounds, self.rival.rounds)]
        memory, their_memory = (c.peak_memory / 1e6 for c in (self.tapestry, self.rival))
        spread = f"{statistics.median(ratios):.2f} ({min(ratios):.2f}..{max(ratios):.2f})"
        return [self.rival.name, f"{ours:.1f}", f"{theirs:.1f}", spread, f"{memory:.0f}",
                f"{their_memory:.0f}", f"{their_memory / memory:.1f}"]


def low_percentile(times):
    """The 10th percentile: the time without interference by other programs."""
    return sorted(times)[len(times) // 10]


def require_same_loss(tapestry, rival):
    if not abs(rival.loss - tapestry.loss) <= LOSS_TOLERANCE * abs(tapestry.loss):
        raise Failure(f"{rival.name} finds a loss of {rival.loss:.7g} where Tapestry finds "
                      f"{tapestry.loss:.7g}, expected agreement to {LOSS_TOLERANCE:g}: they do not "
                      "train the same model")


def steps_of_a_round(contenders, seconds):
    slowest = max(min(contender.run(WARM_UP_STEPS)) for contender in contenders)
    return min(max(round(seconds / slowest), 2), MOST_STEPS)


def take_turns(contenders, options):
    for contender in contenders[1:]:
        require_same_loss(contenders[0], contender)
    steps = steps_of_a_round(contenders, options.seconds)
    for _ in range(options.rounds):
        for contender in contenders:
            contender.run_round(steps)
    for contender in contenders:
        contender.finish()


def start_tapestry(model, threads, directory, bench_step):
    return Contender("Tapestry", [bench_step, model, "--threads", str(threads), "--serve",
                                  directory])


def start_pytorch(mode, threads, directory):
    worker = HERE / "pytorch_worker.py"
    return Contender(f"PyTorch, {mode}", [sys.executable, worker, directory, str(threads), mode])


def compare(model, threads, options):
    """Tapestry against each rival."""
    with tempfile.TemporaryDirectory() as directory, contextlib.ExitStack() as running:
        tapestry = start_tapestry(model, threads, directory, options.bench_step)
        contenders = [running.enter_context(tapestry)]
        for mode in ["eager", "compile"] if options.compile else ["eager"]:
            contenders.append(running.enter_context(start_pytorch(mode, threads, directory)))
        take_turns(contenders, options)
    return [Comparison(tapestry, rival) for rival in contenders[1:]]


def print_row(cells):
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def print_heading(columns):
    print_row(columns)
    print_row(["---"] * len(columns))


def reason(error):
    return error.strerror if isinstance(error, OSError) else f"exit code {error.returncode}"


def names_of_models(bench_step):
    try:
        listing = subprocess.run([bench_step, "--list"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise Failure(f"'{bench_step} --list' does not run ({reason(error)}); build it (cmake "
                      "--build --preset release --target bench_step) or say where it is with "
                      "--bench-step")
    return listing.stdout.split()


def parse_arguments():
    def positive(convert):
        def parse(text):
            if not (value := convert(text)) > 0:
                raise argparse.ArgumentTypeError(f"{text} is not > 0")
            return value
        return parse

    parser = argparse.ArgumentParser(description="Compares training steps with PyTorch's.")
    parser.add_argument("names", nargs="*", help="models of bench_step --list; all if none given")
    parser.add_argument("--threads", nargs="+", type=positive(int), default=[1, 2])
    parser.add_argument("--rounds", type=positive(int), default=5)
    parser.add_argument("--seconds", type=positive(float), default=1.5,
                        help="time of a round for the slowest contender")
    parser.add_argument("--compile", action="store_true", help="against torch.compile as well")
    parser.add_argument("--bench-step", type=pathlib.Path, default=BENCH_STEP)
    return parser.parse_args()


def main():
    options = parse_arguments()
    known = names_of_models(options.bench_step)
    for name in options.names:
        if name not in known:
            raise Failure(f"there is no model '{name}', expected some of: {', '.join(known)}")
    print_heading(COLUMNS)
    for model in options.names or known:
        for threads in options.threads:
            for comparison in compare(model, threads, options):
                print_row([model, threads, *comparison.cells()])


def run_main(program, main):
    """Calls main(); a Failure ends the program with one line."""
    try:
        main()
    except Failure as failure:
        sys.exit(f"{program}: error: {failure}")
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    run_main("compare_pytorch", main)
