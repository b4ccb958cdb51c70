# SPDX-License-Identifier: BSD-3-Clause
"""Reads lists of mutants, and finds where the text of each is in the sources."""

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class ListError(Exception):
    """An error in a list; the message says where it is and what was expected."""


@dataclass(frozen=True)
class Mutant:
    name: str
    breaks: str          # the fault, in one line
    file: str            # relative to the root of the sources
    old: str             # the text to replace: an expression, or whole statements
    new: str
    statements: bool = False
    gradcheck: bool = False  # breaks a gradient of the model: gradcheck must find it
    after: str = ""      # text before `old`, for an `old` that the file repeats
    guard: bool = False  # an access beyond an operand: first tries the tests with unreadable pages

    @property
    def folder(self):
        return self.file.split("/")[0]

    def span_in(self, source):
        """Begin and end of `old` in the text of its file, where it must occur exactly once."""
        span = self.found_in(source)
        for name, text in [("old", self.old), ("new", self.new)]:
            if problem := problem_of_form(text, self.statements, can_be_empty=name == "new"):
                raise ListError(f"{self.name}: its `{name}` {problem}: {text.strip()}")
        line_before = source[source.rfind("\n", 0, span[0]) + 1:span[0]]
        if re.sub(r"\\.", "", line_before).count('"') % 2 == 1:
            raise ListError(f"{self.name}: its `old` is a part of a string: {self.old.strip()}")
        if not self.statements and (part := joined_operator(source, *span)):
            raise ListError(f"{self.name}: its `old` is a part of an expression, `{part}` is joined "
                            f"to it: {self.old.strip()}")
        return span

    def found_in(self, source):
        begin = self.end_of_anchor(source) if self.after else 0
        found = [match.span() for match in pattern_of(self.old).finditer(source, begin)]
        if self.after and found:
            return found[0]
        if len(found) != 1:
            raise ListError(
                f"{self.name}: its `old` occurs {len(found)} times in {self.file}, expected once; "
                f"bring it in line with the source:\n    {self.old.strip()}")
        return found[0]

    def end_of_anchor(self, source):
        """End of `after` in the file, where it must occur exactly once."""
        found = [match.end() for match in pattern_of(self.after).finditer(source)]
        if len(found) != 1:
            raise ListError(f"{self.name}: its `after` occurs {len(found)} times in {self.file}, "
                            f"expected once: {self.after}")
        return found[0]


def problem_of_form(text, statements, can_be_empty):
    """Why the text is not a whole expression, or whole statements; None if no problem was found.
    Does not check types."""
    code = re.sub(r'"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'(?!\d)', "0", text)
    code = re.sub(r"//[^\n]*|/\*.*?\*/", "", code).strip()
    open_brackets, ends = [], 0
    for character in code:
        if character in "([{":
            open_brackets.append(character)
        elif character in ")]}":
            if not open_brackets or open_brackets.pop() + character not in ("()", "[]", "{}"):
                return "closes a bracket that it does not open"
        elif character == ";" and not open_brackets:
            ends += 1
    if open_brackets:
        return "opens a bracket that it does not close"
    if statements:
        complete = code.endswith((";", "}")) or (not code and can_be_empty)
        return None if complete else "is not whole statements, which end with `;` or `}`"
    if ends > 0:
        return "has a statement; give it `statements = true`"
    if not code:
        return "is empty, expected an expression"
    if re.match(r"(?:return|const|if|for|while|else|break|continue|case|auto)\b", code):
        return "begins a statement or a declaration, expected an expression"
    if re.match(r"[<>=,.:?|^%/]|!=|&&|->", code) or re.search(r"(?:[<=,.:?|^%/&!*-]|(?<!\+)\+)$", code):
        return "begins or ends with an operator, expected a whole expression"
    return None


def joined_operator(source, begin, end):
    """The call, index or member access next to a part of the source. It would apply to other
    operands if the part were put in parentheses. None if there is none."""
    before, behind = re.sub(r"//.*", "", source[:begin]).rstrip(), source[end:].lstrip()
    for part in ("->", ".", "::"):
        if before.endswith(part) and not before.endswith("..."):
            return part
    is_one_operand = re.fullmatch(r"[\w:.()\[\]]+[)\]]", without_nested(source[begin:end]))
    for part in ("->", ".", "(", "["):
        if behind.startswith(part) and not behind.startswith("...") and not is_one_operand:
            return part
    return None


def without_nested(code):
    """The text without blanks, and without parentheses, brackets and their contents."""
    result, depth = "", 0
    for character in code:
        depth -= character in ")]"
        if depth == 0 and not character.isspace():
            result += character
        depth += character in "(["
    return result.replace("->", ".")


def pattern_of(text):
    """A pattern that matches the same tokens with any spacing and line breaks."""
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


def load(paths):
    """All mutants of the lists, in their order."""
    mutants = []
    for path in paths:
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
