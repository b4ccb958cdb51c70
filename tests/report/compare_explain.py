#!/usr/bin/env python3
"""Trains a small model in float64 for each case of CASES, lets `tapestry explain --json` follow an input, and compares
every number with PyTorch: outputs and gradients of all steps, the steps inside of attention, and the gradients of all
parameters. Fails unless they agree to 1e-9 of the largest number of a tensor.

compare_explain.py PROGRAM [CASE ...]    needs the Python packages torch and h5py; exit code 77 (skipped) without
"""

import json
import pathlib
import subprocess
import sys
import tempfile
import types

try:
    import h5py
    import torch
    from torch.nn import functional
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

TRAIN = """\
schedule: {learning_rate: 0.003}
train: {steps: 40, batch_size: 16, log_every: 20, validate_every: 20, save_every: 20, threads: 1, dtype: float64}
"""
# The keys of the section model; what a case does not set has these values.
DEFAULTS = {"d_model": 16, "num_heads": 2, "num_encoder_layers": 2, "num_decoder_layers": 2, "d_ff": 32,
            "max_length": 32, "attention": "multi_head", "score": "scaled_dot_product", "d_head": 0, "window": 0,
            "skip_scale": 1, "sublayer_scale": 1, "norm": "pre", "normalization": "layer_norm", "activation": "relu",
            "positions": "sinusoidal", "tie_embeddings": "none", "pooling": "class_token", "patch_size": 2,
            "layer_norm_epsilon": 1e-5}
