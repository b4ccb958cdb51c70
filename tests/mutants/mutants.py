"""The list of mutants: what is in list/*.toml, and where each one's text stands in the sources."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path(__file__).resolve().parent / "list"


class ListError(Exception):
    """Something in the list is wrong; the message says where and what was expected."""


@dataclass(frozen=True)
class Mutant:
    name: str
    breaks: str          # what is wrong, in a line
    file: str            # from the root
    old: str             # the text that is replaced: an expression, or whole statements
    new: str
    statements: bool = False
    gradcheck: bool = False  # breaks a gradient of the model: the checker has to find it
    after: str = ""      # text before `old`, for an `old` that the file repeats
    guard: bool = False  # an access beyond an operand: for the tests with unreadable pages

    @property
    def folder(self):
        return self.file.split("/")[0]

    def span_in(self, source):
        """Where `old` begins and ends in the text of the file, where it must stand exactly once."""
        begin = self.end_of_anchor(source) if self.after else 0
        found = [match.span() for match in pattern_of(self.old).finditer(source, begin)]
        if self.after and found:
            return found[0]
        if len(found) != 1:
            raise ListError(
                f"{self.name}: its `old` stands {len(found)} times in {self.file}, expected once; "
                f"bring it in line with the source:\n    {self.old.strip()}")
        return found[0]

    def end_of_anchor(self, source):
        """Where `after` ends, which must stand in the file exactly once."""
        found = [match.end() for match in pattern_of(self.after).finditer(source)]
        if len(found) != 1:
            raise ListError(f"{self.name}: its `after` stands {len(found)} times in {self.file}, "
                            f"expected once: {self.after}")
        return found[0]


def pattern_of(text):
    """Matches the same tokens however they are spaced and wrapped."""
    tokens = re.findall(r"\w+|[^\w\s]", text)
    pattern = ""
    for before, token in zip([""] + tokens, tokens):
        if before:
            pattern += r"\s+" if is_word(before) and is_word(token) else r"\s*"
        pattern += re.escape(token)
    starts_in_word, ends_in_word = is_word(tokens[0]), is_word(tokens[-1])
    return re.compile((r"\b" if starts_in_word else "") + pattern + (r"\b" if ends_in_word else ""))


def is_word(token):
    return re.fullmatch(r"\w+", token) is not None


def load():
    """All mutants, in the order of the files and of the entries in them."""
    mutants = []
    for path in sorted(LISTS.glob("*.toml")):
        entries = tomllib.loads(path.read_text())
        mutants += [mutant_of(path.name, name, entry) for name, entry in entries.items()]
    names = [mutant.name for mutant in mutants]
    for name in sorted({name for name in names if names.count(name) > 1}):
        raise ListError(f"{name}: two mutants have this name, expected one")
    return mutants


def mutant_of(list_name, name, entry):
    try:
        return Mutant(name=name, **entry)
    except TypeError as error:
        raise ListError(f"{list_name}: {name}: {error}") from error


def by_file(mutants):
    files = {}
    for mutant in mutants:
        files.setdefault(mutant.file, []).append(mutant)
    return files
