#!/usr/bin/env -S python3 -B
# SPDX-License-Identifier: BSD-3-Clause
"""Disturbs runs with random settings by random events: signals, kills, damaged checkpoints, other
processes. Each run must end like the same run without events."""

import random
import shutil
import signal
import sys
import time
from dataclasses import dataclass, field

import runs
from runs import Failure, Run, require

MAX_WAIT = 0.15      # seconds from the start of a process to an event
MAX_DISTURBED = 4    # consecutive processes
NON_FINITE = 6       # exit code
IN_USE = 7
SIGNALS = [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGKILL]

PAIRS = """\
data: {task: copy, num_symbols: 4, max_length: 3, train_size: 22, validation_size: 5, test_size: 0}
model: {d_model: 8, num_heads: 2, num_encoder_layers: 1, num_decoder_layers: 1, d_ff: 8, dropout: 0.1, max_length: 6}
"""
IMAGES = """\
data: {task: images, train_images: train.csv, validation_images: validation.csv, test_size: 0, pixel_maximum: 1}
model: {kind: vision_transformer, d_model: 8, num_heads: 2, num_encoder_layers: 1, d_ff: 8, dropout: 0.1, max_length: 5, positions: learned, patch_size: 4}
"""
SCHEDULE = "schedule: {kind: inverse_sqrt, learning_rate: 0.02, warmup_steps: 4}\n"


@dataclass
class Segment:
    """A part of a run up to `steps`. All segments but the first resume with different settings."""
    steps: int
    settings: list = field(default_factory=list)
    data: int = 0  # version of the training images

    def arguments(self):
        return [f"train.steps={self.steps}", *self.settings]


@dataclass
class Plan:
    images: bool
    bad: int  # number of images that overflow and make steps non-finite
    config: str
    rolls_back: bool
    segments: list

    def __str__(self):
        return "\n".join([self.config, *map(str, self.segments)])


def random_plan(rng):
    images = rng.random() < 0.7
    bad = rng.choice([0, 1, 1, 2]) if images else 0
    train = {"batch_size": 4, "divergence_window": 0, "log_every": rng.choice([1, 1, 2, 3]),
             "validate_every": rng.choice([2, 3, 4]), "save_every": rng.choice([1, 2, 3, 5]),
             "keep_last": rng.choice([2, 2, 3]), "keep_best": rng.choice([1, 1, 2]),
             "patience": rng.choice([0, 0, 0, 2]), "ema_decay": rng.choice([0, 0.9]),
             "average_last": rng.choice([0, 0, 2]), "max_nan_steps": rng.choice([1, 2, 20]),
             "on_nan": rng.choice(["stop", "skip", "rollback"]) if bad else "stop"}
    if not images:
        train |= {"accumulate": 2, "exact_match_sequences": 2}
    config = (IMAGES if images else PAIRS) + SCHEDULE + "train:\n" + "".join(
        f"  {key}: {value}\n" for key, value in train.items())
    segments = [Segment(rng.randint(4, 12))]
    while rng.random() < 0.5 and len(segments) < 3:
        last = segments[-1]
        segments.append(Segment(last.steps + rng.randint(1, 6), random_changes(rng, images),
                                last.data if rng.random() < 0.8 or not images else 1 - last.data))
    return Plan(images, bad, config, train["on_nan"] == "rollback", segments)


def random_changes(rng, images):
    changes = [f"train.{key}={rng.choice(values)}" for key, values in
               {"log_every": [1, 2, 3], "validate_every": [1, 2, 3], "save_every": [1, 2, 3, 5],
                "keep_last": [2, 3, 4], "patience": [0, 2], "max_nan_steps": [1, 20]}.items()]
    changed = rng.sample(changes, rng.randint(0, 3))
    if rng.random() < 0.3:
        changed.append("model.dropout=0.3")
    permissions = ["model.dropout", *(["data.train_images"] if images else [])]
    return [*changed, *(f"--allow-change={key}" for key in permissions)]


def image_line(number, overflows):
    """An image of 8 x 8 pixels, with the brighter half as its class. Its pixels may overflow."""
    top = number % 2 == 0
    pixels = [(f"{'-' if pixel * 2654435761 >> 7 & 1 else ''}3e38" if overflows else
               f"0.{(5 if (pixel < 32) == top else 0) + (number * 7 + pixel * 3) % 5}")
              for pixel in range(64)]
    return ",".join([*pixels, "top" if top else "bottom"]) + "\n"


