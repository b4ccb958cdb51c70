# SPDX-License-Identifier: BSD-3-Clause
"""Lists the system calls of a command on files, and kills the command or injects a fault at one of
them.

All checkpoints except the last are written on separate threads. strace handles the calls of the
main thread. It counts the calls of each thread separately, so writer_calls.cpp handles the calls of
the threads that write checkpoints."""

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
FOREVER = 1_000_000  # number of times that a call fails
# Offsets to try, since the count of calls can differ between runs: if a run detects that other
# programs use the cores, it prints a warning in two additional writes. The first traced run may
# also have this warning.
OFFSETS = [0, 2, -2, 0, 1, -1]
PATIENCE = 60  # seconds to hit a call, a few hundred attempts


@dataclass(frozen=True)
class Call:
    """A system call of a command's main thread, or of threads that write checkpoints."""
    name: str
    nth: int   # number among the calls with its name, or among all calls of writers; from 1
    what: str  # name and paths of the call, the same in every run
    alike: int  # number among the calls with the same `what` since the start of the last save
    begun: int  # number of saves that have started, including the save of this call
    saves: int  # minimum number of checkpoints in place before this call
    is_exact: bool = True  # whether `saves` is exact; otherwise there may be one more
    by_writer: bool = False

    @property
    def place(self):
        """Identifies the call in every run, unlike `nth`."""
        return self.what, self.begun, self.alike

    @property
    def save(self):
        """The number of the first save that a fault here can affect; 0 before the first save."""
        return self.saves + 1 if self.begun else 0

    def __str__(self):
        return f"{self.what} (number {self.nth}{' of the writers' if self.by_writer else ''})"


class Elsewhere(Failure):
    """The injection hit a different call than intended."""


def require_strace():
    """throws Skipped unless strace can trace processes and inject faults on this machine."""
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
    """The arguments of a call that may contain paths: without data that is read or written, and
    without the result, which is missing if the process is killed at the call."""
    if name == "getcwd":
        return ""
    return rest.split(', "')[0] if name in DATA_CALLS else rest.rsplit(" = ", 1)[0]


# ---- The main thread.

def _parse(trace, folder):
    """The calls of the main thread in a trace, each with its line. The first line is its execve.
    Each new thread writes a checkpoint; when it starts, all earlier checkpoints are in place."""
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
        # The last save starts with a check of the lock file. The start of the run also opens it.
        if threads and name.startswith("open") and what.endswith("/.lock") and not is_saving:
            is_saving, alike = True, {}
        alike[what] = alike.get(what, 0) + 1
        is_settled = is_saving or threads == 0
        calls.append((Call(name, counts[name], what, alike[what],
                           begun=threads + is_saving,
                           saves=threads + renames if is_settled else threads - 1,
                           is_exact=is_settled), line))
        renames += name == "rename" and what.endswith(".h5")  # a checkpoint is in place
    return calls


def _execute(run, command, options, **limits):
    trace = run.folder / "trace"
    outcome = run.execute(["strace", "-y", "-o", trace, *options, *command], **limits)
    return outcome, _parse(trace, run.folder)


def calls_of(run, command):
    """Runs a command. Returns the file calls of its main thread, without mmap, starting with the
    first call in the run directory, and the outcome of the command."""
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
    """Runs a command. Returns its outcome and the calls of its writers."""
    listed = run.folder / "calls"
    preloaded = run.program.parent / "tests" / "durability" / "writer_calls.so"
    if not preloaded.is_file():
        raise Failure(f"{preloaded}: no such file; build the target writer_calls")
    # OpenBLAS must not start threads: their calls would be listed.
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "LD_PRELOAD": str(preloaded),
                   "TAPESTRY_CALLS": str(listed)}
    if fault:
        environment["TAPESTRY_FAULT"] = fault
    outcome = run.execute(command, env=environment)
    alike, begun, saves, calls = {}, 0, 0, []
    for number, line in enumerate(listed.read_text().splitlines() if listed.exists() else [], 1):
        name, path = line.split(" ", 1)
        what = f"{name} {_relative(path, run.folder)}"
        if what == "open runs/run/.lock":  # a save starts
            begun, alike = begun + 1, {}
        alike[what] = alike.get(what, 0) + 1
        calls.append(Call(name, number, what, alike[what], begun, saves, by_writer=True))
        saves += name == "rename" and path.endswith(".h5")
    return outcome, calls


def writer_calls_of(run, command):
    """Runs a command. Returns the calls of the threads that write checkpoints, and the outcome."""
    outcome, calls = _execute_writer(run, command)
    return calls, outcome


def all_calls(make_run, command_of, reference):
    """The calls of a command on both kinds of threads, listed in two new undisturbed runs."""
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
    """Makes the call and the next calls with its name fail, `times` in all. See writer_calls.cpp
    for `result`. throws Elsewhere."""
    outcome, calls = _execute_writer(run, command, f"{call.nth} {times} {result}")
    if len(calls) < call.nth or calls[call.nth - 1].place != call.place:
        hit = calls[call.nth - 1] if len(calls) >= call.nth else "nothing"
        raise Elsewhere(f"meant {call}, hit {hit}: {outcome}")
    if result == 0 and len(calls) != call.nth:
        raise Failure(f"{call}: the process continued: {outcome}")
    return outcome


def _result_of(fault):
    """The RESULT of writer_calls.cpp for a fault in the syntax of strace."""
    kind, value = fault.split("=")
    return int(value) if kind == "retval" else -getattr(errno, value)


# ---- All threads.

def kill_at(run, command, call):
    """Kills the process of the command when it enters the call, before the call is executed. throws
    Elsewhere; a new run is then needed."""
    if call.by_writer:
        outcome, at_end = fail_writer(run, command, call, 1, 0), True
    else:
        outcome, calls, line = _inject(run, command, call, "signal=KILL", False, run.offset)
        at_end = calls[-1][1] == line
    if outcome.code != -9 or not at_end:
        raise Failure(f"{call}: the process was not killed there: {outcome}")


def fail_at(run, command, call, fault, onwards) -> Outcome:
    """Makes the call fail with `fault`, and all later calls with its name if `onwards`. throws
    Elsewhere."""
    if call.by_writer:
        return fail_writer(run, command, call, FOREVER if onwards else 1, _result_of(fault))
    outcome, _, line = _inject(run, command, call, fault, onwards, run.offset)
    if "(INJECTED)" not in line:
        raise Failure(f"{call}: strace injected nothing: {line}")
    return outcome


def at_its_aim(make_run, trial):
    """Calls trial(run) with new runs until the injection hits the intended call."""
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
