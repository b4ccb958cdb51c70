#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Kills and resumes runs at random moments until they finish. Nothing may be lost."""

import random
import shutil
import sys
import time
from dataclasses import dataclass

import runs
from runs import Reference, require

STEPS = 24
MAX_WAIT = 0.06  # seconds from the start of a process to a kill at a random moment
SAVE_SECONDS = 0.006  # approximate time from creating the temporary file of a save to renaming it


@dataclass
class Tally:
    kills: int = 0
    in_save: int = 0
    before_first: int = 0
    ended: int = 0


def wait_for_save(run, process):
    """Waits until the process has created the temporary file of a save, or has ended."""
    mark = f".h5.tmp-{process.pid}-"
    while process.poll() is None:
        try:
            if any(mark in path.name for path in run.checkpoints.iterdir()):
                return
        except FileNotFoundError:
            pass


def wait_for_moment(run, process, rng):
    """Waits for a random moment in the life of the process, or, in half of the calls, for a moment
    in a save or near it."""
    if rng.random() < 0.5:
        time.sleep(rng.uniform(0, MAX_WAIT))
        return
    for _ in range(rng.randint(1, 3)):
        time.sleep(rng.uniform(0, MAX_WAIT / 10))
        wait_for_save(run, process)
    time.sleep(rng.uniform(0, SAVE_SECONDS))


def was_in_save(run, pid):
    """Whether a killed process has left the temporary file of a checkpoint, which proves that it
    died between creating and renaming the file."""
    return any(f".h5.tmp-{pid}-" in path.name for path in run.temporaries())


def check_resume_rejected(run):
    """Checks the error of resuming without a checkpoint, or without a run directory."""
    hint = "start a run: tapestry train CONFIG" if run.directory.exists() else "name a run directory"
    outcome = run.execute(run.resume())
    require(outcome.code == 4 and hint in outcome.err,
            f"{run.directory}: resuming before the first checkpoint: {outcome}")


def kill_once(run, reference, rng, tally):
    """Continues a run and kills it. Returns whether it ended before the kill."""
    before = run.steps()
    with open(run.folder / "output", "w+b") as output:
        process = run.start(run.next_command(), output)
        wait_for_moment(run, process, rng)
        saved = max(run.steps(), default=0)
        process.kill()
        code = process.wait()
        output.seek(0)
        said = output.read().decode()
    require(code in (0, -9), f"{run.directory}: exit code {code}\n{said}")
    newest = reference.check(run, saved)
    if before and (resumed := runs.resumed_step(said)) is not None:
        require(resumed == before[-1], f"resumed at step {resumed}, expected {before[-1]}")
    if code == 0:
        return True
    tally.kills += 1
    tally.in_save += was_in_save(run, process.pid)
    if newest == 0:
        tally.before_first += 1
        check_resume_rejected(run)
    return False


def test(options, folder):
    rng = random.Random(options.seed)
    for name in ("memory", "file"):
        print(f"examples in {name}:")
        parts = folder / name
        parts.mkdir()
        config = runs.CONFIG if name == "memory" else runs.cached_config(parts)
        kill_again_and_again(options, parts, rng, config)


def kill_again_and_again(options, folder, rng, config):
    kills, in_save = (1000, 200) if options.full else (40, 8)
    reference = Reference(options.program, folder, STEPS, config=config)
    tally = Tally()
    begin = time.monotonic()
    while tally.kills < kills or tally.in_save < in_save:
        require(tally.kills < 5 * kills, f"only {tally.in_save} of {tally.kills} kills hit a save")
        run = reference.run(options.program, folder / f"run-{tally.ended}")
        while not kill_once(run, reference, rng, tally):
            pass
        reference.check_finished(run)
        last_line = (run.directory / "train.log").read_text().splitlines()[-1]
        require("  done: " in last_line, f"{run.directory}: the log ends with {last_line}")
        shutil.rmtree(run.folder)
        tally.ended += 1
    print(f"{tally.kills:,} kills in {tally.ended:,} runs of {STEPS} steps, "
          f"{time.monotonic() - begin:.0f} s (seed {options.seed})\n"
          f"  inside a save, according to the temporary file: {tally.in_save:,}\n"
          f"  before the first checkpoint: {tally.before_first:,}\n"
          f"  lost checkpoints: 0; differing bytes: 0")


if __name__ == "__main__":
    sys.exit(runs.main(test, runs.parse_arguments(__doc__)))
