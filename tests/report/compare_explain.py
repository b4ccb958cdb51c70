#!/usr/bin/env python3
"""Trains a small encoder-decoder in float64, lets `tapestry explain` write its page and its JSON for a
sentence, and compares every number with PyTorch: outputs and gradients of all steps, the steps inside of
attention, and the gradients of all parameters. Fails unless the JSON agrees to 1e-9 of the largest number
of a tensor and the page has the digits of PyTorch, rounded.

compare_explain.py PROGRAM    needs the Python packages torch and h5py; exit code 77 (skipped) without
"""

import decimal
import json
import pathlib
import re
import subprocess
import sys
import tempfile

try:
    import h5py
    import torch
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CONFIG = """\
data: {task: toy_translation, train_size: 400, validation_size: 20, test_size: 4}
model: {d_model: 16, num_heads: 2, num_encoder_layers: 2, num_decoder_layers: 2, d_ff: 32, max_length: 32}
schedule: {learning_rate: 0.003}
train: {steps: 150, batch_size: 32, log_every: 50, validate_every: 50, save_every: 50, threads: 1, dtype: float64}
"""
TEXT, HEADS, WIDTH, LAYERS, EPSILON = "la voiture bleue", 2, 16, 2, 1e-5
ROUNDING = 1e-16  # numbers below are rounding errors of 0
ALPHABET = [chr(c) for c in range(33, 126) if chr(c) not in "\"\\<>&'"]


