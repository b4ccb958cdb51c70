"""What is said about the trials: a line for each, a summary, and a table."""

import json
import os

import mutants as mutant_list
from mutants import by_file
from trials import CHECKS

SURVIVES, MISSES = "**survives**", "**misses it**"


def killer(trial):
    if trial.test is None:
        return SURVIVES
    test = trial.test
    first = f": {test.first}" if test.first else ""
    return f"{test.suite} {test.how}{first}"


def checks(mutant, trial):
    """What each check found. One that was to find the mutant and did not is called out."""
    missed = MISSES if mutant is not None and mutant.gradcheck else "-"
    return [trial.checks.get(name, missed if name == "gradcheck" else "-") for name in CHECKS]


def line(mutant, trial):
    name = mutant.name if mutant is not None else "nothing"
    return f"{name}: " + " | ".join([killer(trial), *checks(mutant, trial)])


def escaped(mutants, trials):
    """Mutants that the tests do not notice, or that the checker does not though it has to."""
    return [mutant for mutant, trial in zip(mutants, trials)
            if trial.test is None or (mutant.gradcheck and "gradcheck" not in trial.checks)]


def summary(mutants, trials, minutes, jobs):
    killed = sum(trial.test is not None for trial in trials)
    to_find = [trial for mutant, trial in zip(mutants, trials) if mutant.gradcheck]
    found = sum("gradcheck" in trial.checks for trial in to_find)
    return (f"{len(mutants)} mutants of {len(by_file(mutants))} files; the tests kill {killed}; "
            f"`tapestry gradcheck` finds {found} of the {len(to_find)} that break a gradient of a "
            f"model. {minutes:.1f} minutes with {jobs} at a time on {os.cpu_count()} cores, after "
            f"the build.")


def read_killers(path):
    """By the name of a mutant: the suite and the test case that killed it in earlier runs."""
    return json.loads(path.read_text()) if path.exists() else {}


def write_killers(mutants, trials, known, path):
    """Brings `known` and the file of read_killers() up to date, a line for each mutant on the list;
    one that survives has none."""
    for mutant, trial in zip(mutants, trials):
        known.pop(mutant.name, None)
        if trial.test is not None:
            known[mutant.name] = [trial.test.suite, trial.test.first]
    names = {mutant.name for mutant in mutant_list.load()}
    lines = [f"{json.dumps(name)}: {json.dumps(known[name], ensure_ascii=False)}"
             for name in sorted(known) if name in names]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def write_table(mutants, trials, minutes, jobs, path):
    """A row for each mutant, file by file, below the summary."""
    rows = {mutant.name: row(mutant, trial) for mutant, trial in zip(mutants, trials)}
    lines = [table_line(["mutant", "what is broken", "killed by", *CHECKS]),
             table_line(["---"] * (3 + len(CHECKS)))]
    for file, of_file in by_file(mutants).items():
        lines.append(table_line([f"**{file}**", *[""] * (2 + len(CHECKS))]))
        lines += [rows[mutant.name] for mutant in of_file]
    path.write_text(f"{summary(mutants, trials, minutes, jobs)}\n\n" + "\n".join(lines) + "\n")


def row(mutant, trial):
    cells = [f"`{mutant.name}`", mutant.breaks, killer(trial), *checks(mutant, trial)]
    return table_line([cell.replace("|", "\\|") for cell in cells])


def table_line(cells):
    return "| " + " | ".join(cells) + " |"