SIZES = "train_size: 200, validation_size: 20, test_size: 4"
PIXELS = [[(5 if (p < 8) == (i % 2 == 0) else 0) + (i * 7 + p * 3) % 5 for p in range(16)] for i in range(32)]
FILES = {
    "labels.txt": "".join("no\tit rains again\n" if i % 3 else "yes\ta fine day\n" for i in range(11)),
    "tags.txt": "".join("Ada\tB-PER\nspoke\tO\n\n" if i % 3 else "in\tO\nNew\tB-LOC\nYork\tI-LOC\n\n"
                        for i in range(11)),
    "images.csv": "".join(",".join(map(str, pixels)) + (",bottom\n" if i % 2 else ",top\n")
                          for i, pixels in enumerate(PIXELS)),
}
# For each kind: the section data, its keys of the model besides those of all kinds, and an input with
# the options of the command line.
KINDS = {
    "seq2seq": ("task: toy_translation, " + SIZES, ["num_encoder_layers", "num_decoder_layers", "tie_embeddings"],
                ["la voiture bleue"]),
    "language_model": ("task: toy_sentences, " + SIZES, ["num_decoder_layers", "tie_embeddings"], ["le chat dort"]),
    "masked_language_model": ("task: toy_sentences, " + SIZES, ["num_encoder_layers", "tie_embeddings"],
                              ["le chat _ bien", "--target", "le chat dort bien"]),
    "classifier": ("task: labelled_text, train_text: labels.txt, validation_text: labels.txt",
                   ["num_encoder_layers", "pooling"], ["it rains", "--target", "yes"]),
    "tagger": ("task: tagged_text, train_text: tags.txt, validation_text: tags.txt", ["num_encoder_layers"],
               ["in New York"]),
    "vision_transformer": ("task: images, train_images: images.csv, image_height: 4, image_width: 4, "
                           "validation_size: 6, test_size: 4, pixel_maximum: 9",
                           ["num_encoder_layers", "pooling", "patch_size"], [",".join(map(str, PIXELS[2]))]),
}
# What each case changes in the model, and in data and input. Every kind, attention score, position encoding, normalization, activation and
# pooling is in a case at least.
CASES = {kind: {"kind": kind} for kind in KINDS} | {
    "translation, dot product": {"score": "dot_product", "norm": "post"},
    "copying, one vocabulary": {"data": "task: copy, max_length: 8, " + SIZES, "arguments": ["d a c"],
                                "tie_embeddings": "all"},
    "translation, additive": {"score": "additive", "positions": "learned", "activation": "gelu"},
    "translation, bilinear": {"score": "bilinear", "positions": "rotary", "activation": "swiglu"},
    "translation, rotary": {"positions": "rotary", "normalization": "rms_norm", "tie_embeddings": "target"},
    "translation, alibi": {"positions": "alibi", "activation": "geglu", "window": 2, "num_heads": 4},
    "translation, scaled residuals": {"skip_scale": 0.5, "sublayer_scale": 1.5, "d_head": 6, "activation": "silu"},
    "translation, parameter-free": {"attention": "parameter_free", "num_heads": 1, "positions": "none"},
    "language model, rotary": {"kind": "language_model", "positions": "rotary", "activation": "swiglu",
                               "normalization": "rms_norm", "tie_embeddings": "target"},
    "language model, dot product": {"kind": "language_model", "score": "dot_product", "positions": "alibi",
                                    "norm": "post", "activation": "gelu_tanh"},
    "language model, additive": {"kind": "language_model", "score": "additive", "window": 1},
    "language model, bilinear": {"kind": "language_model", "score": "bilinear", "positions": "learned"},
    "masked, dot product": {"kind": "masked_language_model", "score": "dot_product", "positions": "learned",
                            "tie_embeddings": "target", "activation": "gelu"},
    "masked, additive": {"kind": "masked_language_model", "score": "additive", "norm": "post"},
    "masked, bilinear": {"kind": "masked_language_model", "score": "bilinear", "positions": "rotary"},
    "classifier, mean": {"kind": "classifier", "pooling": "mean", "normalization": "batch_norm"},
    "classifier, dot product": {"kind": "classifier", "score": "dot_product", "positions": "rotary"},
    "classifier, additive": {"kind": "classifier", "score": "additive", "activation": "geglu", "norm": "post"},
    "classifier, bilinear": {"kind": "classifier", "score": "bilinear", "positions": "alibi"},
    "tagger, dot product": {"kind": "tagger", "score": "dot_product", "positions": "learned"},
    "tagger, additive": {"kind": "tagger", "score": "additive", "normalization": "rms_norm"},
    "tagger, bilinear": {"kind": "tagger", "score": "bilinear", "norm": "post", "positions": "rotary"},
    "image, mean": {"kind": "vision_transformer", "pooling": "mean", "positions": "learned", "activation": "gelu"},
    "image, dot product": {"kind": "vision_transformer", "score": "dot_product", "norm": "post", "patch_size": 4},
    "image, additive": {"kind": "vision_transformer", "score": "additive", "positions": "learned"},
    "image, bilinear": {"kind": "vision_transformer", "score": "bilinear", "positions": "rotary",
                        "activation": "swiglu"},
}
ROUNDING = 1e-16  # numbers below are rounding errors of 0

def sigmoid_linear(x):
    return x * torch.sigmoid(x)


def halves(gate):
    def activation(x):
        value, gated = x.chunk(2, -1)
        return value * gate(gated)
    return activation


ACTIVATIONS = {"relu": torch.relu, "gelu": functional.gelu, "silu": sigmoid_linear,
               "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
               "swiglu": halves(sigmoid_linear), "geglu": halves(functional.gelu)}


