#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Puts faults into a copy of the sources and prints which test finds each fault: see README.md."""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import time
from pathlib import Path

import mutants as mutant_list
from trials import CHECKS, Trial, try_mutant
from weave import weave, woven


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lists", nargs="+", type=Path, metavar="LIST.toml", help="mutants to try")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="try only these mutants")
    parser.add_argument("--jobs", type=int, default=2, help="mutants to try at a time; default 2")
    parser.add_argument("--check", action="store_true",
                        help="only check that every mutant fits the sources")
    parser.add_argument("--compile", action="store_true",
                        help="only check that the woven sources compile")
    parser.add_argument("--build", type=Path, default=mutant_list.ROOT / ".build" / "mutants",
                        help="folder of the build; default .build/mutants")
    return parser.parse_args()


def check(mutants):
    """Reports all mutants that do not fit their files in one error."""
    problems = []
    for file, of_file in mutant_list.by_file(mutants).items():
        try:
            woven((mutant_list.ROOT / file).read_text(), of_file)
        except (mutant_list.ListError, FileNotFoundError) as error:
            problems.append(str(error))
    if problems:
        raise mutant_list.ListError("\n".join(problems))


def select(mutants, names):
    unknown = set(names or []) - {mutant.name for mutant in mutants}
    if unknown:
        raise mutant_list.ListError(f"--only: found {', '.join(sorted(unknown))}, expected names of the lists")
    return [mutant for mutant in mutants if not names or mutant.name in names]


def build(mutants, folder):
    """Builds the woven sources; returns the folder of the programs."""
    source, programs = folder / "source", folder / "build"
    weave(mutants, source)
    subprocess.run(["cmake", "-S", source, "-B", programs, "-G", "Ninja",
                    f"-DCMAKE_CXX_FLAGS=-I{source.resolve()}"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", programs, "--parallel", str(os.cpu_count()), "--", "-k", "0"],
                   check=True)
    return programs


def findings(mutant, trial):
    """The line to print for a trial."""
    name = mutant.name if mutant is not None else "nothing"
    killer = "SURVIVES"
    if trial.test is not None:
        first = f": {trial.test.first}" if trial.test.first else ""
        killer = f"{trial.test.suite} {trial.test.how}{first}"
    checks = [f"{check}: {trial.checks[check]}" for check in CHECKS if check in trial.checks]
    return f"{name}: " + " | ".join([killer, *checks])


def escapes(mutant, trial):
    """Whether the tests miss the mutant, or gradcheck misses a mutant that it must find."""
    return trial.test is None or (mutant.gradcheck and "gradcheck" not in trial.checks)


def run_all(mutants, programs, jobs):
    """Tries each mutant and prints its line; returns the mutants that escape."""
    escaped = []
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(try_mutant, mutant, programs): mutant for mutant in mutants}
        for future in concurrent.futures.as_completed(futures):
            mutant, trial = futures[future], future.result()
            print(findings(mutant, trial), flush=True)
            if escapes(mutant, trial):
                escaped.append(mutant)
    return escaped


def main():
    options = arguments()
    mutants = mutant_list.load(options.lists)
    check(mutants)
    if options.check:
        return 0
    selected = select(mutants, options.only)
    programs = build(mutants, options.build)
    if options.compile:
        return 0
    baseline = try_mutant(None, programs)
    if baseline != Trial():
        print(f"without a mutant: {findings(None, baseline)}", file=sys.stderr)
        print("hint: fix this first; without a mutant, the woven sources must pass all tests",
              file=sys.stderr)
        return 1
    begin = time.monotonic()
    escaped = run_all(selected, programs, options.jobs)
    minutes = (time.monotonic() - begin) / 60
    print(f"{len(selected)} mutants, {len(selected) - len(escaped)} killed in {minutes:.1f} minutes")
    for mutant in escaped:
        print(f"survives: {mutant.name}: {mutant.breaks} ({mutant.file})")
    return 1 if escaped else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except mutant_list.ListError as error:
        sys.exit(f"mutants: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
