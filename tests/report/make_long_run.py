#!/usr/bin/env python3
"""Makes the directory of a run of 100,000 logged steps, to measure the size and opening time of its report.

    python3 tests/report/make_long_run.py .build/release/tapestry FOLDER

A translation model of 6 encoder and 6 decoder layers with 8 heads is trained for 10 steps, which gives a checkpoint.
Then metrics.csv and events.jsonl are written as a run of --steps steps has them that logs every step
and validates every 500: the values are a decay with noise, the same at every call. Then

    .build/release/tapestry report FOLDER --output long.html
    venv/bin/python tests/report/check_pages.py long.html

prints the size of the page and the times until it is interactive and its first chart is drawn.
"""
import argparse
import json
import math
import pathlib
import random
import subprocess

VALIDATE_EVERY = 500


def train(program, folder):
    """A run directory whose config names all steps, with a checkpoint of the first 10."""
    subprocess.run([
        program, "train", "--quiet", "--fresh", "--until", "10", "configs/toy_translation.yaml", f"train.run_dir={folder}",
        "train.steps=100000", "train.log_every=1", f"train.validate_every={VALIDATE_EVERY}", "train.samples=20",
        "model.num_heads=8", "model.num_encoder_layers=6", "model.num_decoder_layers=6"], check=True)


def write_records(folder, steps, noise):
    """metrics.csv with the columns that the run has written; events.jsonl with speed, 20 samples, and weights and
    gradients of each block at each validation."""
    def loss_at(step):
        return 0.3 + 4.0 * math.exp(-step / (0.1 * steps)) + 0.05 * noise.random()

    metrics = (folder / "metrics.csv").read_text().splitlines()[:1]
    make_validation = validations(noise)
    events = []
    columns = metrics[0].split(",")
    for step in range(1, steps + 1):
        loss = loss_at(step)
        row = {"step": step, "epoch": step // 300 + 1, "split": "train", "loss": loss, "perplexity": math.exp(loss),
               "learning_rate": 2e-3 * (1 - step / steps), "gradient_norm": noise.lognormvariate(0, 0.3), "target_tokens": 600}
        metrics.append(",".join(str(row.get(column, "")) for column in columns))
        events.append({"step": step, "event": "speed", "time": "2026-01-01T00:00:00Z",
                       "step_seconds": 0.02 + 0.001 * noise.random(), "target_tokens_per_second": noise.gauss(3e4, 500)})
        if step % VALIDATE_EVERY == 0:
            loss = loss_at(step)
            row = {"step": step, "epoch": step // 300 + 1, "split": "validation", "loss": loss, "perplexity": math.exp(loss),
                   "token_accuracy": math.exp(-loss), "exact_match": math.exp(-2 * loss), "target_tokens": 1850,
                   "bleu": 100 * math.exp(-loss), "chrf": 90 * math.exp(-loss)}
            metrics.append(",".join(str(row.get(column, "")) for column in columns))
            events.append({"step": step, "event": "validation", **make_validation(step)})
    (folder / "metrics.csv").write_text("\n".join(metrics) + "\n")
    (folder / "events.jsonl").write_text("".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events))


def statistics(noise):
    counts = [round(2000 * math.exp(-((i - 11.5) / 5) ** 2 / 2) * noise.uniform(0.8, 1.2)) for i in range(24)]
    return {"norm": noise.uniform(5, 20), "values": sum(counts), "not_finite": 0, "low": -noise.uniform(0.3, 0.5),
            "high": noise.uniform(0.3, 0.5), "mean": 0.001 * noise.random(), "counts": counts}


def validations(noise):
    """A function that makes the members of the event of a validation."""
    paths = (["source_embedding", "target_embedding"] + [f"encoder.layers.{i}" for i in range(6)] + ["encoder.norm"]
             + [f"decoder.layers.{i}" for i in range(6)] + ["decoder.norm", "output"])
    words = "the a blue red dog cat house garden sees does not follow under in my these".split()
    references = [" ".join(noise.choices(words, k=12)) for _ in range(20)]

    def make(step):
        samples = [{"input": f"{i} le chien bleu ne voit pas la maison rouge", "expected": reference,
                    "output": " ".join(word if noise.random() < 0.8 else noise.choice(words) for word in reference.split())}
                   for i, reference in enumerate(references)]
        blocks = [{"path": path, "weights": statistics(noise), "gradients": statistics(noise),
                   "update_ratio": noise.uniform(1e-4, 1e-2)} for path in paths]
        return {"resident_bytes": 100_000_000 + 100 * step, "samples": samples, "blocks": blocks}

    return make


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("program", help="the program tapestry")
    parser.add_argument("folder", type=pathlib.Path, help="the run directory to make")
    parser.add_argument("--steps", type=int, default=100_000)
    arguments = parser.parse_args()
    train(arguments.program, arguments.folder)
    noise = random.Random(1)
    write_records(arguments.folder, arguments.steps, noise)


if __name__ == "__main__":
    main()