class Played:
    """A run of a plan."""

    def __init__(self, options, folder, plan):
        self.run = Run(options.program, folder, config=plan.config)
        self.plan = plan
        if plan.images:
            (folder / "validation.csv").write_text(
                "".join(image_line(30 + i, False) for i in range(6)))

    def begin(self, segment):
        if self.plan.images:  # version 0 has 20 images, version 1 has 12 other images
            bad = [7, 10][:self.plan.bad]
            (self.run.folder / "train.csv").write_text("".join(
                image_line(i + segment.data, i in bad) for i in range((20, 12)[segment.data])))

    def command(self, segment, threads):
        """The command of a segment: starts the run if it has no checkpoint, else resumes it."""
        words = ["--resume", "runs/run"] if self.run.steps() else ["run.yaml"]
        arguments = [word for word in segment.arguments()
                     if self.run.steps() or not word.startswith("--allow-change")]
        return [self.run.program, "train", *words, f"train.threads={threads}", *arguments]

    def finish(self, segment):
        """Runs the segment to its end without events. Returns the exit code."""
        outcome = self.run.execute(self.command(segment, 1))
        require(outcome.code in (0, NON_FINITE), str(outcome))
        return outcome.code

    def state(self):
        """The files to compare: newest checkpoint, metrics, average, reports of non-finite steps."""
        directory = self.run.directory
        files = [self.run.checkpoint(self.run.steps()[-1]) if self.run.steps() else None,
                 directory / "metrics.csv", directory / "average.h5"]
        return ([(path.name, path.read_bytes()) for path in files if path and path.exists()],
                sorted(path.name for path in directory.glob("non-finite-step-*")))


def cut_newest(played, first_step):
    """Damages the newest checkpoint of a segment if the segment has an older one."""
    steps = played.run.steps()
    if played.plan.rolls_back or len(steps) < 2 or steps[-2] < first_step:
        return
    path = played.run.checkpoint(steps[-1])
    path.write_bytes(path.read_bytes()[:path.stat().st_size // 2])


def disturb(played, segment, rng, counts):
    """Runs a process of the segment and triggers an event. Returns its exit code if it reached the
    end of the segment, else None."""
    command = played.command(segment, rng.randint(1, 3))
    with open(played.run.folder / "output", "w+b") as output:
        process = played.run.start(command, output)
        time.sleep(rng.uniform(0, MAX_WAIT))
        event = rng.choice([*SIGNALS, "other process"])
        counts[str(event)] = counts.get(str(event), 0) + 1
        if event == "other process":
            other = played.run.execute(played.command(segment, 1))
            # The first checkpoint may appear after command() and before the process starts.
            require(other.code in (0, NON_FINITE, IN_USE) or "already contains a run" in other.err,
                    str(other))
            code = process.wait(runs.TIMEOUT)
        else:
            process.send_signal(event)
            if rng.random() < 0.2:
                process.send_signal(event)
            code = process.wait(runs.TIMEOUT)
        output.seek(0)
        said = output.read().decode(errors="replace")
    # Another process may have started the run. A signal may arrive before the program handles it.
    if code == 2 and "already contains a run" in said:
        return None
    stopped = {-signal.SIGKILL, IN_USE, *(code for s in SIGNALS for code in (128 + s, -s))}
    require(code in {0, NON_FINITE} | stopped, f"{event}: exit code {code}\n{said}")
    return None if code in stopped else code


def play_undisturbed(options, folder, plan):
    """Exit code, state and steps of checkpoints after each segment, up to the first that fails. The
    run has the same path as the disturbed run, since configs contain absolute paths."""
    played, ends = Played(options, folder, plan), []
    for segment in plan.segments:
        played.begin(segment)
        ends.append((played.finish(segment), played.state(), played.run.steps()))
        if ends[-1][0] != 0:
            break
    shutil.rmtree(folder)
    return ends


def check_plan(options, folder, plan, rng, counts):
    ends = play_undisturbed(options, folder, plan)
    played, first_step = Played(options, folder, plan), 0
    for segment, (expected_code, expected, steps) in zip(plan.segments, ends):
        played.begin(segment)
        code = None
        for _ in range(rng.randint(1, MAX_DISTURBED)):
            code = disturb(played, segment, rng, counts)
            if code is not None:
                break
            if rng.random() < 0.15:
                cut_newest(played, first_step)
        if code is None:
            code = played.finish(segment)
        require(code == expected_code, f"exit code {code}, expected {expected_code}")
        if code != 0:
            return  # signals determine which checkpoints a failed run has
        state = played.state()
        require(state == expected, "other files than without disturbance: " + str(
            [[(name, len(data)) for name, data in files] + reports
             for files, reports in (state, expected)]))
        require(not played.run.temporaries(), f"left behind: {played.run.temporaries()}")
        kept = set(steps[:-4])  # kept as the best or for the average, not by train.keep_last
        require(kept <= set(played.run.steps()),
                f"checkpoints {played.run.steps()}, expected {sorted(kept)} among them")
        first_step = segment.steps


def test(options, folder):
    counts = {}
    number = 1000 if options.full else 25
    for seed in range(options.seed, options.seed + number):
        rng = random.Random(seed)
        plan = random_plan(rng)
        parts = folder / str(seed)
        try:
            check_plan(options, parts, plan, rng, counts)
        except Failure as failure:
            raise Failure(f"--seed {seed}: {failure}\n{plan}") from failure
        shutil.rmtree(parts)
    print(f"{number} runs with {sum(counts.values())} events end like undisturbed runs: {counts}")


if __name__ == "__main__":
    sys.exit(runs.main(test, runs.parse_arguments(__doc__)))
