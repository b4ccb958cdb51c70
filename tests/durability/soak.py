#!/usr/bin/env -S python3 -B
"""Trains and saves in one process without an end, and next to it stops and resumes the same run
again and again: memory does not grow, descriptors do not leak, both have the same bytes."""

import hashlib
import os
import random
import signal
import statistics
import sys
import threading
import time
from dataclasses import dataclass

import runs
from runs import SMALL_MODEL, Run, require

MIB = 1 << 20
MOST_MIB_PER_HOUR = 1.0   # of the full figure
MOST_MIB_IN_ALL = 1.0     # of the short one, from which no slope can be told
WARM_UP = 0.1             # of the time; memory may still grow in it
WINDOW_SECONDS = 2.5      # at least; a slow disk may be busy with saves for half a second
MOST_WINDOWS = 10
FILES_OF_A_SAVE = 3
# No end in sight. The table of metrics grows with every row, in memory as in the checkpoints, which
# is no leak: so it gets few rows.
ENDLESS = ["train.steps=1000000000", "train.log_every=1000000", "train.validate_every=1000000",
           "train.digest_every=1000000"]


@dataclass(frozen=True)
class Sample:
    seconds: float
    resident: int     # bytes
    descriptors: int


def sample_of(process, begin):
    status = f"/proc/{process.pid}"
    with open(f"{status}/statm", encoding="ascii") as statm:
        resident = int(statm.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return Sample(time.monotonic() - begin, resident, len(os.listdir(f"{status}/fd")))


class Watch:
    """Looks at runs from a separate thread: digests of their checkpoints as they come, and
    samples of one process that trains all the time."""

    def __init__(self, watched, process, seconds_apart):
        self.digests = {run: {} for run in watched}
        self.samples = []
        self._process = process
        self._seconds_apart = seconds_apart
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def end(self):
        self._ended.set()
        self._thread.join()

    def _look(self):
        begin = time.monotonic()
        while not self._ended.wait(self._seconds_apart) and self._process.poll() is None:
            self.samples.append(sample_of(self._process, begin))
            for run, digests in self.digests.items():
                for step in set(run.steps()) - digests.keys():
                    try:
                        digests[step] = hashlib.sha256(run.checkpoint(step).read_bytes()).digest()
                    except FileNotFoundError:
                        pass  # an old one, deleted in the meantime


def stop(process):
    """As a cluster does; the run saves and ends."""
    process.send_signal(signal.SIGTERM)
    code = process.wait(runs.HANGS)
    require(code == 128 + signal.SIGTERM, f"told to stop, a run ended with exit code {code}")


def live(run, seconds):
    """A process trains for so long, at least until it has saved, and is stopped."""
    before = run.steps()
    with open(run.folder / "output", "w+b") as output:
        process = run.start(run.next_command(), output)
        time.sleep(seconds)
        while run.steps() == before and process.poll() is None:
            time.sleep(0.01)
        stop(process)
        output.seek(0)
        said = output.read().decode()
    require(not before or runs.resumed_step(said) == before[-1],
            f"expected it to resume at step {before[-1:]}:\n{said}")
    require(run.steps()[-1] > max(before, default=0), f"no step was made:\n{said}")


def mib_per_hour(samples):
    line = statistics.linear_regression([sample.seconds for sample in samples],
                                        [sample.resident for sample in samples])
    return line.slope * 3600 / MIB


def check_memory(samples, full):
    """Returns a description of what was found."""
    slope = mib_per_hour(samples)
    sizes = [sample.resident / MIB for sample in samples]
    found = (f"{statistics.mean(sizes):.2f} MiB resident, from {min(sizes):.2f} to "
             f"{max(sizes):.2f}, slope {slope:+.3f} MiB an hour")
    tenth = max(1, len(sizes) // 10)
    growth = statistics.median(sizes[-tenth:]) - statistics.median(sizes[:tenth])
    bounded = slope < MOST_MIB_PER_HOUR if full else growth < MOST_MIB_IN_ALL
    require(bounded, f"memory grows: {found}")
    return found


def check_descriptors(samples):
    """A save has files open; between saves their number is always the same. Each window of time
    is long enough to contain a moment without a save."""
    seconds = samples[-1].seconds - samples[0].seconds
    windows = min(MOST_WINDOWS, max(2, int(seconds / WINDOW_SECONDS)))
    length = len(samples) // windows
    least = {min(sample.descriptors for sample in samples[i * length:(i + 1) * length])
              for i in range(windows)}
    most = max(sample.descriptors for sample in samples)
    require(len(least) == 1, f"{sorted(least)} descriptors between saves, expected one number")
    require(most <= min(least) + FILES_OF_A_SAVE, f"{most} descriptors, {least} between saves")
    return f"{min(least)} between saves, at most {most}"


def check_same_bytes(digests, other):
    common = digests.keys() & other.keys()
    differing = sorted(step for step in common if digests[step] != other[step])
    require(common, "the two runs have no step in common")
    require(not differing, f"the stopped and the steady run differ at the steps {differing}")
    return len(common)


def stop_again_and_again(run, seconds, lives, rng):
    begin = time.monotonic()
    for number in range(lives):
        left = max(0, seconds - (time.monotonic() - begin))
        live(run, left / (lives - number) * rng.uniform(0.5, 1.5))


def report(watch, steady, stopped, lives, options):
    """Prints the figures and checks them."""
    warm = [sample for sample in watch.samples
            if sample.seconds > WARM_UP * watch.samples[-1].seconds]
    print(f"one process, {watch.samples[-1].seconds:.0f} s, {steady.steps()[-1]:,} steps, "
          f"{len(watch.digests[steady]):,} saves seen (seed {options.seed})\n"
          f"  memory: {check_memory(warm, options.full)}\n"
          f"  descriptors: {check_descriptors(warm)}")
    common = check_same_bytes(watch.digests[steady], watch.digests[stopped])
    print(f"the same run in {lives:,} processes, {stopped.steps()[-1]:,} steps: {common:,} "
          "checkpoints of the same steps have the same bytes")
    for run in (steady, stopped):
        require(not run.temporaries(), f"left behind: {run.temporaries()}")


def test(options, folder):
    full = options.seconds, options.lives, 500, 0.1
    seconds, lives, save_every, seconds_apart = full if options.full else (6, 12, 50, 0.02)
    settings = [*ENDLESS, f"train.save_every={save_every}"]
    steady = Run(options.program, folder / "steady", settings, SMALL_MODEL)
    stopped = Run(options.program, folder / "stopped", settings, SMALL_MODEL)
    with open(folder / "output", "wb") as output:
        process = steady.start(steady.train(), output)
    watch = Watch([steady, stopped], process, seconds_apart)
    try:
        stop_again_and_again(stopped, seconds, lives, random.Random(options.seed))
        watch.end()
        stop(process)
    finally:
        process.kill()
    report(watch, steady, stopped, lives, options)


def add_arguments(parser):
    parser.add_argument("--seconds", type=float, default=7200, help="of --full; default 7200")
    parser.add_argument("--lives", type=int, default=1000,
                        help="processes of the stopped run, with --full; default 1000")


if __name__ == "__main__":
    sys.exit(runs.main(test, runs.parse_arguments(__doc__, add_arguments)))
