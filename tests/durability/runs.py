# SPDX-License-Identifier: BSD-3-Clause
"""Runs of the program in separate folders, and checks of their files."""

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
MAX_SHOWN = 20  # failures of one test
TIMEOUT = 60  # seconds for a command, which runs a few steps
SKIPPED = 77  # exit code of a test that cannot run on this machine, for CTest

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
THREADS = "train.threads=1"  # a process setting, which is not stored: also needed on resume

# The tests count and prevent the threads that write checkpoints. OpenBLAS would start a thread for
# each additional core before main(), and end the program if a thread fails to start.
os.environ["OPENBLAS_NUM_THREADS"] = "1"



def cached_config(folder):
    """A variant of CONFIG with two text corpora, which are written to `folder`. It has an example
    cache, BPE-dropout and batches by number of tokens."""
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
    """A check has failed."""


class Skipped(Exception):
    """This machine does not allow the test."""


def require(holds, message):
    if not holds:
        raise Failure(message)


@dataclass(frozen=True)
class Outcome:
    """Exit code and output of a process."""
    code: int  # -n if signal n killed it
    out: str
    err: str

    def __str__(self):
        return f"exit code {self.code}\n{self.out}{self.err}"


class Run:
    """A run of the program in its own folder."""

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
        """The steps with a checkpoint file, which may be damaged, in ascending order."""
        return steps_in(self.checkpoints)

    def temporaries(self):
        """Temporary files anywhere in the run directory."""
        return sorted(self.directory.rglob(".*.tmp-*"))

    def train(self):
        """The command that starts the run."""
        return [self.program, "train", "run.yaml", THREADS, *self.settings]

    def resume(self, *settings):
        return [self.program, "train", "--resume", "runs/run", THREADS, *settings]

    def next_command(self):
        """The command that continues the run from its current state."""
        return self.resume() if self.steps() else self.train()

    def execute(self, command, **options):
        """Runs a command in the folder to its end."""
        try:
            done = subprocess.run(command, cwd=self.folder, stdin=subprocess.DEVNULL,
                                  capture_output=True, text=True, errors="replace", check=False,
                                  timeout=TIMEOUT, **options)
        except subprocess.TimeoutExpired as expired:
            command = " ".join(map(str, command))
            raise Failure(f"still running after {TIMEOUT} s: {command}") from expired
        return Outcome(done.returncode, done.stdout, done.stderr)

    def start(self, command, output):
        """Starts a command in the folder, with its output in the file `output`."""
        return subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, stdout=output,
                                stderr=subprocess.STDOUT)


def steps_in(checkpoints):
    """The steps of the checkpoints in a folder, which may not exist."""
    try:
        names = [path.name for path in checkpoints.iterdir()]
    except FileNotFoundError:
        return []
    found = (re.fullmatch(r"step-(\d+)\.h5", name) for name in names)
    return sorted(int(match[1]) for match in found if match)


def resumed_step(output):
    """The step at which a process resumed according to its output; None if it did not resume."""
    found = re.search(r"^resuming \S+ at step ([\d,]+) of ", output, re.MULTILINE)
    return int(found[1].replace(",", "")) if found else None


class Reference:
    """All checkpoints of an uninterrupted run. Any other run with the same settings must have the
    same checkpoints."""

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
        raise Failure(f"only the checkpoints {steps_in(self.kept)} of the reference could be kept")

    def _keep_all_of(self, run):
        """Creates hard links to checkpoints while the run writes and deletes them; may miss some."""
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
        """A run with the settings of the reference."""
        return Run(program, folder, self.settings, self.config)

    def check(self, run, at_least=0):
        """Checks that all checkpoints of a run have the bytes of the reference, and that the newest
        has step `at_least` or later. Returns its step; 0 if there are no checkpoints."""
        steps = run.steps()
        for step in steps:
            self.check_bytes(run, step)
        newest = max(steps, default=0)
        require(newest >= at_least, f"{run.directory}: step {at_least} was saved, but the newest "
                                    f"checkpoint has step {newest}")
        require(newest < 2 or len(steps) >= 2,
                f"{run.directory}: only step {newest} is left, expected at least two checkpoints")
        return newest

    def check_bytes(self, run, step):
        path = run.checkpoint(step)
        require(path.read_bytes() == (self.kept / path.name).read_bytes(),
                f"{path}: differs from an uninterrupted run")

    def check_end(self, run):
        """Checks that the run has the last checkpoint and the metrics of the reference."""
        self.check(run, self.last)
        metrics = (run.directory / "metrics.csv").read_bytes()
        require(metrics == self.metrics, f"{run.directory}: metrics.csv differs from the reference")

    def check_finished(self, run):
        """Checks the end of the run as check_end(), and that no temporary file is left."""
        self.check_end(run)
        self.check_clean(run)

    @staticmethod
    def check_clean(run):
        require(not run.temporaries(), f"left behind: {[str(path) for path in run.temporaries()]}")

    def finish(self, run):
        """Continues a run to its end, without faults, and checks its end."""
        before = run.steps()
        outcome = run.execute(run.next_command())
        require(outcome.code == 0, f"{run.directory}: continuing after the fault: {outcome}")
        if before:
            require(resumed_step(outcome.out) in (before[-1], None) and
                    ("is finished" in outcome.out or resumed_step(outcome.out) is not None),
                    f"{run.directory}: expected it to resume at step {before[-1]}: {outcome}")
        self.check_end(run)


def parse_arguments(description, add_more=None):
    """Parses the arguments of all tests: PROGRAM, --full, --jobs and --seed."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("program", nargs="?", metavar="PROGRAM", type=Path,
                        default=ROOT / ".build" / "release" / "tapestry",
                        help="default .build/release/tapestry")
    parser.add_argument("--full", action="store_true", help="the full test instead of CI's test")
    parser.add_argument("--jobs", type=int, default=2, help="number of runs at a time; default 2")
    parser.add_argument("--seed", type=int, default=1, help="seed of random choices; default 1")
    if add_more:
        add_more(parser)
    options = parser.parse_args()
    options.program = options.program.resolve()
    if not options.program.is_file():
        parser.error(f"{options.program}: no such program; build it, or give its path")
    return options


def each(function, items, jobs):
    """Calls function(item) for all items, `jobs` at a time, and returns the results in the order of
    the items. throws Failure with all failures."""
    def attempt(item):
        try:
            return function(item)
        except Failure as failure:
            return failure

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = list(pool.map(attempt, items))
    failures = [result for result in results if isinstance(result, Failure)]
    shown = "\n\n".join(str(failure).rstrip() for failure in failures[:MAX_SHOWN])
    require(not failures, f"{len(failures)} of {len(results)} failed:\n\n{shown}")
    return results


def main(test, options):
    """Runs test(options, folder) in a temporary folder, which is kept if the test fails. Returns
    the exit code."""
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
