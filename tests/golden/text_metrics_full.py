"""Compares `tapestry bleu` with sacreBLEU: text_metrics_full.py TAPESTRY [--corpora N] [--full].

On random corpora (see text_metrics.py), every tokenizer with every smoothing method, and random
other options of BLEU and chrF, all printed decimals, details and signatures; then, for all
code points that Python knows, lower case and tokens; then p-values of both significance tests.
Exits with 1 after a difference. --full: 1,000 corpora.
"""

import argparse
import json
import multiprocessing
import pathlib
import random
import subprocess
import sys
import tempfile
import unicodedata

import numpy
import text_metrics
from sacrebleu.significance import PairedTest

TOKENIZERS = ["13a", "none", "char", "intl", "zh"]
SMOOTHINGS = ["exp", "floor", "add-k", "none"]


def known_characters():
    """Characters with a category, without those that the program rejects in a line."""
    refused = {0, 10, 13, 0xFEFF}
    return [chr(c) for c in range(sys.maxunicode + 1)
            if c not in refused and unicodedata.category(chr(c)) not in ("Cs", "Cn", "Co")]


def write(path, lines, end="\n"):
    path.write_bytes("".join(line + end for line in lines).encode())


def run(*arguments):
    done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, encoding="utf-8")
    if done.returncode:
        raise RuntimeError(f"{arguments}: {done.stderr}")
    return done.stdout


def draw_settings(draw, tokenize, smooth):
    value = draw.choice([None, 0.0, 0.05, 0.37, 2.5]) if smooth in ("floor", "add-k") else None
    lowercase = draw.random() < 0.5
    bleu = {"metric": "bleu", "tokenize": tokenize, "smooth_method": smooth, "smooth_value": value,
            "lowercase": lowercase, "effective_order": draw.random() < 0.5}
    chrf = {"metric": "chrf", "char_order": draw.choice([6, 6, 1, 3]), "word_order": draw.choice([0, 2, 1]),
            "beta": draw.choice([2, 2, 1, 3]), "lowercase": lowercase, "whitespace": draw.random() < 0.3,
            "eps_smoothing": draw.random() < 0.3}
    return bleu, chrf


def options_of(bleu, chrf):
    options = ["--tokenize", bleu["tokenize"], "--smooth", bleu["smooth_method"]]
    if bleu["smooth_value"] is not None:
        options += ["--smooth-value", bleu["smooth_value"]]
    options += ["--lowercase"] * bleu["lowercase"] + ["--effective-order"] * bleu["effective_order"]
    for name in ["char_order", "word_order", "beta"]:
        options += ["--chrf-" + name.replace("_", "-"), chrf[name]]
    for name in ["whitespace", "eps_smoothing"]:
        options += ["--chrf-" + name.replace("_", "-")] * chrf[name]
    return options


def sacrebleu_line(setting, hypotheses, references, width):
    metric = text_metrics.make_metric(setting)
    result = metric.corpus_score(hypotheses, references)
    return result.format(width=width, signature=str(metric.get_signature()))


def compare_corpus(job):
    """The number of printed scores and the differences."""
    program, seed, characters = job
    draw = random.Random(seed)
    pool = text_metrics.WORDS
    if seed % 3 == 0:  # any characters
        pool = ["".join(draw.choices(characters, k=draw.randint(1, 4))) for _ in range(100)] + pool
    hypotheses, references = text_metrics.draw_corpus(draw, pool)
    compared, differences = 0, []
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        end = draw.choice(["\n", "\n", "\r\n"])
        write(folder / "hyp", hypotheses, end)
        files = []
        for i, reference in enumerate(references):
            write(folder / f"ref{i}", reference, end)
            files += ["--reference", folder / f"ref{i}"]
        for tokenize in TOKENIZERS:
            for smooth in SMOOTHINGS:
                settings = draw_settings(draw, tokenize, smooth)
                width = draw.choice([1, 2, 4])
                options = options_of(*settings)
                found = run(program, "bleu", folder / "hyp", *files, "--metrics", "bleu,chrf",
                            "--decimals", width, *options).splitlines()
                for setting, line in zip(settings, found, strict=True):
                    compared += 1
                    expected = sacrebleu_line(setting, hypotheses, references, width)
                    if line != expected:
                        differences.append(f"{setting['metric']}, corpus {seed}, {setting}:\n  {expected}\n  {line}")
    return compared, differences


