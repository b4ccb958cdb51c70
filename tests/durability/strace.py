"""The system calls of a command on files, and commands that die at one of them or see it fail."""

import itertools
import re
import shutil
import subprocess
import time
from dataclasses import dataclass

from runs import Failure, Outcome, Skipped

TRACED = "%file,%desc"  # every call that takes a path or a descriptor
DATA_CALLS = ("write", "pwrite64", "read", "pread64")
# Where an injection may land beside its aim: a run that finds other programs at work says so, which
# takes two more writes than the run that was traced first, or two less. Beside other tests that
# comes and goes from run to run, and most runs have none.
OFFSETS = [0, 2, -2, 0, 1, -1]
PATIENCE = 60  # seconds for one aim, some hundred attempts


@dataclass(frozen=True)
class Call:
    """A system call of a command's main thread."""
    name: str
    nth: int   # among those of its name, from 1
    what: str  # the call with the paths it is about, the same in every run
    saves: int = 0  # checkpoints that had been put in place before
    alike: int = 1  # which one this is since then of the calls of which `what` says the same

    @property
    def place(self):
        """The same in every run, which `nth` is not."""
        return self.what, self.saves, self.alike

    def __str__(self):
        return f"{self.what} (number {self.nth} of its name)"


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


def _paths(arguments, folder):
    """The paths among a call's arguments, relative to the folder, without process ids."""
    found = re.findall(r'\d<(/[^>]*)>|(?:^|, )"([^"]*)"', arguments)
    paths = [(opened or named).replace(str(folder), ".", 1) for opened, named in found]
    return [re.sub(r"(?<=\.tmp-)\d+-|(?<=^/proc/)\d+", "", path.removeprefix("./"))
            for path in paths]


def _given(name, rest):
    """What a call is given: neither what is read and written is a path, nor what is returned, which
    a call that is killed does not show."""
    if name == "getcwd":
        return ""
    return rest.split(', "')[0] if name in DATA_CALLS else rest.rsplit(" = ", 1)[0]


def _parse(trace, folder):
    """The calls of the main thread in a trace, each with its line. The first line is its execve."""
    lines = trace.read_text(errors="replace").splitlines()
    main = lines[0].split()[0]
    counts, alike, saves, calls = {}, {}, 0, []
    for line in lines:
        found = re.match(rf"{main} +(\w+)\((.*)", line)
        if not found:
            continue
        name, rest = found.groups()
        counts[name] = counts.get(name, 0) + 1
        what = " ".join([name, *_paths(_given(name, rest), folder)])
        alike[what] = alike.get(what, 0) + 1
        calls.append((Call(name, counts[name], what, saves, alike[what]), line))
        if name == "rename" and what.endswith(".h5"):  # a checkpoint is put in its place
            saves, alike = saves + 1, {}
    return calls


def _execute(run, command, options, **limits):
    trace = run.folder / "trace"
    outcome = run.execute(["strace", "-f", "-y", "-o", trace, *options, *command], **limits)
    return outcome, _parse(trace, run.folder)


def calls_of(run, command):
    """Runs a command and returns its calls on files, from the first that is about the run directory
    on, with how it ended. Memory that is mapped is no file work."""
    outcome, calls = _execute(run, command, ["-e", f"trace={TRACED}"])
    calls = [call for call, _ in calls]
    first = next(i for i, call in enumerate(calls)
                 if "runs/run" in call.what and call.name != "execve")
    return [call for call in calls[first:] if call.name != "mmap"], outcome


def _inject(run, command, call, fault, onwards, offset):
    nth = max(call.nth + offset, 1)
    options = ["-e", f"trace=execve,rename,{call.name}",
               "-e", f"inject={call.name}:{fault}:when={nth}{'+' if onwards else ''}"]
    outcome, calls = _execute(run, command, options)
    aim = (call.name, nth)
    hit = next((found for found in calls if (found[0].name, found[0].nth) == aim), None)
    if hit is None or hit[0].place != call.place:
        raise Elsewhere(f"meant {call}, hit {hit[0] if hit else 'nothing'}: {outcome}")
    return outcome, calls, hit[1]


def kill_at(run, command, call):
    """The process of the command is killed as it enters the call, which is not carried out.
    throws Elsewhere, after which the run is to be made anew."""
    outcome, calls, line = _inject(run, command, call, "signal=KILL", False, run.offset)
    if outcome.code != -9 or calls[-1][1] != line:
        raise Failure(f"{call}: the process was not killed there: {line}: {outcome}")


def fail_at(run, command, call, fault, onwards) -> Outcome:
    """The call is not carried out and returns what `fault` says; so do all later ones of its name
    if `onwards`. throws Elsewhere."""
    outcome, _, line = _inject(run, command, call, fault, onwards, run.offset)
    if "(INJECTED)" not in line:
        raise Failure(f"{call}: strace injected nothing: {line}")
    return outcome


def save_of(calls, call):
    """The number of the save that a call belongs to, or that comes next; 0 before the first has
    begun to write."""
    first = next(i for i, other in enumerate(calls) if other.name == "openat" and
                 (".metrics.csv.tmp-" in other.what or ".h5.tmp-" in other.what))
    begun = calls.index(call) >= first - 1  # before the file its folder is opened
    return call.saves + 1 if begun else 0


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
