#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Trains and saves in one process for a long time. Memory must not grow, descriptors not leak."""

import os
import signal
import statistics
import sys
import time
from dataclasses import dataclass

import runs
from runs import SMALL_MODEL, Run, require

MIB = 1 << 20
MAX_MIB_PER_HOUR = 1.0    # with --full
MAX_GROWTH_MIB = 1.0      # without --full, too short for a slope
WARM_UP = 0.1             # fraction of the time; memory may still grow during it
WINDOW_SECONDS = 2.5      # minimum; a slow disk may be busy with saves for half a second
MAX_WINDOWS = 10
FILES_OF_A_SAVE = 3
# Logs few rows of metrics, because the table grows in memory and in checkpoints without being a
# leak.
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


def watch(process, seconds, seconds_apart):
    """Samples of a process for a number of seconds, or until it ends."""
    begin, samples = time.monotonic(), []
    while time.monotonic() - begin < seconds and process.poll() is None:
        time.sleep(seconds_apart)
        samples.append(sample_of(process, begin))
    return samples


def stop(process):
    """Stops a process with SIGTERM, as a cluster does; the run saves and ends."""
    process.send_signal(signal.SIGTERM)
    code = process.wait(runs.TIMEOUT)
    require(code == 128 + signal.SIGTERM, f"after SIGTERM, the exit code was {code}")


def mib_per_hour(samples):
    line = statistics.linear_regression([sample.seconds for sample in samples],
                                        [sample.resident for sample in samples])
    return line.slope * 3600 / MIB


def check_memory(samples, full):
    """Returns a description of the memory use."""
    slope = mib_per_hour(samples)
    sizes = [sample.resident / MIB for sample in samples]
    found = (f"{statistics.mean(sizes):.2f} MiB resident, from {min(sizes):.2f} to "
             f"{max(sizes):.2f}, slope {slope:+.3f} MiB an hour")
    tenth = max(1, len(sizes) // 10)
    growth = statistics.median(sizes[-tenth:]) - statistics.median(sizes[:tenth])
    bounded = slope < MAX_MIB_PER_HOUR if full else growth < MAX_GROWTH_MIB
    require(bounded, f"memory grows: {found}")
    return found


def check_descriptors(samples):
    """Between saves, the number of descriptors must always be the same. Each window of time is long
    enough to contain a moment without a save."""
    seconds = samples[-1].seconds - samples[0].seconds
    windows = min(MAX_WINDOWS, max(2, int(seconds / WINDOW_SECONDS)))
    length = len(samples) // windows
    least = {min(sample.descriptors for sample in samples[i * length:(i + 1) * length])
              for i in range(windows)}
    most = max(sample.descriptors for sample in samples)
    require(len(least) == 1, f"{sorted(least)} descriptors between saves, expected one number")
    require(most <= min(least) + FILES_OF_A_SAVE, f"{most} descriptors, {least} between saves")
    return f"{min(least)} between saves, at most {most}"


def test(options, folder):
    seconds, save_every, seconds_apart = (
        (options.seconds, 500, 0.1) if options.full else (6, 50, 0.02))
    run = Run(options.program, folder / "run", [*ENDLESS, f"train.save_every={save_every}"],
              SMALL_MODEL)
    with open(folder / "output", "wb") as output:
        process = run.start(run.train(), output)
    try:
        samples = watch(process, seconds, seconds_apart)
        stop(process)
    finally:
        process.kill()
    warm = [sample for sample in samples if sample.seconds > WARM_UP * samples[-1].seconds]
    print(f"{samples[-1].seconds:.0f} s, {run.steps()[-1]:,} steps, a save every {save_every}\n"
          f"  memory: {check_memory(warm, options.full)}\n"
          f"  descriptors: {check_descriptors(warm)}")
    require(not run.temporaries(), f"left behind: {run.temporaries()}")


if __name__ == "__main__":
    sys.exit(runs.main(test, runs.parse_arguments(__doc__, lambda parser: parser.add_argument(
        "--seconds", type=float, default=7200, help="duration with --full; default 7200"))))
