"""What is said about the trials: a line for each, a summary, and the kill table of README.md."""

import os
from pathlib import Path

from mutants import ListError, by_file
from trials import CHECKS

README = Path(__file__).resolve().parent / "README.md"
MARK = "<!-- The rest is written by run.py. -->\n"
SURVIVES, MISSES = "**survives**", "**misses it**"


def killer(trial):
    if trial.test is None:
        return SURVIVES
    test = trial.test
    first = f": {test.first}" if test.first else ""
    more = f" (and {test.count - 1} more)" if test.count > 1 else ""
    return f"{test.suite} {test.how}{first}{more}"


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
    return (f"{counts(mutants, killed, found, len(to_find))} {minutes:.1f} minutes with {jobs} at a "
            f"time on {os.cpu_count()} cores, after the build.")


def counts(mutants, killed, found, to_find):
    return (f"{len(mutants)} mutants of {len(by_file(mutants))} files; the tests kill {killed}; "
            f"`tapestry gradcheck` finds {found} of the {to_find} that break a gradient of a "
            f"model.")


def write_table(mutants, trials, minutes, jobs):
    head = README.read_text().partition(MARK)[0]
    rows = [["mutant", "what is broken", "killed by", *CHECKS]]
    rows.append(["---"] * len(rows[0]))
    for file, of_file in by_file(mutants).items():
        rows.append([f"**{file}**", *[""] * (len(rows[0]) - 1)])
        rows += [row(mutant, trials[mutants.index(mutant)]) for mutant in of_file]
    table = "".join("| " + " | ".join(cells) + " |\n" for cells in rows)
    README.write_text(f"{head}{MARK}\n{summary(mutants, trials, minutes, jobs)}\n\n{table}")


def replace_rows(mutants, selected, trials):
    """Puts what some of the mutants have come to now in the place of their rows in the table."""
    head, _, table = README.read_text().partition(MARK)
    lines = table.splitlines()
    for mutant, trial in zip(selected, trials):
        places = [i for i, line in enumerate(lines) if line.startswith(f"| `{mutant.name}` |")]
        if not places:
            raise ListError(f"--replace: the table has no row of {mutant.name}; run them all once")
        lines[places[0]] = "| " + " | ".join(row(mutant, trial)) + " |"
    rows = [line for line in lines if line.startswith("| `")]
    killed = sum(SURVIVES not in line for line in rows)
    missed = sum(MISSES in line for line in rows)
    to_find = sum(mutant.gradcheck for mutant in mutants)
    time = lines[1].partition(" of a model. ")[2]
    lines[1] = f"{counts(mutants, killed, to_find - missed, to_find)} {time}"
    README.write_text(head + MARK + "\n".join(lines) + "\n")


def row(mutant, trial):
    cells = [f"`{mutant.name}`", mutant.breaks, killer(trial), *checks(mutant, trial)]
    return [cell.replace("|", "\\|") for cell in cells]