def decode(tensor):
    """The numbers of a page as decimal texts, see train/report/number_text.h; None: not finite."""
    text, digits, exponent = tensor["text"], tensor["digits"], tensor["exponent"]
    width, least, numbers, at = {3: 2, 4: 3, 6: 4}[digits], 10 ** (digits - 1), [], 0
    while at < len(text):
        if text[at] == "~":
            numbers += [decimal.Decimal(0)] * (ALPHABET.index(text[at + 1]) + 1)
            at += 2
        elif text[at] == " ":
            numbers.append(None)
            at += 2
        else:
            code = 0
            for character in text[at:at + width]:
                code = code * len(ALPHABET) + ALPHABET.index(character)
            rest, mantissa = divmod(code, 9 * least)
            sign = -1 if rest % 2 else 1
            numbers.append(decimal.Decimal(sign * (mantissa + least)).scaleb(exponent - rest // 2 - digits + 1))
            at += width
    return numbers


class Transformer:
    """The forward pass, which keeps each step by the path of its layer."""

    def __init__(self, parameters):
        self.p = parameters
        self.steps, self.attentions = {}, {}

    def keep(self, name, x):
        x.retain_grad()
        self.steps[name] = x
        return x

    def linear(self, name, x):
        return self.keep(name, torch.nn.functional.linear(x, self.p[name + ".weight"], self.p[name + ".bias"]))

    def norm(self, name, x):
        weight, bias = self.p[name + ".weight"], self.p[name + ".bias"]
        return self.keep(name, torch.nn.functional.layer_norm(x, (WIDTH,), weight, bias, EPSILON))

    def attention(self, name, x, memory, causal):
        split = lambda y: y.reshape(len(y), HEADS, -1).transpose(0, 1)
        q, k, v = (split(self.linear(f"{name}.{part}_proj", y)) for part, y in zip("qkv", (x, memory, memory)))
        steps = {"products": q @ k.transpose(1, 2)}
        steps["scores"] = steps["products"] / (WIDTH // HEADS) ** 0.5
        mask = torch.tril(torch.ones(len(x), len(memory), dtype=torch.bool)) if causal else True
        steps["masked"] = torch.where(torch.as_tensor(mask), steps["scores"], -torch.inf)
        steps["weights"] = torch.softmax(steps["masked"], -1)
        for step in steps.values():
            step.retain_grad()
        self.attentions[name] = steps
        heads = self.keep(name, (steps["weights"] @ v).transpose(0, 1).reshape(len(x), -1))
        return self.linear(name + ".out_proj", heads)

    def residual(self, name, x, sublayer):
        return self.keep(name + ".dropout", x + sublayer(self.norm(name + ".norm", x)))

    def feed_forward(self, name, x):
        hidden = self.keep(name + ".dropout", torch.relu(self.linear(name + ".linear1", x)))
        return self.linear(name + ".linear2", hidden)

    def embed(self, side, ids):
        x = self.keep(side + "_embedding", self.p[side + "_embedding.weight"][ids] * WIDTH**0.5)
        pos, j = torch.arange(len(ids), dtype=torch.float64)[:, None], torch.arange(WIDTH)
        angle = pos / 10000.0 ** ((j - j % 2).double() / WIDTH)
        return self.keep(side + "_positions", x + torch.where(j % 2 == 0, angle.sin(), angle.cos()))

    def stack(self, side, x, memory=None):
        for i in range(LAYERS):
            at = f"{side}.layers.{i}."
            x = self.residual(at + "self_attn_residual", x,
                              lambda y: self.attention(at + "self_attn", y, y, memory is not None))
            if memory is not None:
                x = self.residual(at + "cross_attn_residual", x,
                                  lambda y: self.attention(at + "cross_attn", y, memory, False))
            x = self.residual(at + "ff_residual", x, lambda y: self.feed_forward(at + "ff", y))
        return self.norm(side + ".norm", x)

    def loss(self, source, target, labels):
        memory = self.stack("encoder", self.embed("source", source))
        logits = self.linear("output", self.stack("decoder", self.embed("target", target), memory))
        return self.keep("", torch.nn.functional.cross_entropy(logits, labels))


class Comparison:
    def __init__(self, full, page):
        self.full, self.page = full["tensors"], page["tensors"]
        self.numbers, self.rounding, self.worst, self.wrong = 0, 0, 0.0, []

    def compare(self, name, number, expected):
        """Compares tensor `number` of the JSON and of the page with a tensor of PyTorch."""
        expected = expected.detach().flatten().tolist()
        full, printed = self.full[number]["values"], decode(self.page[number])
        finite = [abs(x) for x in expected if abs(x) < float("inf")]
        largest = max(finite, default=0.0) or 1.0
        if not len(full) == len(printed) == len(expected):
            self.wrong.append(f"{name}: {len(full)} and {len(printed)} numbers, expected {len(expected)}")
            return
        digits = self.page[number]["digits"]
        for x, shown, y in zip(full, printed, expected):
            self.numbers += 1
            if x is None or abs(y) == float("inf"):
                if x is not None or shown is not None or abs(y) != float("inf"):
                    self.wrong.append(f"{name}: found {x} and {shown}, expected {y}")
                continue
            # The gradient of the bias of keys is 0 but for rounding.
            if max(abs(x), abs(y)) < ROUNDING:
                self.rounding += x != y
                continue
            error = abs(x - y) / largest
            self.worst = max(self.worst, error)
            # Half a unit of the last digit, and what rounding in float64 may add.
            last = decimal.Decimal(1).scaleb((shown.adjusted() if shown else 0) - digits + 1)
            allowed = (last / 2 if shown else 0) + decimal.Decimal(largest) * decimal.Decimal("1e-12")
            if error > 1e-9 or shown is None or abs(shown - decimal.Decimal(y)) > allowed:
                self.wrong.append(f"{name}: found {x}, printed {shown}, expected {y}")


def explain(program, folder):
    run = [program, "explain", "runs/config", TEXT]
    output = subprocess.run([*run, "--json"], cwd=folder, check=True, capture_output=True, text=True).stdout
    subprocess.run([*run, "--output", "page.html"], cwd=folder, check=True, capture_output=True)
    page = (folder / "page.html").read_text()
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1)
    return json.loads(output), json.loads(data)


def parameters_of(checkpoint):
    with h5py.File(checkpoint) as file:
        return {name: torch.tensor(array[()], requires_grad=True) for name, array in file["parameters"].items()}


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "config.yaml").write_text(CONFIG)
        subprocess.run([program, "train", "config.yaml", "--quiet"], cwd=folder, check=True)
        full, page = explain(program, folder)
        model = Transformer(parameters_of(folder / full["model"].split(", step")[0]))
    ids = [[token["id"] for token in full["input"][side]] for side in ("source", "target")]
    labels = [prediction["label"]["id"] for prediction in full["predictions"]]
    loss = model.loss(*(torch.tensor(x) for x in (*ids, labels)))
    loss.backward()

    comparison = Comparison(full, page)
    for i, step in enumerate(full["steps"]):
        layer, of_page = step["layer"], page["steps"][i]
        if step != of_page:
            comparison.wrong.append(f"{layer}: the page and the JSON have other steps")
        expected = model.steps.pop(layer)
        comparison.compare(layer, step["output"], expected)
        comparison.compare(layer + " gradient", step["gradient"], expected.grad)
        if "attention" in step:
            steps = model.attentions.pop(layer)
            for kind, tensor in steps.items():
                comparison.compare(f"{layer} {kind}", step["attention"][kind], tensor)
            comparison.compare(layer + " dweights", step["attention"]["dweights"], steps["weights"].grad)
            comparison.compare(layer + " dscores", step["attention"]["dscores"], steps["scores"].grad)
    comparison.wrong += [f"{layer}: not in the page" for layer in [*model.steps, *model.attentions]]
    for name, parameter in model.p.items():
        comparison.compare(name, full["parameters"][name]["value"], parameter)
        comparison.compare(name + " gradient", full["parameters"][name]["gradient"], parameter.grad)
    for line in comparison.wrong[:20]:
        print(line)
    print(f"PyTorch {torch.__version__}: {len(full['steps'])} steps, {comparison.numbers} numbers, "
          f"{comparison.rounding} of them rounding errors below {ROUNDING}, {len(comparison.wrong)} differ; largest error {comparison.worst:.1e} of the largest number of a tensor; "
          f"loss {full['loss']:.12f}, PyTorch {loss.item():.12f}")
    return 1 if comparison.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
