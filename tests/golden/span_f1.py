# SPDX-License-Identifier: BSD-3-Clause
"""Writes span_f1.txt: micro-averaged F1 of spans by seqeval, for random BIO and BIOES labels.

Each line is a corpus: expected and predicted labels of its sentences, and the F1:
    B-X I-X O / O > B-X O O / O > 0.5
"""

import pathlib
import random
import warnings
from importlib.metadata import version

from seqeval.metrics import f1_score

LETTERS = {"BIO": "BIO", "BIOES": "BIOES"}


def draw_label(random_numbers, letters):
    letter = random_numbers.choice(letters)
    return letter if letter == "O" else f"{letter}-{random_numbers.choice(['X', 'Y', 'X-Y'])}"


def main():
    warnings.filterwarnings("ignore")  # of corpora without spans, whose F1 is 0
    random_numbers = random.Random(1)
    lines = [f"# seqeval {version('seqeval')}, span_f1.py"]
    for case in range(200):
        letters = LETTERS["BIO" if case % 2 == 0 else "BIOES"]
        expected, predicted = [], []
        for _ in range(random_numbers.randint(1, 4)):
            length = random_numbers.randint(1, 7)
            truth = [draw_label(random_numbers, letters) for _ in range(length)]
            found = [
                label if random_numbers.random() < 0.7 else draw_label(random_numbers, letters)
                for label in truth
            ]
            expected.append(truth)
            predicted.append(found)
        text = [" / ".join(" ".join(labels) for labels in part) for part in (expected, predicted)]
        lines.append(f"{text[0]} > {text[1]} > {f1_score(expected, predicted):.17g}")
    pathlib.Path(__file__).with_suffix(".txt").write_text("\n".join(lines) + "\n")


main()
