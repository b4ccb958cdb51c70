#!/usr/bin/env -S python3 -B
"""Faults at random moments of runs in several processes: a process is killed or stopped, has no
memory, the disk of the run directory is full, or the network between two machines is cut. Each run
ends with a documented exit code in time; no process and no checkpoint that is wrong is left; it is
resumed by another number of processes, and ends with the files of one process."""

import contextlib
import dataclasses
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import processes
import runs
from namespaces import Disk, enter_namespaces
from processes import MICRO_BATCHES, PEER_FAILED, PEER_TIMEOUT, Parallel, wait_for
from runs import Failure, Reference, require
from two_machines import TwoMachines

STEPS = 60
SETTINGS = [f"train.steps={STEPS}", "train.save_every=1", "train.validate_every=6"]
FAULTS, MANY_FAULTS = 12, 200
DISK_PAGES = 2048
ENDS_WITHIN = 4 * PEER_TIMEOUT + 20  # seconds; more is a hang
ATTEMPTS = 20  # to hit a run before its end

OUTPUT_FAILED, NO_MEMORY = 5, 8
# Bugs of Open MPI 4.1: after all processes have ended, mpirun itself (of whose process this is the
# exit code) crashes in orte_finalize(), or aborts because its heap is corrupt, or hangs, and is
# killed by the process that a supervisor left behind.
LAUNCHER_CRASHES = {-signal.SIGSEGV: "orte_finalize", -signal.SIGABRT: "malloc(): "}
LAUNCHER_HUNG = -signal.SIGKILL
# Of mpirun, which has ended the processes of its own machine: it could not start those of another
# one, or has lost the connection.
LAUNCHER_FAILED, LAUNCHER_LOST_MACHINE = 1, 205
# Kinds of faults, with the exit codes of mpirun that they may end with.
KINDS = {
    "SIGKILL to a process": {PEER_FAILED},
    "SIGKILL to a supervisor": {128 + signal.SIGKILL},
    "SIGSTOP to a process": {PEER_FAILED},
    "no more memory": {0, PEER_FAILED, NO_MEMORY},  # a step may need no more than it has
    "full disk": {OUTPUT_FAILED},
    "network cut": {PEER_FAILED, LAUNCHER_FAILED, LAUNCHER_LOST_MACHINE},
}


@dataclasses.dataclass(frozen=True)
class Fault:
    number: int
    kind: str
    processes: int
    victim: int  # rank
    moment: float  # share of the time of a run that nothing disturbs
    resumed: tuple  # processes, threads

    def __str__(self):
        return (f"fault {self.number}: {self.kind}, rank {self.victim} of {self.processes}, at "
                f"{self.moment:.3f} of the run, resumed with {self.resumed} processes and threads")


@dataclasses.dataclass(frozen=True)
class Result:
    kind: str
    code: int
    seconds: float  # from the fault to the end of mpirun
    saved: int  # the step of the newest checkpoint


def choose_faults(count, seed):
    chance = random.Random(seed)
    faults = []
    for number in range(count):
        total = chance.randint(2, MICRO_BATCHES)
        faults.append(Fault(number, list(KINDS)[number % len(KINDS)], total,
                            chance.randrange(total), chance.random(),
                            (chance.randint(1, MICRO_BATCHES), chance.randint(1, 2))))
    return faults


