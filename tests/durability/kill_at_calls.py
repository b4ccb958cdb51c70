#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Kills runs at every system call on files: the old or the new checkpoint is always there."""

import itertools
import shutil
import sys
import time

import runs
import strace
from runs import Reference, require

STEPS = 5
LEFT_BEFORE = ".step-00000004.h5.tmp-1-0"  # of a crash before


class Scenario:
    """A command in a run directory that is always the same, and the system calls that it makes."""

    def __init__(self, name, reference, options, folder, prepare):
        self.name, self.reference, self.prepare = name, reference, prepare
        self.program, self.folder = options.program, folder
        self.numbers = itertools.count()
        self.first = max(self.make_run().steps(), default=0)
        self.calls = strace.all_calls(self.make_run, lambda run: run.next_command(), reference)

    def of_a_save(self):
        """The calls of a save: of a thread that writes a checkpoint, and deletes an old one."""
        first = self.calls[-1].begun
        return [call for call in self.calls if call.by_writer and call.begun == first]

    def make_run(self):
        run = self.reference.run(self.program, self.folder / f"{self.name}-{next(self.numbers)}")
        self.prepare(run)
        return run

    def kill_at(self, call):
        """A run is killed at the call and continues. Returns whether that was inside a save."""
        return strace.at_its_aim(self.make_run, lambda run: self._kill(run, call))

    def _kill(self, run, call):
        strace.kill_at(run, run.next_command(), call)
        saved = self.first + call.saves
        newest = self.reference.check(run, saved)
        most = saved if call.is_exact else saved + 1  # the next one is being written
        require(newest <= most, f"{call}: the newest checkpoint is of step {newest}, not {saved}")
        inside = any(".h5.tmp-" in path.name and path.name != LEFT_BEFORE
                     for path in run.temporaries())
        self.reference.finish(run)
        self.reference.check_clean(run)
        shutil.rmtree(run.folder)
        return inside


def leave_empty(run):
    """The run is to begin."""


def stop_after(reference, step):
    """The run was killed after it had saved a step, while it wrote the file of the next."""
    def prepare(run):
        run.checkpoints.mkdir(parents=True)
        for kept in (step - 1, step):
            shutil.copy(reference.kept / run.checkpoint(kept).name, run.checkpoint(kept))
        left = run.checkpoints / LEFT_BEFORE
        left.write_bytes(run.checkpoint(step).read_bytes()[:100_000])
    return prepare


def test(options, folder):
    strace.require_strace()
    reference = Reference(options.program, folder, STEPS)
    begun = Scenario("begun", reference, options, folder, leave_empty)
    resumed = Scenario("resumed", reference, options, folder, stop_after(reference, STEPS - 2))
    for scenario in (begun, resumed):
        begin = time.monotonic()
        calls = scenario.calls if options.full else scenario.of_a_save()
        inside = sum(runs.each(scenario.kill_at, calls, options.jobs))
        require(inside > 0, f"{scenario.name}: no kill left the temporary file of a checkpoint")
        writers = sum(call.by_writer for call in calls)
        print(f"a run that is {scenario.name}: killed at {len(calls)} system calls of "
              f"{len(scenario.calls)}, {writers} of them by threads that write checkpoints, "
              f"{inside} with a checkpoint half written; "
              f"{time.monotonic() - begin:.0f} s")
    print("each time the newest checkpoint was the last that had been put in place, and the run "
          "resumed to the same bytes")


if __name__ == "__main__":
    sys.exit(runs.main(test, runs.parse_arguments(__doc__)))
