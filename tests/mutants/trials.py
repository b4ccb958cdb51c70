# SPDX-License-Identifier: BSD-3-Clause
"""Runs the test programs, gradcheck and check with one mutant."""

import html
import os
import re
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import PurePath

from mutants import ROOT

SUITES = ["autograd", "layers", "optim", "data", "train"]
GUARDS = ["back", "front"]  # sides of the unreadable pages, tests/support/guarded_memory.h
GUARDED_SUITES = ["autograd", "layers", "optim"]
SECONDS = 300  # a program that runs longer hangs; the slowest takes 50 s when two run on two cores

TINY = ["data.num_symbols=4", "data.min_length=2", "data.max_length=6", "data.train_size=4",
        "data.validation_size=1", "data.test_size=1", "model.d_model=10", "model.num_heads=2",
        "model.d_ff=13", "model.num_encoder_layers=2", "model.num_decoder_layers=2",
        "model.max_length=8"]
# Models for gradcheck and check. Together they use every operation of the layers.
MODELS = [
    ["model.norm=pre", "model.activation=relu", "model.dropout=0.2", "train.label_smoothing=0"],
    ["model.norm=post", "model.activation=gelu", "model.positions=learned", "model.dropout=0.2",
     "model.score=additive",
     "model.tie_embeddings=all", "train.label_smoothing=0.1"],
    # Without padding, because the gradients of padding rows are all 0.
    ["model.norm=pre", "model.activation=gelu_tanh", "model.dropout=0",
     "model.score=bilinear", "model.d_head=6", "model.positions=rotary",
     "model.tie_embeddings=target", "train.label_smoothing=0.1", "data.min_length=6"],
    ["model.norm=post", "model.activation=swiglu", "model.dropout=0.2",
     "model.normalization=rms_norm", "model.skip_scale=0.5", "model.stochastic_depth=0.3"],
    # Without padding, because batch norms would mix it with the tokens.
    ["model.normalization=batch_norm", "model.activation=silu", "data.min_length=6"],
]


@dataclass(frozen=True)
class TestKill:
    """How a test program found the mutant."""
    suite: str      # and the side of the guard, in a guarded run
    how: str        # "fails", "crashes" or "hangs"
    first: str = ""  # the first test case that failed or did not end


@dataclass(frozen=True)
class Trial:
    """What found a mutant; empty for sources without a fault."""
    test: TestKill | None = None
    checks: dict = field(default_factory=dict)  # name of the check: what it found


def gradcheck_finding(output):
    """The operation that `tapestry gradcheck` names, or else the number of wrong gradients."""
    if (named := re.search(r"first wrong operation: (\S+) .*?, (?:in (\S+)|outside of layers), inputs",
                           output)):
        return f"`{named[1]}`" + (f" in `{named[2]}`" if named[2] else "")
    wrong = [line.split()[0] for line in output.splitlines() if line.endswith(" wrong")]
    return f"{len(wrong)} wrong, no operation by itself" if wrong else "fails"


def check_finding(output):
    """The checks of `tapestry check` that failed."""
    failed = re.findall(r"^FAILED +(\S+(?: \S+)*?)  ", output, re.MULTILINE)
    return ", ".join(failed) if failed else "fails"


# Commands that end with exit code 1 if the model is wrong, and functions that read their output.
CHECKS = {"gradcheck": gradcheck_finding, "check": check_finding}


def try_mutant(mutant, programs):
    """The trial of a mutant; None: of the sources without a fault."""
    environment = dict(os.environ)
    environment.pop("TAPESTRY_MUTANT", None)
    environment.pop("TAPESTRY_GUARD", None)
    if mutant is not None:
        environment["TAPESTRY_MUTANT"] = mutant.name
    checks = checked(programs, environment) if mutant is None or mutant.gradcheck else {}
    return Trial(test=first_kill(mutant, programs, environment), checks=checks)


def first_kill(mutant, programs, environment):
    """The first test that finds the mutant: of its file, then of its folder, then any other."""
    own = mutant.folder if mutant is not None else SUITES[0]
    runs = runs_of_tests(own, mutant is not None and mutant.guard)
    for name, command, guard in [*near_runs(runs, mutant), *runs]:
        program = programs / "tests" / command[0]
        code, output = run([program, *command[1:]], program.parent,
                           environment | ({"TAPESTRY_GUARD": guard} if guard else {}))
        if code != 0:
            return test_kill(name, code, output)
    return None


def near_runs(runs, mutant):
    """Tests that are likely to find the mutant, to run before whole suites, which take up to two
    minutes: test files named like the mutant's file, then the folder of the same name."""
    if mutant is None:
        return []
    path = PurePath(mutant.file)
    patterns = [f"*{path.stem}*"]
    if len(path.parts) > 2:
        patterns.append(f"*/{'/'.join(path.parts[:-1])}/*")
    return [(name, [*command, f"--source-file={pattern}"], guard)
            for pattern in patterns
            for name, command, guard in runs if name == mutant.folder and not guard]


def runs_of_tests(own, guarded_first):
    """All unit tests that CTest runs, as name, command and side of the unreadable pages (None:
    plain memory); then power failures of a simulated disk."""
    def tests(suite, guard=None):
        name = suite if guard is None else f"{suite}, guarded at the {guard},"
        return name, [f"{suite}/{suite}_tests", "--reporters=xml", "--abort-after=1"], guard

    others = [suite for suite in SUITES if suite != own]
    runs = [tests(own)]
    guarded = [tests(suite, guard) for suite in GUARDED_SUITES for guard in GUARDS]
    runs = guarded + runs if guarded_first else runs + guarded
    return [*runs, *map(tests, others), ("power_loss", ["durability/power_loss"], None)]


def test_kill(suite, code, output):
    failed, running = failed_cases(output)
    if suite == "power_loss" and code == 1:
        return TestKill(suite, "fails", output.partition("\n")[0])
    if code is None:
        return TestKill(suite, "hangs", running)
    if code < 0 or not failed:
        return TestKill(suite, "crashes", running or (failed[-1] if failed else ""))
    return TestKill(suite, "fails", failed[0])


def failed_cases(output):
    """The names of the test cases that failed, and of the case that did not end, if any."""
    failed, running = [], ""
    for line in output.splitlines():
        if (begin := re.search(r'<TestCase name="([^"]*)"(?!.*skipped="true")', line)):
            running = html.unescape(begin[1])
        elif (end := re.search(r'<OverallResultsAsserts .*test_case_success="(\w+)"', line)):
            if end[1] == "false" and running:
                failed.append(running)
            running = ""
    return failed, running


def checked(programs, environment):
    findings = {}
    for command, finding_of in CHECKS.items():
        for model in MODELS:
            code, output = run([programs / "tapestry", command, ROOT / "configs" / "copy.yaml",
                                *TINY, *model], programs, environment)
            if code != 0:
                findings[command] = finding_of(output) if code == 1 else ended_by(code, output)
                break
    return findings


def ended_by(code, output):
    if code is None:
        return "hangs"
    return "crashes" if code < 0 else f"ends with code {code}: {output.strip().splitlines()[-1]}"


def run(command, folder, environment):
    """The exit code, or None after SECONDS, and the output. Ends all processes of the program."""
    process = subprocess.Popen(command, cwd=folder, env=environment, text=True, errors="replace",
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               start_new_session=True)
    try:
        output, _ = process.communicate(timeout=SECONDS)
        return process.returncode, output
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
