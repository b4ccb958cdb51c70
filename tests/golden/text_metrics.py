# SPDX-License-Identifier: BSD-3-Clause
"""Writes text_metrics.json: BLEU and chrF of small corpora with odd tokens, by sacreBLEU.

`settings` are the options of the metrics; each corpus has its hypotheses, its references (one list
for each reference of a sentence), and for each of the settings score, details and signature.
"""

import json
import pathlib
import random

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF

WORDS = (
    "the a of to and in is it dog Dog cats house tree runs red well-known don't l'eau O'Neil "
    "mother-in-law U.S. e.g. 3.14 1,000 10:30 5% $5.00 €20 £3 2019. 1990, 7- -7 10-year 1/2 ½ Ⅳ "
    "Äpfel Straße ÉCOLE Ünïcödé ΟΔΟΣ Σίσυφος ΑΣ' İstanbul Istanbul ıspanak ǅ ﬁne Москва Ёлка "
    "שלום مرحبا नमस्ते ภาษาไทย 한국어 中文 我喜欢 日本語 カタカナ ひらがな ｶﾅ ＡＢＣ ，。 「引用」 "
    "👍 👩‍👩‍👧 🇩🇪 ❤️ ☃ ★ → ∑ ± × © ™ e\u0301 n\u0303o a\u0308\u0323 x\u200by \u200e10 "
    "@user #tag http://a.b/c?d=e&f=g a@b.c <b> </s> <skipped> <unk> [1] {x} (yes) (no)! \"quote\" "
    "'single' “smart” ‘s’ „unten“ «a» — – - -- ... … . , ; : ! ? ?! ' \" ` ~ ^ _ | \\ / * + = % & "
    "&amp; &quot; &lt; &gt; &amp;lt; &apos; ´ ¨ ¿ ¡ § • 、 。 ！ ？ ・ ･ ﹏ ︰ 𠀀 𝒳 𐐀 'S it's 's"
).split(" ")
SEPARATORS = [" "] * 30 + ["  ", "\t", "\u00a0", "\u3000", "\u2009", "\x1c", "\x85", "\u2028", ""]
ENDS = [""] * 8 + [" ", "\t", " \u00a0", "\u3000"]
LINES = ["", "", ".", "...", "!?", " ", "。", "2019", "3.", "a", "\u00a0", "&quot;", "👍", "中", "<skipped>"]


def join(draw, words):
    text = draw.choice(["", "", "", " "])
    for i, word in enumerate(words):
        text += (draw.choice(SEPARATORS) if i else "") + word
    return text + draw.choice(ENDS)


def altered(draw, words, pool, share):
    """The words with deletions, insertions, substitutions, changed case and moved spans."""
    result = []
    for word in words:
        chance = draw.random() / share
        if chance < 0.2:
            continue
        if chance < 0.4:
            result.append(draw.choice(pool))
        if chance < 0.6:
            word = draw.choice(pool)
        elif chance < 0.75:
            word = draw.choice([word.upper(), word.lower(), word + draw.choice(".,!?)s")])
        elif chance < 0.9:
            result.append(word)
        result.append(word)
    if len(result) > 2 and draw.random() < share:
        begin = draw.randrange(len(result))
        end = min(len(result), begin + draw.randint(1, 5))
        moved, rest = result[begin:end], result[:begin] + result[end:]
        at = draw.randint(0, len(rest))
        result = rest[:at] + moved + rest[at:]
    return result


def draw_corpus(draw, pool=None, most=20):
    """Hypotheses and references, without white space at line ends, as if read from files."""
    pool = draw.choices(pool or WORDS, k=draw.choice([5, 30, 200]))
    share = draw.choice([0.05, 0.2, 0.5, 1.0])
    number = draw.choice([1, 1, 1, 2, 3])
    longest = draw.choice([3, 12, 30])
    hypotheses, references = [], [[] for _ in range(number)]
    for _ in range(draw.randint(1, most)):
        words = draw.choices(pool, k=draw.randint(0, longest))
        for reference in references:
            odd = draw.random() < 0.03
            reference.append(draw.choice(LINES) if odd else join(draw, altered(draw, words, pool, 0.1)))
        odd = draw.random() < 0.06
        hypotheses.append(draw.choice(LINES) if odd else join(draw, altered(draw, words, pool, share)))
    strip = lambda lines: [line.rstrip() for line in lines]
    return strip(hypotheses), [strip(reference) for reference in references]


def make_metric(setting):
    options = dict(setting)
    return {"bleu": BLEU, "chrf": CHRF}[options.pop("metric")](**options)


def score(setting, hypotheses, references):
    """Score, details and signature."""
    metric = make_metric(setting)
    result = metric.corpus_score(hypotheses, references)
    return result.score, result._verbose, str(metric.get_signature())


def golden_settings():
    settings = []
    for tokenize in ["13a", "none", "char", "intl", "zh"]:
        for lowercase in [False, True]:
            settings.append({"metric": "bleu", "tokenize": tokenize, "lowercase": lowercase})
    for smooth_method, smooth_value in [("floor", None), ("floor", 0.37), ("add-k", None),
                                        ("add-k", 0.5), ("none", None)]:
        settings.append({"metric": "bleu", "smooth_method": smooth_method, "smooth_value": smooth_value})
    settings.append({"metric": "bleu", "tokenize": "none", "lowercase": True, "smooth_method": "none"})
    settings.append({"metric": "bleu", "effective_order": True})
    settings.append({"metric": "bleu", "max_ngram_order": 2})
    settings += [{"metric": "chrf"}, {"metric": "chrf", "word_order": 2}]
    settings.append({"metric": "chrf", "word_order": 2, "eps_smoothing": True})
    settings.append({"metric": "chrf", "lowercase": True, "whitespace": True, "beta": 3, "char_order": 3})
    return settings


def main():
    draw = random.Random(1)
    settings = golden_settings()
    corpora = []
    for _ in range(16):
        hypotheses, references = draw_corpus(draw, most=6)
        corpora.append({"hypotheses": hypotheses, "references": references,
                        "scores": [score(setting, hypotheses, references) for setting in settings]})
    line = lambda value: json.dumps(value, ensure_ascii=False)
    text = f'{{"sacrebleu": "{sacrebleu.__version__}",\n"settings": [\n'
    text += ",\n".join(map(line, settings)) + '\n],\n"corpora": [\n'
    text += ",\n".join(map(line, corpora)) + "\n]}\n"
    pathlib.Path(__file__).with_suffix(".json").write_text(text)


if __name__ == "__main__":
    main()