def compare_characters(program, folder, characters):
    """Lower case and tokens of every character between letters, digits and capital sigmas."""
    hypotheses = [f"{c}Σ {c} AΣ{c} AΣ{c}A 1{c}2 x{c}y {c}." for c in characters]
    write(folder / "hyp", hypotheses)
    write(folder / "lower", [line.lower() for line in hypotheses])
    lines = run(program, "bleu", folder / "hyp", "--reference", folder / "lower", "--metrics", "bleu",
                "--tokenize", "none", "--lowercase", "--sentence-level", "--score-only").splitlines()
    differences = [f"lower case of U+{ord(c):04X}" for c, line in zip(characters, lines, strict=True)
                   if float(line) != 100.0]
    write(folder / "ref", ["x 1 2 y"] * len(hypotheses))
    for tokenize in TOKENIZERS:
        metric = text_metrics.BLEU(tokenize=tokenize, effective_order=True)
        lines = run(program, "bleu", folder / "hyp", "--reference", folder / "ref", "--metrics", "bleu",
                    "--tokenize", tokenize, "--sentence-level").splitlines()
        for c, hypothesis, line in zip(characters, hypotheses, lines, strict=True):
            result = metric.sentence_score(hypothesis, ["x 1 2 y"])
            expected = result.format(width=2, signature=str(metric.get_signature()))
            if line != expected:
                differences.append(f"{tokenize} of U+{ord(c):04X} ({unicodedata.category(c)}):\n  {expected}\n  {line}")
    return len(characters) * (1 + len(TOKENIZERS)), differences


def compare_significance(program, folder, tests):
    """The largest difference of p-values, in standard errors of their two estimates."""
    worst, differences, compared = 0.0, [], 0
    for seed in range(tests):
        draw = random.Random(10_000 + seed)
        words = [w for w in text_metrics.WORDS if w.isascii()]
        sentences = [draw.choices(words, k=draw.randint(4, 15)) for _ in range(100)]
        shares = draw.choice([(0.30, 0.30), (0.30, 0.33), (0.30, 0.36)])
        systems = [[" ".join(text_metrics.altered(draw, s, words, share)) for s in sentences] for share in shares]
        reference = [" ".join(s) for s in sentences]
        write(folder / "ref", reference)
        for name, system in zip("ab", systems):
            write(folder / name, system)
        found = json.loads(run(program, "compare", folder / "ref", folder / "a", folder / "b", "--json",
                               "--metrics", "bleu,chrf", "--bootstrap", 10000))
        metrics = {"BLEU": text_metrics.BLEU(), "CHRF": text_metrics.CHRF()}
        _, scores = PairedTest([("a", systems[0]), ("b", systems[1])], metrics, [reference],
                               test_type="bs", n_samples=10000)()
        for metric in found["metrics"]:
            p, q = scores[metric["name"]][1].p_value, metric["systems"][1]["p_bootstrap"]
            mean = (p + q) / 2
            error = abs(p - q) / numpy.sqrt(2 * mean * (1 - mean) / 10000)
            worst, compared = max(worst, error), compared + 1
            if error > 4.5:
                differences.append(f"{metric['name']}: p {p}, {q}: {error:.1f} standard errors")
    return compared, worst, differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--corpora", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="number of the first corpus")
    parser.add_argument("--full", action="store_true")
    arguments = parser.parse_args()
    corpora = 1000 if arguments.full else arguments.corpora
    characters = known_characters()
    differences = []

    jobs = [(arguments.program, arguments.first + i, characters) for i in range(corpora)]
    compared = 0
    with multiprocessing.Pool() as pool:
        for count, found in pool.imap_unordered(compare_corpus, jobs):
            compared += count
            differences += found
    print(f"{corpora} corpora, {compared} printed scores: {len(differences)} differences", flush=True)

    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        some = characters if arguments.full else characters[::97]
        compared, found = compare_characters(arguments.program, folder, some)
        differences += found
        print(f"{len(some)} characters, {compared} lines: {len(found)} differences", flush=True)
        compared, worst, found = compare_significance(arguments.program, folder, 20 if arguments.full else 2)
        differences += found
        print(f"{compared} p-values: at most {worst:.1f} standard errors apart")
    for difference in differences[:20]:
        print(difference)
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
