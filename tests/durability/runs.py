# SPDX-License-Identifier: BSD-3-Clause
"""Runs of the program in separate folders, and what has to hold of their files at any time."""

import argparse
import concurrent.futures
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MOST_SHOWN = 20  # failures of one test
HANGS = 60  # seconds, after which a run of some steps never ends
SKIPPED = 77  # exit code of a test that could not run here, for CTest

# Every step is saved. A checkpoint takes 1.5 MB, so that writing it takes some milliseconds and
# reading it back two calls.
CONFIG = """\
data:
  task: copy
  num_symbols: 5
  max_length: 4
  train_size: 22
  validation_size: 6
  test_size: 4
model:
  d_model: 64
  num_heads: 2
  num_encoder_layers: 1
  num_decoder_layers: 1
  d_ff: 256
  dropout: 0.2
  max_length: 8
schedule:
  kind: inverse_sqrt
  learning_rate: 0.01
  warmup_steps: 4
train:
  batch_size: 4
  log_every: 4
  validate_every: 3
  save_every: 1
  keep_last: 2
  ema_decay: 0.9
  best_metric: bleu
"""
SMALL_MODEL = CONFIG.replace("d_model: 64", "d_model: 16").replace("d_ff: 256", "d_ff: 32")
THREADS = "train.threads=1"  # belongs to the process: a resumed run has to be told again

# OpenBLAS starts a thread per further core before main(), and ends the program if one fails:
# the tests count and prevent the threads that write checkpoints.
os.environ["OPENBLAS_NUM_THREADS"] = "1"



def cached_config(folder):
    """CONFIG of two corpora of text, which are written to `folder`. Their examples are kept in a file
    of the run; they are subwords, drawn in each epoch, in batches of a number of tokens."""
    texts = {"a.src": "".join(f"word{i % 5} word{i % 3} x\n" for i in range(18)),
             "a.tgt": "".join(f"word{i % 3} y\n" for i in range(18)),
             "b.src": "x word1\nword4 word0 word2\n",
             "b.tgt": "y word1\nword2\n"}
    for name, text in texts.items():
        (folder / name).write_text(text)
    return f"""\
data:
  task: parallel_text
  folder: {folder}
  train_source: [a.src, b.src]
  train_target: [a.tgt, b.tgt]
  corpus_weights: [1, 2]
  validation_source: b.src
  validation_target: b.tgt
  cache: always
  shared_vocabulary: true
  subwords: bpe
  vocabulary_size: 20
  subword_dropout: 0.3
""" + (CONFIG[CONFIG.index("model:"):]
       .replace("max_length: 8", "max_length: 24")
       .replace("batch_size: 4", "batch_tokens: 60"))


class Failure(Exception):
    """Something that was promised does not hold."""


class Skipped(Exception):
    """This machine does not allow the test."""


def require(holds, message):
    if not holds:
        raise Failure(message)


@dataclass(frozen=True)
class Outcome:
    """How a process ended, and what it said."""
    code: int  # -n if signal n killed it
    out: str
    err: str

    def __str__(self):
        return f"exit code {self.code}\n{self.out}{self.err}"


class Run:
    """A run of the program in a folder that holds nothing else."""

    def __init__(self, program, folder, settings=(), config=CONFIG):
        self.program = program
        self.folder = folder
        self.settings = list(settings)
        folder.mkdir(parents=True)
        (folder / "run.yaml").write_text(config)

    @property
    def directory(self):
        return self.folder / "runs" / "run"

    @property
    def checkpoints(self):
        return self.directory / "checkpoints"

    def checkpoint(self, step):
        return self.checkpoints / f"step-{step:08}.h5"

    def steps(self):
        """Steps that have a checkpoint file, whole or not, in ascending order."""
        return steps_in(self.checkpoints)

    def temporaries(self):
        """Files that were begun and not put into place, wherever they are in the directory."""
        return sorted(self.directory.rglob(".*.tmp-*"))

    def train(self):
        """The command that begins the run."""
        return [self.program, "train", "run.yaml", THREADS, *self.settings]

    def resume(self, *settings):
        return [self.program, "train", "--resume", "runs/run", THREADS, *settings]

    def next_command(self):
        """What a user does who finds the directory as it is."""
        return self.resume() if self.steps() else self.train()

    def execute(self, command, **options):
        """Runs a command in the folder to its end."""
        try:
            done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace", check=False,
                                  timeout=HANGS, **options)
        except subprocess.TimeoutExpired as expired:
            command = " ".join(map(str, command))
            raise Failure(f"still running after {HANGS} s: {command}") from expired
        return Outcome(done.returncode, done.stdout, done.stderr)

    def start(self, command, output):
        """Starts a command in the folder; what it says goes to the file `output`."""
        return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output,
                                stderr=subprocess.STDOUT)


