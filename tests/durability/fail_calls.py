#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Lets every system call on files fail, once and from then on: nothing is lost or left over."""

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
# A save cannot do without these, on these files.
VITAL_CALLS = ("openat", "open", "fallocate", "write", "fsync", "pread64", "pread", "close",
               "rename")
VITAL_FILES = (".h5.tmp-", ".metrics.csv.tmp-")


@dataclass(frozen=True)
class Trial:
    """One thing that goes wrong."""
    call: strace.Call
    fault: str     # as strace has it: error=ENOSPC, retval=100
    onwards: bool  # and with all later calls of that name

    @property
    def save(self):
        """The first save that can suffer, from 1; 0 before the first begins."""
        return self.call.save

    def __str__(self):
        return f"{self.call}: {self.fault}{' from then on' if self.onwards else ''}"

    @property
    def is_vital(self):
        """Whether a save that meets this must fail. An interrupted call may be made again."""
        return (self.call.name in VITAL_CALLS and "EINTR" not in self.fault and
                any(file in self.call.what for file in VITAL_FILES))

    @property
    def reason(self):
        """What the program has to say of it."""
        if self.fault.startswith("retval"):
            return "the disk returned other bytes"
        return os.strerror(getattr(errno, self.fault.removeprefix("error=")))


def faults_of(call, errors):
    """What may go wrong with a call, once; and from then on. A call that is interrupted forever is
    repeated forever, and no disk does that."""
    for error in errors:
        yield f"error={error}", False
        if error != "EINTR":
            yield f"error={error}", True
    if call.name in ("write", "pread64", "pread") and any(file in call.what for file in VITAL_FILES):
        yield "retval=100", False  # a disk that lies: no byte has been moved


def trials_of(calls, full):
    """All calls with all errors; or, with one error each in turn, the calls of a save in the middle,
    once the calls of the last, and from then on the first call of each name."""
    turn = itertools.cycle(ERRORS)
    for call in calls:
        save = call.save
        for fault, onwards in faults_of(call, ERRORS if full else [next(turn)]):
            first = all((other.name, other.by_writer) != (call.name, call.by_writer)
                        for other in calls[:calls.index(call)])
            if full or save == 3 or (save >= STEPS and not onwards) or (first and onwards):
                yield Trial(call, fault, onwards)


def check_outcome(trial, outcome, log):
    """The exit code is a documented one and what was said names the reason."""
    require(outcome.code in (0, 4, 5), f"{trial}: {outcome}")
    if outcome.code != 0 and trial.call.name != "write":  # else nothing can be said
        require(outcome.err.startswith("tapestry: error: ") and "\nhint: " in outcome.err,
                f"{trial}: {outcome}")
    # Only before there is anything to save can it be that a folder could not be read.
    require(outcome.code != 4 or trial.save == 0, f"{trial}: {outcome}")
    ends = trial.onwards or trial.save >= STEPS
    require(outcome.code == 0 or ends or trial.save == 0,
            f"{trial}: expected the run to go on: {outcome}")
    if trial.is_vital and ends:
        require(outcome.code == 5, f"{trial}: expected exit code 5: {outcome}")
    elif trial.is_vital:
        check_warning(trial, outcome.out, log)


def check_warning(trial, out, log):
    """One save failed, and the run said so."""
    for text in (out, log):
        said = [line for line in text.splitlines()
                if re.search(r"\bwarning: .*" + re.escape(trial.reason), line)]
        require(len(said) == 1, f"{trial}: expected one warning of it in:\n{text}")
        about_space = any(error in trial.fault for error in ("ENOSPC", "EIO", "EDQUOT"))
        has_bytes = re.search(r"\d+ bytes needed, \d+ free", said[0]) is not None
        require(has_bytes == about_space,
                f"{trial}: bytes needed and free only where they may be the reason: {said[0]}")


class Trials:
    """Runs in which something goes wrong, each from its beginning."""

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
        """What was saved before is there still, the run can go on, and nothing is left over, unless
        that could not be deleted."""
        try:
            self.reference.check(run, saved)
            if deletes:
                self.reference.check_clean(run)
            if outcome.code == 0:
                self.reference.check_end(run)
            self.reference.finish(run)
            if deletes:  # else it may stay: a run that is finished touches nothing any more
                self.reference.check_clean(run)
        except Failure as failure:
            raise Failure(f"{trial}: {failure}\n{outcome}") from failure
        shutil.rmtree(run.folder)


def check_threads_rejected(trials):
    """Without a thread for it, training waits while a checkpoint is written, and says so once."""
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
    print(f"{len(every):,} faults in {len({trial.call for trial in every})} system calls of "
          f"{len(trials.calls)} of a run with {STEPS} saves, {time.monotonic() - begin:.0f} s: "
          f"{codes[0]:,} runs went on to their end, {codes[5]:,} ended with exit code 5, "
          f"{codes[4]:,} with 4")
    print("nothing that was saved was lost, nothing was left over, and every run could be taken to "
          "the same bytes afterwards")


if __name__ == "__main__":
    sys.exit(runs.main(test, runs.parse_arguments(__doc__)))
