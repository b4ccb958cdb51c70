#!/usr/bin/env -S python3 -B
"""Breaks Tapestry on purpose, in every way on the list, and shows what notices: see README.md."""

import argparse
import concurrent.futures
import os
import subprocess
import sys
import time
from pathlib import Path

import mutants as mutant_list
import report
from trials import Trial, try_mutant
from weave import weave, woven


# Written by each run; the test named there is the first that the next run tries on a mutant.
KILLERS = Path(__file__).resolve().parent / "killed_by.json"


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these mutants alone")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time; default 2")
    parser.add_argument("--list", action="store_true", help="print the names and end")
    parser.add_argument("--check", action="store_true",
                        help="only see that every mutant fits the sources")
    parser.add_argument("--compile", action="store_true",
                        help="only see that the woven sources compile")
    parser.add_argument("--build", type=Path, default=mutant_list.ROOT / ".build" / "mutants",
                        help="where to build; default .build/mutants")
    return parser.parse_args()


def check(mutants):
    """Says of all files at once what does not fit."""
    problems = []
    for file, of_file in mutant_list.by_file(mutants).items():
        try:
            woven((mutant_list.ROOT / file).read_text(), of_file)
        except (mutant_list.ListError, FileNotFoundError) as error:
            problems.append(str(error))
    unknown = report.read_killers(KILLERS).keys() - {mutant.name for mutant in mutants}
    problems += [f"{KILLERS.name}: found {name}, expected a mutant of list/; remove the line"
                 for name in sorted(unknown)]
    if problems:
        raise mutant_list.ListError("\n".join(problems))


def chosen(mutants, names):
    unknown = set(names or []) - {mutant.name for mutant in mutants}
    if unknown:
        raise mutant_list.ListError(f"--only: there is no {', '.join(sorted(unknown))}; see --list")
    return [mutant for mutant in mutants if not names or mutant.name in names]


def build(mutants, folder):
    """The folder of the programs of the woven sources."""
    source, programs = folder / "source", folder / "build"
    weave(mutants, source)
    subprocess.run(["cmake", "-S", source, "-B", programs, "-G", "Ninja",
                    f"-DCMAKE_CXX_FLAGS=-I{source.resolve()}"], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", programs, "--parallel", str(os.cpu_count()), "--", "-k", "0"],
                   check=True)
    return programs


def run_all(mutants, programs, jobs, known):
    """A trial for each, in their order; prints them as they end, and writes what killed them, so
    that a run that is interrupted can be continued."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(try_mutant, mutant, programs, known.get(mutant.name)): mutant
                   for mutant in mutants}
        for future in concurrent.futures.as_completed(futures):
            print(report.line(futures[future], future.result()), flush=True)
            report.write_killers([futures[future]], [future.result()], known, KILLERS)
    return [future.result() for future in futures]


def main():
    options = arguments()
    mutants = mutant_list.load()
    check(mutants)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.name:<44} {mutant.breaks}")
    if options.list or options.check:
        return 0
    selected = chosen(mutants, options.only)
    programs = build(mutants, options.build)
    if options.compile:
        return 0
    baseline = try_mutant(None, programs)
    if baseline != Trial():
        print(f"without a mutant: {report.line(None, baseline)}", file=sys.stderr)
        print("hint: mend that first; the woven sources must pass as the real ones do",
              file=sys.stderr)
        return 1
    begin = time.monotonic()
    known = report.read_killers(KILLERS)
    trials = run_all(selected, programs, options.jobs, known)
    minutes = (time.monotonic() - begin) / 60
    table = options.build / ("table-only.md" if options.only else "table.md")
    report.write_table(selected, trials, minutes, options.jobs, table)
    print(report.summary(selected, trials, minutes, options.jobs))
    print(f"table: {table}")
    return 1 if report.escaped(selected, trials) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except mutant_list.ListError as error:
        sys.exit(f"mutants: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
