#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Makes every system call on files fail, once or from then on. No data may be lost or left over."""

import errno
import itertools
import os
import re
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass

import runs
import strace
from runs import Failure, Reference, require

STEPS = 5
ERRORS = ["ENOSPC", "EIO", "EDQUOT", "EMFILE", "EACCES", "EROFS", "EINTR"]
# A save fails if one of these calls on these files fails.
VITAL_CALLS = ("openat", "open", "fallocate", "write", "fsync", "pread64", "pread", "close",
               "rename")
VITAL_FILES = (".h5.tmp-", ".metrics.csv.tmp-")


@dataclass(frozen=True)
class Trial:
    """A fault at a system call."""
    call: strace.Call
    fault: str     # in the syntax of strace: error=ENOSPC, retval=100
    onwards: bool  # whether all later calls with that name also fail

    @property
    def save(self):
        """The first save that the fault can affect, from 1; 0 before the first save."""
        return self.call.save

    def __str__(self):
        return f"{self.call}: {self.fault}{' from then on' if self.onwards else ''}"

    @property
    def is_vital(self):
        """Whether the fault makes a save fail. Interrupted calls are repeated."""
        return (self.call.name in VITAL_CALLS and "EINTR" not in self.fault and
                any(file in self.call.what for file in VITAL_FILES))

    @property
    def reason(self):
        """The reason that the program must print."""
        if self.fault.startswith("retval"):
            return "the disk did not return the bytes"
        return os.strerror(getattr(errno, self.fault.removeprefix("error=")))


def faults_of(call, errors):
    """The faults of a call, as pairs (fault, onwards). EINTR occurs only once, since an interrupted
    call is repeated."""
    for error in errors:
        yield f"error={error}", False
        if error != "EINTR":
            yield f"error={error}", True
    if call.name in ("write", "pread64", "pread") and any(file in call.what for file in VITAL_FILES):
        yield "retval=100", False  # reports success without transferring any bytes


def trials_of(calls, full):
    """With `full`, all calls with all errors. Otherwise one error per call, for all calls of a save
    in the middle, for single faults in the last save, and for lasting faults at the first call of
    each name."""
    turn = itertools.cycle(ERRORS)
    for call in calls:
        save = call.save
        for fault, onwards in faults_of(call, ERRORS if full else [next(turn)]):
            first = all((other.name, other.by_writer) != (call.name, call.by_writer)
                        for other in calls[:calls.index(call)])
            if full or save == 3 or (save >= STEPS and not onwards) or (first and onwards):
                yield Trial(call, fault, onwards)


def check_outcome(trial, outcome, log):
    """The exit code is documented, and the message names the reason."""
    require(outcome.code in (0, 4, 5), f"{trial}: {outcome}")
    if outcome.code != 0 and trial.call.name != "write":  # without write, no message can be printed
        require(outcome.err.startswith("tapestry: error: ") and "\nhint: " in outcome.err,
                f"{trial}: {outcome}")
    # Exit code 4, a folder that cannot be read, is possible only before the first save.
    require(outcome.code != 4 or trial.save == 0, f"{trial}: {outcome}")
    ends = trial.onwards or trial.save >= STEPS
    require(outcome.code == 0 or ends or trial.save == 0,
            f"{trial}: expected the run to continue: {outcome}")
    if trial.is_vital and ends:
        require(outcome.code == 5, f"{trial}: expected exit code 5: {outcome}")
    elif trial.is_vital:
        check_warning(trial, outcome.out, log)


def check_warning(trial, out, log):
    """The run has printed and logged one warning about the failed save."""
    for text in (out, log):
        said = [line for line in text.splitlines()
                if re.search(r"\bwarning: .*" + re.escape(trial.reason), line)]
        require(len(said) == 1, f"{trial}: expected one warning about it in:\n{text}")
        about_space = any(error in trial.fault for error in ("ENOSPC", "EIO", "EDQUOT"))
        has_bytes = re.search(r"\d+ bytes needed, \d+ free", said[0]) is not None
        require(has_bytes == about_space,
                f"{trial}: expected bytes needed and free only in errors about space: {said[0]}")


class Trials:
    """Runs with faults, each from its start."""

    def __init__(self, options, folder):
        self.program, self.folder = options.program, folder
        self.reference = Reference(options.program, folder, STEPS)
        self.numbers = itertools.count()
        self.calls = strace.all_calls(self.make_run, lambda run: run.train(), self.reference)

    def make_run(self):
        return self.reference.run(self.program, self.folder / f"run-{next(self.numbers)}")

    def make(self, trial):
        """Returns the exit code."""
        return strace.at_its_aim(self.make_run, lambda run: self._make(run, trial))

    def _make(self, run, trial):
        outcome = strace.fail_at(run, run.train(), trial.call, trial.fault, trial.onwards)
        log = run.directory / "train.log"
        check_outcome(trial, outcome, log.read_text() if log.exists() else "")
        self.check_run(run, outcome, trial, max(trial.save - 1, 0), trial.call.name != "unlink")
        return outcome.code

    def check_run(self, run, outcome, trial, saved, deletes=True):
        """Earlier saves still exist, the run can be resumed, and no temporary file is left over.

        deletes  whether the run could delete files
        """
        try:
            self.reference.check(run, saved)
            if deletes:
                self.reference.check_clean(run)
            if outcome.code == 0:
                self.reference.check_end(run)
            self.reference.finish(run)
            if deletes:  # otherwise a file may be left: resuming a finished run deletes nothing
                self.reference.check_clean(run)
        except Failure as failure:
            raise Failure(f"{trial}: {failure}\n{outcome}") from failure
        shutil.rmtree(run.folder)


def check_threads_rejected(trials):
    """If no thread can be created, training waits during saves, and prints one warning."""
    run = trials.make_run()
    reject = ["strace", "-f", "-o", "trace", "-e", "trace=clone,clone3",
              "-e", "inject=clone,clone3:error=EAGAIN"]
    outcome = run.execute([*reject, *run.train()])
    rejected = (run.folder / "trace").read_text().count("(INJECTED)")
    said = outcome.out.count("warning: training waits while checkpoints are written")
    require((outcome.code, rejected, said) == (0, STEPS - 1, 1),
            f"{rejected} threads were rejected, {said} warnings: {outcome}")
    trials.check_run(run, outcome, "no threads", STEPS)


def test(options, folder):
    strace.require_strace()
    begin = time.monotonic()
    trials = Trials(options, folder)
    check_threads_rejected(trials)
    every = list(trials_of(trials.calls, options.full))
    codes = Counter(runs.each(trials.make, every, options.jobs))
    print(f"{len(every):,} faults in {len({trial.call for trial in every})} of "
          f"{len(trials.calls)} system calls of a run with {STEPS} saves, "
          f"{time.monotonic() - begin:.0f} s: {codes[0]:,} runs finished, {codes[5]:,} ended with "
          f"exit code 5, {codes[4]:,} with 4")
    print("no save was lost, no file was left over, every resumed run ended with the same bytes")


if __name__ == "__main__":
    sys.exit(runs.main(test, runs.parse_arguments(__doc__)))