class FaultyRuns:
    def __init__(self, options, folder, network):
        self.folder, self.network = folder, network
        self.program = processes.copy_program(options.program, folder)
        self.reference = Reference(options.program, folder, STEPS, SETTINGS[1:],
                                   processes.CONFIGS["copy"])
        self.results = []
        self.network_lock = threading.Lock()  # a cut ends all runs that use the network

    def make_run(self, name):
        """A run whose program is a file of its own: its processes are those of this run."""
        folder = self.folder / name
        parallel = Parallel(folder / self.program.name, folder, "copy")
        for file in (self.program, self.program.parent / processes.PLUGIN):
            (folder / file.name).hardlink_to(file)
        return parallel

    def measure(self):
        """Seconds of a run in several processes, without faults."""
        parallel = self.make_run("undisturbed")
        begin = time.monotonic()
        parallel.execute(3, 1, SETTINGS)
        self.seconds = time.monotonic() - begin
        self.reference.check_finished(parallel.run)
        return self.seconds

    def attempt(self, fault):
        """Makes the fault, earlier and earlier until the run has not ended before."""
        for attempt in range(ATTEMPTS):
            with self.network_lock if fault.kind == "network cut" else contextlib.nullcontext():
                result = self.make_fault(fault, f"{fault.number}-{attempt}")
            if result:
                return result
            fault = dataclasses.replace(fault, moment=0.8 * fault.moment)
        raise Failure(f"{fault}: not before the end of the run in {ATTEMPTS} attempts")

    def make_fault(self, fault, name):
        """Returns the result; None if the run had ended before."""
        parallel = self.make_run(name)
        disk = Disk(parallel.run.folder / "runs", DISK_PAGES) if fault.kind == "full disk" else None
        launcher = self.network.mpirun if fault.kind == "network cut" else processes.mpirun
        process = parallel.start(fault.processes, SETTINGS, launcher=launcher)
        try:
            time.sleep(fault.moment * self.seconds)
            begin = self.strike(fault, parallel, process, disk)
            try:
                code = process.wait(ENDS_WITHIN)
            except subprocess.TimeoutExpired as expired:
                raise Failure(f"{fault}: hangs: {parallel.output()}") from expired
            seconds = time.monotonic() - begin
            wait_for(lambda: not processes.workers(parallel.run.program),
                     f"{fault}: the other processes to end", 20)
        finally:
            process.kill()
            process.wait()
            if fault.kind == "network cut":
                self.network.mend()
        return self.check(fault, parallel, disk, code, seconds)

    def strike(self, fault, parallel, process, disk):
        """Makes the fault when the process of that rank exists. Returns when."""
        found = {}

        def is_there():
            found.update(processes.workers(parallel.run.program))
            return fault.victim in found or process.poll() is not None

        wait_for(is_there, f"{fault}: the process")
        begin = time.monotonic()
        if fault.victim not in found:
            return begin
        victim = found[fault.victim]
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            if fault.kind == "SIGKILL to a process":
                os.kill(victim, signal.SIGKILL)
            elif fault.kind == "SIGKILL to a supervisor":
                os.kill(processes.parent_of(victim), signal.SIGKILL)
            elif fault.kind == "SIGSTOP to a process":
                os.kill(victim, signal.SIGSTOP)
            elif fault.kind == "no more memory":
                _, most = resource.prlimit(victim, resource.RLIMIT_AS)
                resource.prlimit(victim, resource.RLIMIT_AS, (0, most))
            elif fault.kind == "network cut":
                self.network.cut()
            else:
                # Files that are deleted leave no space either.
                while process.poll() is None and time.monotonic() < begin + ENDS_WITHIN:
                    disk.fill()
                    time.sleep(0.002)
        return begin

    def check(self, fault, parallel, disk, code, seconds):
        said = parallel.output()
        try:
            saved = self.reference.check(parallel.run)
            if code == 0:
                self.reference.check_finished(parallel.run)
            else:
                launcher_failed = code == LAUNCHER_HUNG or (code in LAUNCHER_CRASHES and
                                                            LAUNCHER_CRASHES[code] in said)
                require(launcher_failed or code in KINDS[fault.kind],
                        f"exit code {code}, expected one of {KINDS[fault.kind]}")
                require(code != PEER_FAILED or re.search(r"tapestry: error: .*rank \d", said),
                        "expected an error with the rank")
            if disk:
                disk.grow()
            self.resume(fault, parallel)
        except Failure as failure:
            raise Failure(f"{fault}: {failure}\n{said}") from failure
        finally:
            if disk:
                disk.remove()
        shutil.rmtree(parallel.run.folder)
        if code == 0 and 0 not in KINDS[fault.kind]:
            return None
        self.results.append(Result(fault.kind, code, seconds, saved))
        return self.results[-1]

    def resume(self, fault, parallel):
        number, threads = fault.resumed
        parallel.execute(number, threads, SETTINGS, resume=bool(parallel.run.steps()))
        self.reference.check_finished(parallel.run)


def print_results(results):
    for kind in KINDS:
        found = [result for result in results if result.kind == kind]
        if not found:
            continue
        codes = Counter(result.code for result in found)
        saved = [result.saved for result in found]
        print(f"{kind}: {len(found)} times, newest checkpoint {min(saved)} to {max(saved)}; exit "
              f"code {', '.join(f'{code} ({n})' for code, n in sorted(codes.items()))}, after at "
              f"most {max(result.seconds for result in found):.1f} s")


def test(options, folder):
    processes.require_mpi(options)
    enter_namespaces("mnu", ["mount", "-t", "tmpfs", "none", "/mnt"], folder)
    begin = time.monotonic()
    faults = choose_faults(options.faults or (MANY_FAULTS if options.full else FAULTS),
                           options.seed)
    with TwoMachines(folder) as network:
        faulty = FaultyRuns(options, folder, network)
        print(f"a run of {STEPS} steps in 3 processes takes {faulty.measure():.1f} s", flush=True)
        try:
            runs.each(faulty.attempt, faults, options.jobs)
        finally:
            print_results(faulty.results)
    print(f"{len(faults)} faults, {time.monotonic() - begin:.0f} s, limit of the heartbeats "
          f"{PEER_TIMEOUT} s: no process was left, no checkpoint was lost or wrong; "
          "resumed by other numbers of processes, all ended with the files of one process")


if __name__ == "__main__":
    given = runs.parse_arguments(__doc__, lambda parser: parser.add_argument(
        "--faults", type=int, help=f"number; default {FAULTS}, with --full {MANY_FAULTS}"))
    sys.exit(runs.main(test, given))
