"""PyTorch's side of compare_pytorch.py: trains the model that bench_step --serve has written.

    python3 tests/bench/pytorch_worker.py DIRECTORY THREADS eager|compile

Speaks as bench_step --serve does: the loss without dropout, then for each line of input with a
number of steps a line with their times, at the end a line of JSON. A process of its own, so that
its peak memory is its own.
"""

import json
import math
import pathlib
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(f"pytorch_worker: error: {sys.executable} has no PyTorch; install it (pip install "
             "torch) or run compare_pytorch.py with a Python that has it")

import pytorch_model


def read(directory, name, dtype, shape):
    values = torch.from_file(str(directory / name), size=math.prod(shape), dtype=dtype)
    return values.view(*shape)


def read_ids(directory, name, shape):
    return read(directory, name, torch.int32, shape).long()


def read_parameters(directory, parameters):
    """{name: tensor} of what is described by [{"name", "shape"}, ...]."""
    sizes = [math.prod(p["shape"]) for p in parameters]
    flat = read(directory, "parameters.f32", torch.float32, [sum(sizes)])
    return {p["name"]: part.view(p["shape"]) for p, part in zip(parameters, flat.split(sizes))}


class Training:
    def __init__(self, directory, compiled):
        description = json.loads((directory / "model.json").read_text())
        problem = description["problem"]
        self.model = pytorch_model.Transformer(problem)
        pytorch_model.load(self.model, read_parameters(directory, description["parameters"]))
        shape = problem["batch"], problem["length"]
        has_source = problem["num_encoder_layers"] > 0
        self.source = read_ids(directory, "source.i32", shape) if has_source else None
        self.target = read_ids(directory, "target.i32", shape)
        self.labels = read_ids(directory, "labels.i32", shape).flatten()
        self.criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4, betas=(0.9, 0.98),
                                          eps=1e-9, fused=True)
        self.training_loss = compile_loss(self.loss) if compiled else self.loss

    def loss(self):
        return self.criterion(self.model(self.source, self.target).flatten(0, 1), self.labels)

    def evaluate(self):
        self.model.eval()
        with torch.no_grad():
            loss = self.loss().item()
        self.model.train()
        return loss

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.training_loss().backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
        self.optimizer.step()


def compile_loss(loss):
    # Inductor's own random numbers make dropout slower than eager PyTorch's do.
    torch._inductor.config.fallback_random = True
    return torch.compile(loss)


def timed(step, number):
    times = []
    for _ in range(number):
        start = time.perf_counter()
        step()
        times.append(time.perf_counter() - start)
    return times


def peak_memory():
    """The most memory that this process has had resident, in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])


def main():
    directory, threads, mode = sys.argv[1:]
    torch.set_num_threads(int(threads))
    training = Training(pathlib.Path(directory), compiled=mode == "compile")
    print(training.evaluate(), flush=True)
    for line in sys.stdin:
        print(*timed(training.step, int(line)), flush=True)
    print(json.dumps({"peak_memory": peak_memory()}), flush=True)


if __name__ == "__main__":
    main()
