#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Puts grammatical errors into English sentences, for a model that learns to correct them.

    grammar_errors.py [--seed N] [--rate R] < correct.txt > wrong.txt

Reads one sentence per line and writes the same sentence with errors: the output is the source of parallel
text, and the input is the target. Articles are dropped, added or exchanged, verbs disagree with their
subjects, nouns lose or gain an s, prepositions are exchanged, words are doubled, and adjacent words swap
places. Each word has an error with probability R, so some sentences stay correct.
"""
import argparse
import random
import re
import sys

ARTICLES = ["a", "an", "the"]
PREPOSITIONS = ["in", "on", "at", "of", "to", "for", "with", "by", "from"]
VERBS = {"is": "are", "are": "is", "was": "were", "were": "was", "has": "have", "have": "has",
         "does": "do", "do": "does"}


def like(word, model):
    """`word`, capitalized if `model` is capitalized."""
    return word[:1].upper() + word[1:] if model[:1].isupper() else word


def with_error(word, draw):
    """The words that replace one word."""
    lower = word.lower()
    if lower in ARTICLES:
        other = draw.choice([w for w in ARTICLES if w != lower] + [""])
        return [like(other, word)] if other else []
    if lower in VERBS:
        return [like(VERBS[lower], word)]
    if lower in PREPOSITIONS:
        return [like(draw.choice([w for w in PREPOSITIONS if w != lower]), word)]
    if re.fullmatch(r"[a-z]{4,}", lower):
        kind = draw.randrange(4)
        if kind < 2:
            return [word[:-1] if lower.endswith("s") else word + "s"]
        return [word, lower] if kind == 2 else ["the", word]
    return [word]


def corrupt(sentence, rate, draw):
    words = []
    for word in sentence.split():
        match = re.fullmatch(r"(\w+)(\W*)", word)
        if match is None or draw.random() >= rate:
            words.append(word)
            continue
        changed = with_error(match[1], draw)
        if changed:
            changed[-1] += match[2]
        words += changed
    for i in range(len(words) - 1):
        if draw.random() < rate / 4:
            words[i], words[i + 1] = words[i + 1], words[i]
    return " ".join(words)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=0.1, help="share of words with an error")
    options = parser.parse_args()
    draw = random.Random(options.seed)
    for line in sys.stdin:
        print(corrupt(line, options.rate, draw) or line.strip())


if __name__ == "__main__":
    main()
