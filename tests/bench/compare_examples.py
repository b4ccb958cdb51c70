#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs examples of tests/examples and the same programs in PyTorch, alternately, and compares their
training times.

    python3 tests/bench/compare_examples.py [NAMES...] [--rounds 5]

Both use two threads and print the time of their training loop. Prints a table in Markdown, one row
for each example: the shortest time of either, and how many times as long PyTorch took.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "tests/examples"
PROGRAMS = ROOT / ".build/release/tests/examples"


def training_time(command, folder):
    """The training time in seconds that a program prints; the program must succeed."""
    output = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    return float(re.search(r"^trained in ([\d.]+) s$", output, re.MULTILINE)[1])


def compare(name, rounds):
    """The shortest training times of the two programs, which run alternately."""
    commands = [PROGRAMS / f"example_{name}"], [sys.executable, EXAMPLES / f"{name}.py"]
    with tempfile.TemporaryDirectory() as folder:
        times = [[training_time(command, folder) for command in commands] for _ in range(rounds)]
    return [min(column) for column in zip(*times)]


def main():
    names = sorted(path.stem for path in EXAMPLES.glob("*.py") if path.with_suffix(".cpp").exists())
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    print("| example | Tapestry s | PyTorch s | times as long |\n|---|---|---|---|")
    for name in arguments.names or names:
        ours, theirs = compare(name, arguments.rounds)
        print(f"| {name} | {ours:.3f} | {theirs:.3f} | {theirs / ours:.1f} |", flush=True)


if __name__ == "__main__":
    main()