def steps_in(checkpoints):
    """As Run.steps, of a folder that need not be there."""
    try:
        names = [path.name for path in checkpoints.iterdir()]
    except FileNotFoundError:
        return []
    found = (re.fullmatch(r"step-(\d+)\.h5", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def resumed_step(output):
    """The step at which a process said that it resumes; None if it said nothing of the kind."""
    found = re.search(r"^resuming \S+ at step ([\d,]+) of ", output, re.MULTILINE)
    return int(found[1].replace(",", "")) if found else None


class Reference:
    """The checkpoints of a run that nothing interrupts, all of them: what any other run of the same
    settings has to end with, and what each of its checkpoints has to be."""

    def __init__(self, program, folder, steps, settings=(), config=CONFIG):
        self.settings = [f"train.steps={steps}", *settings]
        self.last = steps
        self.config = config
        self.kept = folder / "reference"
        self.kept.mkdir()
        for attempt in range(100):
            run = Run(program, folder / f"reference-{attempt}", self.settings, config)
            self._keep_all_of(run)
            shutil.rmtree(run.folder)
            if steps_in(self.kept) == list(range(1, steps + 1)):
                return
        raise Failure(f"of the reference only {steps_in(self.kept)} could be kept")

    def _keep_all_of(self, run):
        """Links to checkpoints as they appear. One may be deleted before it is seen: hence the
        further attempts."""
        with open(run.folder / "output", "w+b") as output:
            process = run.start(run.train(), output)
            ended = False
            while not ended:
                ended = process.poll() is not None
                for step in run.steps():
                    with contextlib.suppress(FileExistsError, FileNotFoundError):
                        (self.kept / run.checkpoint(step).name).hardlink_to(run.checkpoint(step))
            output.seek(0)
            require(process.returncode == 0, f"the reference: {output.read().decode()}")
        self.metrics = (run.directory / "metrics.csv").read_bytes()

    def run(self, program, folder):
        """A run that has to become as this one."""
        return Run(program, folder, self.settings, self.config)

    def check(self, run, at_least=0):
        """All checkpoints of a run are the reference's, byte for byte, and the newest is of step
        `at_least` or later. Returns its step; 0 if there is none."""
        steps = run.steps()
        for step in steps:
            self.check_bytes(run, step)
        newest = max(steps, default=0)
        require(newest >= at_least, f"{run.directory}: step {at_least} was saved, now the newest "
                                    f"checkpoint is of step {newest}")
        require(newest < 2 or len(steps) >= 2,
                f"{run.directory}: only step {newest} is left, expected two checkpoints at least")
        return newest

    def check_bytes(self, run, step):
        path = run.checkpoint(step)
        require(path.read_bytes() == (self.kept / path.name).read_bytes(),
                f"{path}: not the bytes of an uninterrupted run")

    def check_end(self, run):
        """The run has ended as the reference did."""
        self.check(run, self.last)
        metrics = (run.directory / "metrics.csv").read_bytes()
        require(metrics == self.metrics, f"{run.directory}: not the reference's metrics.csv")

    def check_finished(self, run):
        """The run has ended as the reference did and left nothing behind."""
        self.check_end(run)
        self.check_clean(run)

    @staticmethod
    def check_clean(run):
        require(not run.temporaries(), f"left behind: {[str(path) for path in run.temporaries()]}")

    def finish(self, run):
        """Takes a run to its end, as a user would, without faults; the end is the reference's."""
        before = run.steps()
        outcome = run.execute(run.next_command())
        require(outcome.code == 0, f"{run.directory}: going on after the fault: {outcome}")
        if before:
            require(resumed_step(outcome.out) in (before[-1], None) and
                    ("is finished" in outcome.out or resumed_step(outcome.out) is not None),
                    f"{run.directory}: expected it to resume at step {before[-1]}: {outcome}")
        self.check_end(run)


def parse_arguments(description, add_more=None):
    """The arguments that all tests have: the program, --full and --seed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("program", nargs="?", metavar="PROGRAM", type=Path,
                        default=ROOT / ".build" / "release" / "tapestry",
                        help="default .build/release/tapestry")
    parser.add_argument("--full", action="store_true", help="the full figure instead of CI's")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time; default 2")
    parser.add_argument("--seed", type=int, default=1, help="of what is random; default 1")
    if add_more:
        add_more(parser)
    options = parser.parse_args()
    options.program = options.program.resolve()
    if not options.program.is_file():
        parser.error(f"{options.program}: no such program; build it, or name it")
    return options


def each(function, items, jobs):
    """Calls function(item) for all items, `jobs` at a time, and returns the results in their order.
    throws Failure with all that failed."""
    def attempt(item):
        try:
            return function(item)
        except Failure as failure:
            return failure

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(attempt, items))
    failures = [result for result in results if isinstance(result, Failure)]
    shown = "\n\n".join(str(failure).rstrip() for failure in failures[:MOST_SHOWN])
    require(not failures, f"{len(failures)} of {len(results)}:\n\n{shown}")
    return results


def main(test, options):
    """Runs test(options, folder) in a folder that stays if it fails; returns the exit code."""
    folder = Path(tempfile.mkdtemp(prefix="tapestry-durability-")).resolve()
    try:
        test(options, folder)
    except Skipped as skipped:
        print(f"skipped: {skipped}")
        shutil.rmtree(folder)
        return SKIPPED
    except Failure as failure:
        print(f"FAILED: {failure}\nthe files are in {folder}", file=sys.stderr)
        return 1
    shutil.rmtree(folder)
    return 0
