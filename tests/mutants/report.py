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
    rows = {mutant.name: row(mutant, trial) for mutant, trial in zip(mutants, trials)}
    write(summary(mutants, trials, minutes, jobs), mutants, rows)


def replace_rows(mutants, selected, trials):
    """Puts what some of the mutants have come to now into the table, which has the others already."""
    first, *lines = README.read_text().partition(MARK)[2].strip().splitlines()
    rows = {line.split("`")[1]: line for line in lines if line.startswith("| `")}
    rows |= {mutant.name: row(mutant, trial) for mutant, trial in zip(selected, trials)}
    unknown = [mutant.name for mutant in mutants if mutant.name not in rows]
    if unknown:
        raise ListError(f"--replace: the table has no row of {', '.join(unknown)}; run them too")
    to_find = [mutant.name for mutant in mutants if mutant.gradcheck]
    killed = sum(SURVIVES not in rows[mutant.name] for mutant in mutants)
    found = sum(MISSES not in rows[name] for name in to_find)
    time = first.partition(" of a model. ")[2]
    write(f"{counts(mutants, killed, found, len(to_find))} {time}", mutants, rows)


def write(first, mutants, rows):
    """The table, file by file, behind its first line and below the mark in README.md."""
    lines = [table_line(["mutant", "what is broken", "killed by", *CHECKS]),
             table_line(["---"] * (3 + len(CHECKS)))]
    for file, of_file in by_file(mutants).items():
        lines.append(table_line([f"**{file}**", *[""] * (2 + len(CHECKS))]))
        lines += [rows[mutant.name] for mutant in of_file]
    head = README.read_text().partition(MARK)[0]
    README.write_text(f"{head}{MARK}\n{first}\n\n" + "\n".join(lines) + "\n")


def row(mutant, trial):
    cells = [f"`{mutant.name}`", mutant.breaks, killer(trial), *checks(mutant, trial)]
    return table_line([cell.replace("|", "\\|") for cell in cells])


def table_line(cells):
    return "| " + " | ".join(cells) + " |"
