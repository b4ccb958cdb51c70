# SPDX-License-Identifier: BSD-3-Clause
"""The system calls of a command on files, and commands that die at one of them or see it fail.

Checkpoints are written by separate threads, all but the last. strace lists and hits the calls of
the main thread; it counts the calls of each thread separately, so that it cannot aim at the calls of the
others, which writer_calls.cpp lists and hits."""

import errno
import itertools
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass

from runs import Failure, Outcome, Skipped

TRACED = "%file,%desc,clone,clone3"  # every call that takes a path or a descriptor; new threads
DATA_CALLS = ("write", "pwrite64", "read", "pread64")
FOREVER = 1_000_000  # times that a call fails
# Where an injection may miss its aim: a run that finds other programs at work says so, which
# takes two more writes than the run that was traced first, or two less. Beside other tests that
# comes and goes from run to run, and most runs have none.
OFFSETS = [0, 2, -2, 0, 1, -1]
PATIENCE = 60  # seconds for one aim, some hundred attempts


@dataclass(frozen=True)
class Call:
    """A system call of a command's main thread, or of threads that write checkpoints."""
    name: str
    nth: int   # among the calls of its name, or all calls of the writers; from 1
    what: str  # the call with the paths it is about, the same in every run
    alike: int  # which one this is, since the last save began, of the calls with that text
    begun: int  # the saves that had begun before, with the one that it belongs to
    saves: int  # checkpoints that had been put in place before, at least
    is_exact: bool = True  # and not one more
    by_writer: bool = False

    @property
    def place(self):
        """The same in every run, which `nth` is not."""
        return self.what, self.begun, self.alike

    @property
    def save(self):
        """The number of the first save that can suffer from what happens here; 0 before the first
        has begun."""
        return self.saves + 1 if self.begun else 0

    def __str__(self):
        return f"{self.what} (number {self.nth}{' of the writers' if self.by_writer else ''})"


class Elsewhere(Failure):
    """The injection hit another call than it was meant for."""


def require_strace():
    """throws Skipped unless this machine lets strace trace processes and inject into them."""
    if not shutil.which("strace"):
        raise Skipped("strace was not found; apt-get install strace")
    kill = ["strace", "-f", "-o", "/dev/null", "-e", "inject=close:signal=KILL:when=1", "true"]
    tried = subprocess.run(kill, capture_output=True, text=True, check=False)
    if tried.returncode != -9:
        raise Skipped(f"strace may not trace processes here: {tried.stderr.strip()}")


def _relative(path, folder):
    """The path relative to the folder, without process ids."""
    path = path.replace(str(folder), ".", 1).removeprefix("./")
    return re.sub(r"(?<=\.tmp-)\d+-|(?<=^/proc/)\d+", "", path)


def _paths(arguments, folder):
    """The paths among a call's arguments."""
    found = re.findall(r'\d<(/[^>]*)>|(?:^|, )"([^"]*)"', arguments)
    return [_relative(opened or named, folder) for opened, named in found]


def _given(name, rest):
    """What a call is given: neither what is read and written is a path, nor what is returned, which
    a call that is killed does not show."""
    if name == "getcwd":
        return ""
    return rest.split(', "')[0] if name in DATA_CALLS else rest.rsplit(" = ", 1)[0]


# ---- The main thread.

def _parse(trace, folder):
    """The calls of the main thread in a trace, each with its line. The first line is its execve.
    Each new thread writes a checkpoint, and when one begins, those before are in place."""
    counts, alike, threads, renames, is_saving, calls = {}, {}, 0, 0, False, []
    for line in trace.read_text(errors="replace").splitlines():
        found = re.match(r"(\w+)\((.*)", line)
        if not found:
            continue
        name, rest = found.groups()
        if name.startswith("clone"):
            threads, alike, is_saving = threads + 1, {}, False
            continue
        counts[name] = counts.get(name, 0) + 1
        what = " ".join([name, *_paths(_given(name, rest), folder)])
        # The last save begins with a look at the lock, which the start of the run has opened.
        if threads and name.startswith("open") and what.endswith("/.lock") and not is_saving:
            is_saving, alike = True, {}
        alike[what] = alike.get(what, 0) + 1
        is_settled = is_saving or threads == 0
        calls.append((Call(name, counts[name], what, alike[what],
                           begun=threads + is_saving,
                           saves=threads + renames if is_settled else threads - 1,
                           is_exact=is_settled), line))
        renames += name == "rename" and what.endswith(".h5")  # put in its place
    return calls


def _execute(run, command, options, **limits):
    trace = run.folder / "trace"
    outcome = run.execute(["strace", "-y", "-o", trace, *options, *command], **limits)
    return outcome, _parse(trace, run.folder)


