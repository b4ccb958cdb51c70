#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Runs in several processes, started by mpirun. Any number of processes and threads, also if the run
is stopped and resumed with different numbers, gives byte for byte the checkpoint of one process. A
process that is killed, fails or hangs ends the run, which can be resumed."""

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import runs
from runs import Failure, Run, Skipped, require

STEPS = 10
MICRO_BATCHES = 5
PEER_TIMEOUT = 5  # seconds
PEER_FAILED = 9  # the exit code
PLUGIN = "libtapestry_mpi.so"
runs.HANGS = 300  # many threads share a busy machine


def train_section(**more):
    keys = {"accumulate": MICRO_BATCHES, "batch_size": 3, "log_every": 2, "validate_every": 4,
            "save_every": 1000, "label_smoothing": 0.1, "run_dir": "runs/run", **more}
    return "train:\n" + "".join(f"  {key}: {value}\n" for key, value in keys.items())


MODEL = "d_model: 16, num_heads: 2, d_ff: 32, dropout: 0.2, positions: learned"
SCHEDULE = "schedule: {kind: inverse_sqrt, learning_rate: 0.01, warmup_steps: 4}\n"


def write_text(folder):
    """Writes sentences and images."""
    chance = random.Random(1)
    words = [f"w{i}" for i in range(9)]
    lines = [" ".join(chance.choices(words, k=chance.randint(2, 7))) for _ in range(80)]
    (folder / "text.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "source.txt").write_text("".join(f"{line}\n" for line in lines))
    (folder / "target.txt").write_text(
        "".join(" ".join(reversed(line.split())) + "\n" for line in lines))
    images = []
    for number in range(60):
        bright = number % 2
        pixels = [chance.randint(0, 8) + (8 if (i < 32) == bright else 0) for i in range(64)]
        images.append(",".join(map(str, pixels)) + f",{'top' if bright else 'bottom'}\n")
    (folder / "images.csv").write_text("".join(images))


COPY = ("data: {task: copy, num_symbols: 5, max_length: 5, train_size: 40, validation_size: 6, "
        "test_size: 0}\n")
IMAGES = ("data: {task: images, train_images: images.csv, image_height: 8, image_width: 8, "
          "image_channels: 1, pixel_maximum: 16, validation_size: 8, test_size: 0}\n")
TOY = "data: {{task: {}, train_size: 60, validation_size: 8, test_size: 0}}\n"


def config(data, model, **train):
    return f"{data}model: {{{MODEL}, {model}}}\n{SCHEDULE}{train_section(**train)}"


VISION = "kind: vision_transformer, patch_size: 4, num_encoder_layers: 1, max_length: 5"
CONFIGS = {
    "copy": config(COPY, "num_encoder_layers: 1, num_decoder_layers: 1, max_length: 10",
                   ema_decay=0.9, exact_match_sequences=3),
    # New runs use several buckets, and resumed runs use one bucket.
    "buckets": COPY + "model: {d_model: 64, num_heads: 2, d_ff: 512, dropout: 0.2, "
               "num_encoder_layers: 2, num_decoder_layers: 2, max_length: 10}\n" + SCHEDULE +
               train_section(gradient_exchange="bfloat16", bucket_size=0.05),
    "language_model": config(
        "data: {task: text, train_text: text.txt, unit: character, context: 12, "
        "validation_share: 0.2}\noptimizer: {clip_norm: 0.5}\n",
        "kind: language_model, num_decoder_layers: 1, max_length: 12, tie_embeddings: target"),
    "masked": config(TOY.format("toy_sentences"),
                     "kind: masked_language_model, num_encoder_layers: 1, max_length: 32",
                     label_smoothing=0),
    "classifier": config(TOY.format("toy_agreement"),
                         "kind: classifier, num_encoder_layers: 1, max_length: 32",
                         dtype="float64"),
    "images": config(IMAGES, VISION),
    "batch_norm": config(IMAGES, VISION + ", normalization: batch_norm"),
    "subwords": config(
        "data: {task: parallel_text, train_source: source.txt, train_target: target.txt, "
        "validation_source: source.txt, validation_target: target.txt, subwords: bpe, "
        "vocabulary_size: 16, subword_dropout: 0.3, cache: always}\n",
        "num_encoder_layers: 1, num_decoder_layers: 1, max_length: 40"),
}


class Parallel:
    """A run of a config in a separate folder, in a number of processes."""

    def __init__(self, program, folder, name):
        self.run = Run(program, folder, [f"train.steps={STEPS}"], CONFIGS[name])
        write_text(folder)

    def command(self, processes, threads, settings=(), resume=False, launcher=None):
        first = ["--resume", "runs/run"] if resume else ["run.yaml"]
        command = [self.run.program, "train", *first, f"train.steps={STEPS}",
                   f"train.threads={threads}", *settings]
        return command if processes == 1 else [*(launcher or mpirun)(processes), *command]

    def execute(self, processes, threads, settings=(), resume=False):
        """Runs to the end. TAPESTRY_PEER_TIMEOUT has its default, since no fault is expected and a
        busy machine may take seconds to connect the processes."""
        command = self.command(processes, threads, settings, resume)
        outcome = self.run.execute(command)
        require(outcome.code == 0, f"{' '.join(map(str, command))}: {outcome}")
        require("\x1b" not in outcome.out, f"found a live line without a terminal: {outcome}")
        return outcome

    def start(self, processes, settings=(), launcher=None):
        """Starts the run; its output goes to the file `output`."""
        command = self.command(processes, 1, settings, launcher=launcher)
        with open(self.run.folder / "output", "wb") as output:
            return subprocess.Popen(command, cwd=self.run.folder, stdin=subprocess.DEVNULL,
                                    stdout=output, stderr=subprocess.STDOUT, env=environment())

    def output(self):
        return (self.run.folder / "output").read_text(errors="replace")

    def files(self, steps=STEPS):
        """The files that must be equal for any number of processes."""
        return (self.run.checkpoint(steps).read_bytes(),
                (self.run.directory / "metrics.csv").read_bytes())


def mpirun(processes):
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none",
            "-n", str(processes)]


def require_mpi(options):
    if shutil.which("mpirun") is None:
        raise Skipped("mpirun is not installed")
    if not (options.program.parent / PLUGIN).exists():
        raise Skipped("the program was built without MPI")


def copy_program(program, folder):
    """Copies the program, so that workers() finds the processes of one run by its path."""
    for file in (program, program.parent / PLUGIN):
        shutil.copy(file, folder / file.name)
    return folder / program.name


def environment():
    """The environment of runs with a fault, which other processes should notice soon."""
    return {**os.environ, "TAPESTRY_PEER_TIMEOUT": str(PEER_TIMEOUT)}


class Plan:
    """The numbers of processes and threads of the runs of a config. Each run is a list of parts
    (processes, threads, last step)."""

    def __init__(self, full):
        self.steps = 200 if full else STEPS
        self.micro_batches = 16 if full else MICRO_BATCHES
        end = self.steps
        if full:
            self.runs = [[(2, 1, end)], [(2, 3, end)], [(3, 2, end)], [(4, 1, end)], [(5, 3, end)],
                         [(8, 2, end)], [(16, 1, end)], [(1, 3, 1), (2, 3, end)],
                         [(4, 1, 60), (1, 2, 120), (16, 1, end)],
                         [(8, 1, 50), (3, 3, 110), (5, 2, end)]]
        else:
            self.runs = [[(2, 3, end)], [(3, 2, end)], [(4, 1, 3), (1, 2, 6), (2, 1, end)],
                         [(1, 1, 4), (5, 1, end)]]


def check_config(options, folder, name):
    """Any number of processes ends with the files of one process, even in a resumed run."""
    plan = Plan(options.full)

    def train(parts):
        """The files of a run, and their names. All runs have the same path, since it is stored."""
        parallel = Parallel(options.program, folder / name, name)
        for count, threads, end in parts:
            parallel.execute(count, threads, [f"train.accumulate={plan.micro_batches}",
                                              f"train.steps={end}"],
                             resume=(count, threads, end) != parts[0])
        names = sorted(path.name for path in parallel.run.directory.rglob("*"))
        files = parallel.files(plan.steps)
        shutil.rmtree(parallel.run.folder)
        return files, names

    expected = train([(1, 1, plan.steps)])
    for parts in plan.runs:
        files, names = train(parts)
        require(files == expected[0],
                f"{name}: {parts} (processes, threads, last step): files differ from one process")
        require(len(parts) > 1 or names == expected[1],
                f"{name}: {parts}: found the files {names}, expected {expected[1]}")
    return len(plan.runs)


def workers(program):
    """The process ids, by rank, of a program that mpirun has started."""
    found = {}
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            pid = int(folder.name)
            if (folder / "exe").resolve() != program:
                continue
            variables = (folder / "environ").read_bytes().split(b"\0")
            rank = next(v for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK="))
            found[int(rank.split(b"=")[1])] = pid
    return found


def wait_for(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        require(time.monotonic() < end, f"waited {seconds} s for {what}")
        time.sleep(0.02)


def check_resumed(parallel, expected, processes, name):
    """The run continues from its newest checkpoint and ends with the bytes of one process."""
    saved = parallel.run.steps()[-1]
    settings = [f"train.steps={saved + 5}", "train.save_every=4"]
    outcome = parallel.execute(processes, 1, settings, resume=True)
    require(f"at step {saved:,} of" in outcome.out, f"{name}: {outcome}")
    require(parallel.run.checkpoint(saved + 5).read_bytes() == expected(saved + 5),
            f"{name}: resumed from step {saved}: the checkpoint differs from one process")


class FaultyRun:
    """Processes of an endless run. One of them gets a signal after two saves. The program is a copy,
    so that workers() finds only the processes of this run."""

    def __init__(self, options, folder, fault, processes, victim):
        self.name = f"{fault.name}-{victim}-of-{processes}"
        program = folder / self.name / "tapestry"
        self.parallel = Parallel(program, folder / self.name, "copy")
        copy_program(options.program, program.parent)
        self.fault, self.processes, self.victim = fault, processes, victim

    def end(self):
        """Runs to the end. Returns the exit code, the output and the seconds from signal to end."""
        parallel, many = self.parallel, ["train.steps=1000000", "train.save_every=4"]
        process = parallel.start(self.processes, many)
        try:
            wait_for(lambda: len(parallel.run.steps()) >= 2 or process.poll() is not None,
                     "two saves")
            found = workers(parallel.run.program)
            require(len(found) == self.processes,
                    f"{self.name}: found {found}: {parallel.output()}")
            os.kill(found[self.victim], self.fault)
            began = time.monotonic()
            try:
                code = process.wait(PEER_TIMEOUT * 4 + 40)
            except subprocess.TimeoutExpired as expired:
                raise Failure(f"{self.name}: still running: {parallel.output()}") from expired
            return code, parallel.output(), time.monotonic() - began
        finally:
            process.kill()
            process.wait()


def check_fault(options, folder, expected, fault, processes, victim):
    """If a process is killed or hangs, the run must end in time, and can be resumed."""
    faulty = FaultyRun(options, folder, fault, processes, victim)
    code, said, took = faulty.end()
    hangs = fault == signal.SIGSTOP
    # Other processes may detect a lost connection before mpirun detects that a process has ended.
    codes = {PEER_FAILED} if hangs else {PEER_FAILED, 128 + fault}
    require(code in codes, f"{faulty.name}: exit code {code}, expected one of {codes}: {said}")
    require(not hangs or re.search(rf"tapestry: error: rank {victim} on \S+: no heartbeat", said),
            f"{faulty.name}: expected rank and machine: {said}")
    wait_for(lambda: not workers(faulty.parallel.run.program), "the other processes to end", 20)
    check_resumed(faulty.parallel, expected, max(1, processes - 1), faulty.name)
    return took


def check_signal(options, folder, expected, processes, victim):
    """SIGTERM to one process must save the run and end all processes."""
    faulty = FaultyRun(options, folder, signal.SIGTERM, processes, victim)
    code, said, _ = faulty.end()
    require(code == 128 + signal.SIGTERM, f"{faulty.name}: exit code {code}: {said}")
    stopped = re.search(r"stopped by SIGTERM and saved at step ([\d,]+)", said)
    step = int(stopped[1].replace(",", "")) if stopped else None
    require(faulty.parallel.run.steps()[-1] == step, f"{faulty.name}: {said}")
    check_resumed(faulty.parallel, expected, processes - 1, faulty.name)


def check_rejections(options, folder):
    """An invalid start is an error of all processes, with one message."""
    parallel = Parallel(options.program, folder / "rejections", "copy")

    def rejected(command, words, code=2):
        outcome = parallel.run.execute(command, env=environment())
        require(outcome.code == code and re.search(words, outcome.err) and
                (code != 2 or outcome.err.count("tapestry: error:") == 1),
                f"expected {words}: {outcome}")

    rejected(parallel.command(MICRO_BATCHES + 1, 1),
             "train.accumulate: found 5, expected at least 6")
    # Rank 1 has a different config or command line.
    one, two = (parallel.command(1, 1, [f"model.dropout={rate}"]) for rate in (0.1, 0.3))
    both = [*mpirun(1), *one, ":", "-n", "1"]
    rejected([*both, *two], r"rank 1 on \S+: config: found `dropout: 0.3`, expected `dropout: 0.1`")
    for option in ("--dry-run", "--resume"):
        rejected([*both, *one, option], f": command line: found `{option}`, expected ``")
    for epochs in (2, 3):
        text = CONFIGS["copy"].replace("train:\n", f"train:\n  epochs: {epochs}\n")
        (parallel.run.folder / f"epochs-{epochs}.yaml").write_text(text)
    first, second = ([options.program, "train", "--resume", f"epochs-{n}.yaml"] for n in (2, 3))
    rejected([*mpirun(1), *first, ":", "-n", "1", *second],
             ": config: found `epochs: 3`, expected `epochs: 2`")
    # The number of threads is a process setting, which may differ between ranks.
    outcome = parallel.run.execute(
        [*mpirun(1), *one, "--dry-run", ":", "-n", "1", *one, "--dry-run", "train.threads=2"],
        env=environment())
    require(outcome.code == 0, f"other threads on rank 1: {outcome}")
    # Rank 1 never joins.
    began = time.monotonic()
    rejected([*both, "sleep", "600"], "timeout while connecting", PEER_FAILED)
    require(time.monotonic() - began < PEER_TIMEOUT * 4 + 20, "a rank that does not join: too late")
    # Without the plugin, each process would be a separate run.
    no_plugin = folder / "no-plugin"
    no_plugin.mkdir()
    shutil.copy(options.program, no_plugin / "tapestry")
    outcome = parallel.run.execute([*mpirun(2), no_plugin / "tapestry", *one[1:]],
                                   env=environment())
    require(outcome.code == 2 and "MPI cannot be loaded: found no" in outcome.err,
            f"without the plugin: {outcome}")
    require(not parallel.run.directory.exists(), "a rejected run has left a directory")


def check_error(options, folder):
    """An error of one process, such as in its settings, ends all with its exit code."""
    parallel = Parallel(options.program, folder / "error", "copy")
    command = parallel.command(1, 1)
    outcome = parallel.run.execute(
        [*mpirun(2), *command, ":", "-n", "1", *command, "train.threads=100000"])
    require(outcome.code == 2 and re.search(r"rank 2 on \S+ has failed", outcome.err) and
            outcome.err.count("tapestry: error:") == 1, f"an error of rank 2: {outcome}")


def test(options, folder):
    require_mpi(options)
    names = options.configs or list(CONFIGS)
    total = 0
    for name in names:
        total += check_config(options, folder, name)
        print(f"{total} runs, up to config {name}, end with the files of one process", flush=True)
    check_rejections(options, folder)
    check_error(options, folder)
    checkpoints = {}

    def expected(step):
        if step not in checkpoints:
            one = Parallel(options.program, folder / f"expected-{step}", "copy")
            one.execute(1, 1, [f"train.steps={step}", "train.save_every=4"])
            checkpoints[step] = one.run.checkpoint(step).read_bytes()
        return checkpoints[step]

    for victim in (0, 2) if options.full else (2,):
        check_signal(options, folder, expected, 3, victim)
    faults = [(signal.SIGKILL, 3, 1), (signal.SIGSTOP, 3, 2)]
    if options.full:
        faults = [(fault, n, v) for fault in (signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV)
                  for n in (2, 4, 5) for v in range(n)]
    max_seconds = max(check_fault(options, folder, expected, *fault) for fault in faults)
    if options.full:
        # Uses TCP like runs on several machines: MPI ends a process that loses its connection.
        os.environ["OMPI_MCA_btl"] = "self,tcp"
        max_seconds = max(max_seconds, *(check_fault(options, folder / "tcp", expected, *fault)
                                         for fault in faults))
        faults *= 2
    print(f"{len(faults)} faults end the run within {max_seconds:.1f} s, limit "
          f"{PEER_TIMEOUT} s; resumed, it ends with the files of one process")


if __name__ == "__main__":
    given = runs.parse_arguments(__doc__, lambda parser: parser.add_argument(
        "--configs", nargs="*", metavar="NAME",
        help=f"configs to test, of {', '.join(CONFIGS)}; default: all"))
    sys.exit(runs.main(test, given))