class Model:
    """The forward pass of one input, which keeps each step by the path of its layer, in order of execution."""

    def __init__(self, options, parameters, buffers):
        self.o, self.p, self.buffers = types.SimpleNamespace(**options), parameters, buffers
        self.steps, self.attentions = {}, {}

    def keep(self, name, x):
        x.retain_grad()
        self.steps.setdefault(name, []).append(x)
        return x

    def linear(self, name, x, weight=None):
        weight = self.p[(weight or name) + ".weight"]
        return self.keep(name, functional.linear(x, weight, self.p[name + ".bias"]))

    def norm(self, name, x):
        weight, epsilon = self.p[name + ".weight"], self.o.layer_norm_epsilon
        if self.o.normalization == "rms_norm":
            return self.keep(name, functional.rms_norm(x, weight.shape, weight, epsilon))
        bias = self.p[name + ".bias"]
        if self.o.normalization == "batch_norm":
            mean, variance = self.buffers[name + ".running_mean"], self.buffers[name + ".running_var"]
            return self.keep(name, functional.batch_norm(x, mean, variance, weight, bias, False, 0.0, epsilon))
        return self.keep(name, functional.layer_norm(x, weight.shape, weight, bias, epsilon))

    def split(self, x):
        """(tokens, heads * d) -> (heads, tokens, d)."""
        return x.reshape(len(x), self.o.num_heads, -1).transpose(0, 1)

    def joined(self, x):
        return x.transpose(0, 1).reshape(x.shape[1], -1)

    def rotary(self, name, x):
        heads, d = self.split(x), x.shape[1] // self.o.num_heads
        angle = torch.outer(torch.arange(len(x)), 10000.0 ** (-torch.arange(0, d, 2, dtype=torch.float64) / d))
        turn = torch.polar(torch.ones_like(angle), angle)
        pairs = torch.view_as_complex(heads.reshape(*heads.shape[:2], -1, 2))
        return self.keep(name, self.joined(torch.view_as_real(pairs * turn).reshape(heads.shape)))

    def products(self, name, q, k):
        if self.o.score != "additive":
            return self.split(q) @ self.split(k).transpose(1, 2)
        sums = self.split(q)[:, :, None] + self.split(k)[:, None]
        return (torch.tanh(sums) * self.p[name + ".score.weight"][:, None, None]).sum(-1)

    def attention(self, name, x, memory, causal):
        of_self = memory is x
        if self.o.attention == "parameter_free":
            q, k, v = x, memory, memory
        else:
            q, k, v = (self.linear(f"{name}.{part}_proj", y) for part, y in zip("qkv", (x, memory, memory)))
        if self.o.score == "bilinear":
            heads = self.split(q) @ self.p[name + ".score.weight"].transpose(1, 2)
            q = self.keep(name, self.joined(heads))
        if of_self and self.o.positions == "rotary":
            q, k = self.rotary(name, q), self.rotary(name, k)
        d = q.shape[1] // self.o.num_heads
        steps = {"products": self.products(name, q, k)}
        steps["scores"] = steps["products"] / d**0.5 if self.o.score == "scaled_dot_product" else steps["products"]
        biased = steps["scores"]
        distance = (torch.arange(len(x))[:, None] - torch.arange(len(memory))).abs()
        if of_self and self.o.positions == "alibi":
            slopes = 2.0 ** (-8.0 * torch.arange(1, self.o.num_heads + 1, dtype=torch.float64) / self.o.num_heads)
            biased = steps["biased"] = biased - slopes[:, None, None] * distance
        mask = torch.ones(len(x), len(memory), dtype=torch.bool)
        if causal:
            mask = mask.tril()
        if of_self and self.o.window:
            mask &= distance <= self.o.window
        steps["masked"] = torch.where(mask, biased, -torch.inf)
        steps["weights"] = torch.softmax(steps["masked"], -1)
        for step in steps.values():
            step.retain_grad()
        self.attentions[name] = steps
        heads = self.keep(name, self.joined(steps["weights"] @ self.split(v)))
        return heads if self.o.attention == "parameter_free" else self.linear(name + ".out_proj", heads)

    def residual(self, name, x, sublayer):
        pre = self.o.norm == "pre"
        y = sublayer(self.norm(name + ".norm", x) if pre else x)
        total = self.keep(name + ".dropout", self.o.skip_scale * x + self.o.sublayer_scale * y)
        return total if pre else self.norm(name + ".norm", total)

    def feed_forward(self, name, x):
        place = name + ".dropout" if self.o.activation == "relu" else name  # ReLU and dropout are one operation
        hidden = ACTIVATIONS[self.o.activation](self.linear(name + ".linear1", x))
        return self.linear(name + ".linear2", self.keep(place, hidden))

    def with_positions(self, name, x):
        if self.o.positions == "learned":
            return self.keep(name, x + self.keep(name, self.p[name + ".weight"][:len(x)]))
        if self.o.positions != "sinusoidal":
            return x
        pos, j = torch.arange(len(x), dtype=torch.float64)[:, None], torch.arange(self.o.d_model)
        angle = pos / 10000.0 ** ((j - j % 2).double() / self.o.d_model)
        return self.keep(name, x + torch.where(j % 2 == 0, angle.sin(), angle.cos()))

    def embed(self, name, ids, positions, weight=None):
        x = self.keep(name, self.p[(weight or name) + ".weight"][ids] * self.o.d_model**0.5)
        return self.with_positions(positions, x)

    def patches(self, image):
        size, channels = image["patch_size"], image["channels"]
        pixels = torch.tensor(image["pixels"], dtype=torch.float64)
        rows = pixels.reshape(image["height"] // size, size, image["width"] // size, size, channels)
        squares = rows.permute(0, 2, 1, 3, 4).reshape(-1, size * size * channels)
        tokens = self.linear("patches.projection", squares)
        class_token = self.keep("patches", self.p["patches.class_token"].reshape(1, -1) + 0.0)
        return self.with_positions("positions", self.keep("patches", torch.cat([class_token, tokens])))

    def stack(self, side, x, causal, memory=None):
        for i in range(getattr(self.o, f"num_{side}_layers")):
            at = f"{side}.layers.{i}."
            x = self.residual(at + "self_attn_residual", x, lambda y: self.attention(at + "self_attn", y, y, causal))
            if memory is not None:
                x = self.residual(at + "cross_attn_residual", x,
                                  lambda y: self.attention(at + "cross_attn", y, memory, False))
            x = self.residual(at + "ff_residual", x, lambda y: self.feed_forward(at + "ff", y))
        return self.norm(side + ".norm", x) if self.o.norm == "pre" else x

    def pooled(self, x):
        return self.keep("", x[:1] if self.o.pooling == "class_token" else x.mean(0, keepdim=True))

    def logits(self, given):
        ids = {side: torch.tensor([token["id"] for token in tokens]) for side, tokens in given.items()
               if side != "image"}
        tied = self.o.tie_embeddings != "none"
        if self.o.kind == "seq2seq":
            shared = "target_embedding" if self.o.tie_embeddings == "all" else None
            memory = self.stack("encoder", self.embed(shared or "source_embedding", ids["source"],
                                                      "source_positions"), False)
            x = self.embed("target_embedding", ids["target"], "target_positions")
            return self.linear("output", self.stack("decoder", x, True, memory),
                               "target_embedding" if tied else None)
        if self.o.kind == "vision_transformer":
            return self.linear("head", self.pooled(self.stack("encoder", self.patches(given["image"]), False)))
        x = self.embed("embedding", ids["source" if self.o.kind == "classifier" else "target"], "positions")
        if self.o.kind == "language_model":
            return self.linear("output", self.stack("decoder", x, True), "embedding" if tied else None)
        x = self.stack("encoder", x, False)
        if self.o.kind == "masked_language_model":
            return self.linear("output", x, "embedding" if tied else None)
        return self.linear("head", self.pooled(x) if self.o.kind == "classifier" else x)

    def loss(self, given, labels):
        layer = "output" if self.o.kind in ("seq2seq", "language_model", "masked_language_model") else ""
        return self.keep(layer, functional.cross_entropy(self.logits(given), labels))


class Comparison:
    def __init__(self, data):
        self.tensors = data["tensors"]
        self.numbers, self.rounding, self.worst, self.wrong = 0, 0, 0.0, []

    def compare(self, name, number, expected):
        """Compares tensor `number` of the JSON with a tensor of PyTorch."""
        expected = expected.detach().flatten().tolist()
        found = self.tensors[number]["values"]
        largest = max((abs(x) for x in expected if abs(x) < float("inf")), default=0.0) or 1.0
        if len(found) != len(expected):
            self.wrong.append(f"{name}: {len(found)} numbers, expected {len(expected)}")
            return
        for x, y in zip(found, expected):
            self.numbers += 1
            if x is None or abs(y) == float("inf"):
                if x is not None or abs(y) != float("inf"):
                    self.wrong.append(f"{name}: found {x}, expected {y}")
            # The gradient of the bias of keys is 0 but for rounding.
            elif max(abs(x), abs(y)) < ROUNDING:
                self.rounding += x != y
            else:
                error = abs(x - y) / largest
                self.worst = max(self.worst, error)
                if error > 1e-9:
                    self.wrong.append(f"{name}: found {x}, expected {y}")


def explain(program, folder, arguments):
    run = [program, "explain", "runs/config", *arguments, "--json"]
    return json.loads(subprocess.run(run, cwd=folder, check=True, capture_output=True, text=True).stdout)


def arrays_of(checkpoint, group, **options):
    with h5py.File(checkpoint) as file:
        return {name: torch.tensor(array[()], **options) for name, array in file.get(group, {}).items()}


def compare_case(program, folder, changes):
    options = DEFAULTS | {"kind": "seq2seq"} | changes
    section, own_keys, arguments = KINDS[options["kind"]]
    section, arguments = options.pop("data", section), options.pop("arguments", arguments)
    of_some = {key for _, keys, _ in KINDS.values() for key in keys} - set(own_keys)
    model_keys = ", ".join(f"{key}: {value}" for key, value in options.items() if key not in of_some)
    (folder / "config.yaml").write_text(f"data: {{{section}}}\nmodel: {{{model_keys}}}\n{TRAIN}")
    subprocess.run([program, "train", "config.yaml", "--quiet"], cwd=folder, check=True)
    data = explain(program, folder, arguments)
    checkpoint = folder / data["model"].split(", step")[0]
    model = Model(options, arrays_of(checkpoint, "parameters", requires_grad=True), arrays_of(checkpoint, "buffers"))
    labels = [prediction["label"]["id"] if prediction["label"] else -100 for prediction in data["predictions"]]
    loss = model.loss(data["input"], torch.tensor(labels))
    loss.backward()

    comparison = Comparison(data)
    for step in data["steps"]:
        layer = step["layer"]
        if not model.steps.get(layer):
            comparison.wrong.append(f"{layer}: {step['operation']} is not in the model here")
            continue
        expected = model.steps[layer].pop(0)
        comparison.compare(layer, step["output"], expected)
        comparison.compare(layer + " gradient", step["gradient"], expected.grad)
        if "attention" in step:
            steps = model.attentions.pop(layer)
            for kind, tensor in steps.items():
                comparison.compare(f"{layer} {kind}", step["attention"][kind], tensor)
            comparison.compare(layer + " dweights", step["attention"]["dweights"], steps["weights"].grad)
            comparison.compare(layer + " dscores", step["attention"]["dscores"], steps["scores"].grad)
    rest = [layer for layer, steps in model.steps.items() if steps]
    comparison.wrong += [f"{layer}: not in the page" for layer in [*rest, *model.attentions]]
    for name, parameter in model.p.items():
        gradient = parameter.grad if parameter.grad is not None else torch.zeros_like(parameter)
        comparison.compare(name, data["parameters"][name]["value"], parameter)
        comparison.compare(name + " gradient", data["parameters"][name]["gradient"], gradient)
    error = abs(data["loss"] - loss.item())
    if error > 1e-12:
        comparison.wrong.append(f"loss: found {data['loss']}, expected {loss.item()}")
    return comparison, len(data["steps"])


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    program, names = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:] or list(CASES)
    wrong, numbers, worst = 0, 0, 0.0
    for case in names:
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            for file, text in FILES.items():
                (folder / file).write_text(text)
            comparison, steps = compare_case(program, folder, CASES[case])
        print(f"{case}: {steps} steps, {comparison.numbers} numbers, {comparison.rounding} of them rounding errors "
              f"below {ROUNDING}, {len(comparison.wrong)} differ; largest error {comparison.worst:.1e} of the largest "
              "number of a tensor")
        for line in comparison.wrong[:20]:
            print(f"  {line}")
        wrong, numbers = wrong + len(comparison.wrong), numbers + comparison.numbers
        worst = max(worst, comparison.worst)
    print(f"PyTorch {torch.__version__}: {len(names)} cases, {numbers} numbers, {wrong} differ; largest error "
          f"{worst:.1e}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