def calls_of(run, command):
    """Runs a command and returns the calls on files of its main thread, from the first that is about
    the run directory on, with how it ended. Memory that is mapped is no file work."""
    outcome, calls = _execute(run, command, ["-e", f"trace={TRACED}"])
    calls = [call for call, _ in calls]
    first = next(i for i, call in enumerate(calls)
                 if "runs/run" in call.what and call.name != "execve")
    return [call for call in calls[first:] if call.name != "mmap"], outcome


def _inject(run, command, call, fault, onwards, offset):
    nth = max(call.nth + offset, 1)
    options = ["-e", f"trace=execve,rename,clone,clone3,openat,{call.name}",
               "-e", f"inject={call.name}:{fault}:when={nth}{'+' if onwards else ''}"]
    outcome, calls = _execute(run, command, options)
    aim = (call.name, nth)
    hit = next((found for found in calls if (found[0].name, found[0].nth) == aim), None)
    if hit is None or hit[0].place != call.place:
        raise Elsewhere(f"meant {call}, hit {hit[0] if hit else 'nothing'}: {outcome}")
    return outcome, calls, hit[1]


# ---- The threads that write checkpoints.

def _execute_writer(run, command, fault=None):
    """Returns how the command ended and the calls of its writers."""
    listed = run.folder / "calls"
    preloaded = run.program.parent / "tests" / "durability" / "writer_calls.so"
    if not preloaded.is_file():
        raise Failure(f"{preloaded}: no such file; build the target writer_calls")
    # Without the threads that OpenBLAS starts before the program.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "LD_PRELOAD": str(preloaded),
                   "TAPESTRY_CALLS": str(listed)}
    if fault:
        environment["TAPESTRY_FAULT"] = fault
    outcome = run.execute(command, env=environment)
    alike, begun, saves, calls = {}, 0, 0, []
    for number, line in enumerate(listed.read_text().splitlines() if listed.exists() else [], 1):
        name, path = line.split(" ", 1)
        what = f"{name} {_relative(path, run.folder)}"
        if what == "open runs/run/.lock":  # a save begins
            begun, alike = begun + 1, {}
        alike[what] = alike.get(what, 0) + 1
        calls.append(Call(name, number, what, alike[what], begun, saves, by_writer=True))
        saves += name == "rename" and path.endswith(".h5")
    return outcome, calls


def writer_calls_of(run, command):
    """The same for the threads that write checkpoints."""
    outcome, calls = _execute_writer(run, command)
    return calls, outcome


def all_calls(make_run, command_of, reference):
    """The calls of a command of both kinds of threads, each in a new run, which nothing disturbs."""
    calls = []
    for list_calls in (calls_of, writer_calls_of):
        run = make_run()
        found, outcome = list_calls(run, command_of(run))
        if outcome.code != 0:
            raise Failure(str(outcome))
        reference.check_finished(run)
        calls += found
    return calls


def fail_writer(run, command, call, times, result) -> Outcome:
    """The call is not carried out, nor are the next ones of its name, `times` in all; see
    writer_calls.cpp for `result`. throws Elsewhere."""
    outcome, calls = _execute_writer(run, command, f"{call.nth} {times} {result}")
    if len(calls) < call.nth or calls[call.nth - 1].place != call.place:
        hit = calls[call.nth - 1] if len(calls) >= call.nth else "nothing"
        raise Elsewhere(f"meant {call}, hit {hit}: {outcome}")
    if result == 0 and len(calls) != call.nth:
        raise Failure(f"{call}: the process went on: {outcome}")
    return outcome


def _result_of(fault):
    """What writer_calls.cpp is told for a fault of strace."""
    kind, value = fault.split("=")
    return int(value) if kind == "retval" else -getattr(errno, value)


# ---- Both.

def kill_at(run, command, call):
    """The process of the command is killed as it enters the call, which is not carried out.
    throws Elsewhere, after which the run is to be made anew."""
    if call.by_writer:
        outcome, at_end = fail_writer(run, command, call, 1, 0), True
    else:
        outcome, calls, line = _inject(run, command, call, "signal=KILL", False, run.offset)
        at_end = calls[-1][1] == line
    if outcome.code != -9 or not at_end:
        raise Failure(f"{call}: the process was not killed there: {outcome}")


def fail_at(run, command, call, fault, onwards) -> Outcome:
    """The call is not carried out and returns what `fault` says; so do all later ones of its name
    if `onwards`. throws Elsewhere."""
    if call.by_writer:
        return fail_writer(run, command, call, FOREVER if onwards else 1, _result_of(fault))
    outcome, _, line = _inject(run, command, call, fault, onwards, run.offset)
    if "(INJECTED)" not in line:
        raise Failure(f"{call}: strace injected nothing: {line}")
    return outcome


def at_its_aim(make_run, trial):
    """Calls trial(run) with new runs until the injection hits the call that it was meant for."""
    end = time.monotonic() + PATIENCE
    for offset in itertools.cycle(OFFSETS):
        run = make_run()
        run.offset = offset
        try:
            return trial(run)
        except Elsewhere:
            if time.monotonic() > end:
                raise
            shutil.rmtree(run.folder)
