# SPDX-License-Identifier: BSD-3-Clause
"""Weaves mutants into a copy of the sources, as switches that are set at run time."""

import shutil
from pathlib import Path

from mutants import ROOT, ListError, by_file

COPIED = ["CMakeLists.txt", "CHANGELOG.md", "LICENSE", "README.md", "cmake", "autograd", "configs", "data",
          "layers", "optim", "tests", "train"]
# The main files of the programs, which reject names that are not in the list of mutants.
MAINS = ["tests/support/main.cpp", "train/cli/main.cpp"]
# Uses angle brackets, because CMake's check of the includes of public headers ignores them.
INCLUDE = '#include <tests/mutants/switch.h>\n'


def switched(mutant, body):
    on = f'::tapestry::mutants::on("{mutant.name}")'
    if mutant.statements:
        return f"{{ if ({on}) {{ {mutant.new} }} else {{ {body} }} }}"
    return f"({on} ? ({mutant.new}) : ({body}))"


def woven(source, mutants):
    """The text of a file with all its mutants. Mutants may be nested."""
    placed = sorted(((mutant.span_in(source), mutant) for mutant in mutants),
                    key=lambda place: (place[0][0], -place[0][1]))
    return INCLUDE + "#line 1\n" + woven_part(source, 0, len(source), placed)


def woven_part(source, begin, end, placed):
    text = ""
    while placed:
        first, last = placed[0][0]
        inside = [place for place in placed if place[0][0] < last]
        placed = placed[len(inside):]
        for span, mutant in inside:
            if span[1] > last:
                raise ListError(f"{mutant.name}: its `old` overlaps with another in {mutant.file}")
        same = [mutant for span, mutant in inside if span == (first, last)]
        body = woven_part(source, first, last, inside[len(same):])
        for mutant in same:
            body = switched(mutant, body)
        text += source[begin:first] + body
        begin = last
    return text + source[begin:end]


def known_names(mutants):
    names = ", ".join(f'"{mutant.name}"' for mutant in mutants)
    return (f"\n{INCLUDE}[[maybe_unused]] static const bool mutant_is_known =\n"
            f"    ::tapestry::mutants::require_known({{{names}}});\n")


def weave(mutants, destination):
    """Updates `destination` from the sources. Unchanged files keep their times, so that only
    changed files are compiled again."""
    broken = by_file(mutants)
    wanted = set()
    for path in files_to_copy():
        name = path.relative_to(ROOT).as_posix()
        wanted.add(name)
        if name in broken or name in MAINS:
            text = path.read_text()
            text = woven(text, broken[name]) if name in broken else text
            text += known_names(mutants) if name in MAINS else ""
            content = text.encode()
        else:
            content = path.read_bytes()
        update(destination / name, content, path)
    for path in destination.rglob("*"):
        if path.is_file() and path.relative_to(destination).as_posix() not in wanted:
            path.unlink()


def files_to_copy():
    for name in COPIED:
        top = ROOT / name
        yield from [top] if top.is_file() else filter(Path.is_file, top.rglob("*"))


def update(path, content, original):
    if path.exists() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    shutil.copymode(original, path)
