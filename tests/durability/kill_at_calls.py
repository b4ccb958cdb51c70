#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Kills runs at every system call on files. The old or the new checkpoint must always exist."""

import itertools
import shutil
import sys
import time

import runs
import strace
from runs import Reference, require

STEPS = 5
LEFT_BEFORE = ".step-00000004.h5.tmp-1-0"  # temporary file of an earlier crash


class Scenario:
    """A command in a run directory with fixed content, and the system calls of the command."""

    def __init__(self, name, reference, options, folder, prepare):
        self.name, self.reference, self.prepare = name, reference, prepare
        self.program, self.folder = options.program, folder
        self.numbers = itertools.count()
        self.first = max(self.make_run().steps(), default=0)
        self.calls = strace.all_calls(self.make_run, lambda run: run.next_command(), reference)

    def calls_of_a_save(self):
        """The calls of a thread that writes a checkpoint and deletes an old one."""
        first = self.calls[-1].begun
        return [call for call in self.calls if call.by_writer and call.begun == first]

    def make_run(self):
        run = self.reference.run(self.program, self.folder / f"{self.name}-{next(self.numbers)}")
        self.prepare(run)
        return run

    def kill_at(self, call):
        """Kills a run at the call and resumes it. Returns whether the call was inside a save."""
        return strace.at_its_aim(self.make_run, lambda run: self._kill(run, call))

    def _kill(self, run, call):
        strace.kill_at(run, run.next_command(), call)
        saved = self.first + call.saves
        newest = self.reference.check(run, saved)
        most = saved if call.is_exact else saved + 1  # the next checkpoint is being written
        require(newest <= most, f"{call}: the newest checkpoint is of step {newest}, not {saved}")
        inside = any(".h5.tmp-" in path.name and path.name != LEFT_BEFORE
                     for path in run.temporaries())
        self.reference.finish(run)
        self.reference.check_clean(run)
        shutil.rmtree(run.folder)
        return inside


def leave_empty(run):
    """A run that has not started."""


def stop_after(reference, step):
    """A run that was killed after it had saved a step, while it wrote the next checkpoint."""
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
    begun = Scenario("new", reference, options, folder, leave_empty)
    resumed = Scenario("resumed", reference, options, folder, stop_after(reference, STEPS - 2))
    for scenario in (begun, resumed):
        begin = time.monotonic()
        calls = scenario.calls if options.full else scenario.calls_of_a_save()
        inside = sum(runs.each(scenario.kill_at, calls, options.jobs))
        require(inside > 0, f"{scenario.name}: no kill left a temporary file of a checkpoint")
        writers = sum(call.by_writer for call in calls)
        print(f"{scenario.name} run: killed at {len(calls)} of {len(scenario.calls)} system calls, "
              f"{writers} of them on threads that write checkpoints, "
              f"{inside} while a checkpoint was partly written; "
              f"{time.monotonic() - begin:.0f} s")
    print("each time the last completed checkpoint was kept, and the resumed run ended with the "
          "same bytes")


if __name__ == "__main__":
    sys.exit(runs.main(test, runs.parse_arguments(__doc__)))
