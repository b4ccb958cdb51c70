# SPDX-License-Identifier: BSD-3-Clause
"""The PyTorch process of compare_pytorch.py and compare_ddp.py. Trains the model that bench_step --serve
has written; with ddp in two processes by DistributedDataParallel over gloo, each with half the batch.

    python3 tests/bench/pytorch_worker.py DIRECTORY THREADS eager|compile|ddp

Has the protocol of bench_step --serve: prints the loss without dropout, then for each line of input with
a number of steps a line with their times, and a line of JSON at the end. Runs in a separate process to
measure its peak memory; with ddp, the peak memory of the first process.
"""

import json
import math
import pathlib
import sys
import time

try:
    import torch
    from torch import distributed
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
    """Reads the parameters described by [{"name", "shape"}, ...] as {name: tensor}."""
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
    # Dropout with Inductor's random numbers is slower than with eager PyTorch's.
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
    """Peak resident memory of this process, in bytes."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return 1024 * int(line.split()[1])


def serve(training, numbers, is_first=True):
    """Prints the loss, and the times of each number of steps."""
    loss = training.evaluate()
    if is_first:
        print(loss, flush=True)
    for number in numbers:
        times = timed(training.step, number)
        if is_first:
            print(*times, flush=True)


# ---- Two processes

PROCESSES = 2


class DistributedTraining(Training):
    def __init__(self, directory):
        super().__init__(directory, compiled=False)
        rank = distributed.get_rank()
        self.source, self.target, self.labels = (
            values if values is None else values.chunk(PROCESSES)[rank]
            for values in (self.source, self.target, self.labels))
        self.model = torch.nn.parallel.DistributedDataParallel(self.model,
                                                               gradient_as_bucket_view=True)

    def evaluate(self):
        loss = torch.tensor(super().evaluate())
        distributed.all_reduce(loss)
        return loss.item() / PROCESSES


def read_numbers_of_steps():
    """The numbers in rank 0's lines of input, broadcast to each process."""
    while True:
        line = sys.stdin.readline() if distributed.get_rank() == 0 else ""
        number = torch.tensor(int(line or 0))
        distributed.broadcast(number, 0)
        if number == 0:
            return
        yield number.item()


def train_rank(rank, directory, threads):
    torch.set_num_threads(threads)
    distributed.init_process_group("gloo", init_method=f"file://{directory}/rendezvous",
                                   rank=rank, world_size=PROCESSES)
    serve(DistributedTraining(directory), read_numbers_of_steps(), is_first=rank == 0)
    distributed.destroy_process_group()


def train_other(index, directory, threads):
    train_rank(index + 1, directory, threads)


def main():
    directory, threads, mode = pathlib.Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if mode == "ddp":
        others = torch.multiprocessing.spawn(train_other, (directory, threads), PROCESSES - 1,
                                             join=False)
        train_rank(0, directory, threads)
        others.join()
    else:
        torch.set_num_threads(threads)
        serve(Training(directory, compiled=mode == "compile"), map(int, sys.stdin))
    print(json.dumps({"peak_memory": peak_memory()}), flush=True)


if __name__ == "__main__":
    main()
