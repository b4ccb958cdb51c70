"""PyTorch's side of compare_ddp.py: trains the model that bench_step --serve has written in several
processes by DistributedDataParallel over gloo, each with an equal part of the batch.

    python3 tests/bench/pytorch_ddp_worker.py DIRECTORY THREADS PROCESSES

Speaks as pytorch_worker.py does; memory is the first process's.
"""

import json
import pathlib
import sys

import pytorch_worker
import torch
from torch import distributed, multiprocessing
from torch.nn.parallel import DistributedDataParallel


class DistributedTraining(pytorch_worker.Training):
    def __init__(self, directory):
        super().__init__(directory, compiled=False)
        rank, processes = distributed.get_rank(), distributed.get_world_size()

        def part_of(values):
            return values if values is None else values.chunk(processes)[rank]

        self.source, self.target, self.labels = map(
            part_of, (self.source, self.target, self.labels))
        self.model = DistributedDataParallel(self.model, gradient_as_bucket_view=True)

    def evaluate(self):
        loss = torch.tensor(super().evaluate())
        distributed.all_reduce(loss)
        return loss.item() / distributed.get_world_size()


def read_numbers_of_steps():
    """The numbers of the lines of input that rank 0 has, in each process."""
    while True:
        line = sys.stdin.readline() if distributed.get_rank() == 0 else ""
        number = torch.tensor(int(line or 0))
        distributed.broadcast(number, 0)
        if number == 0:
            return
        yield number.item()


def train(rank, directory, threads, processes):
    torch.set_num_threads(threads)
    distributed.init_process_group("gloo", init_method=f"file://{directory}/rendezvous",
                                   rank=rank, world_size=processes)
    training = DistributedTraining(directory)
    loss = training.evaluate()
    if rank == 0:
        print(loss, flush=True)
    for number in read_numbers_of_steps():
        times = pytorch_worker.timed(training.step, number)
        if rank == 0:
            print(*times, flush=True)
    distributed.destroy_process_group()


def main():
    directory, threads, processes = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    others = multiprocessing.spawn(start_other, (directory, threads, processes), processes - 1,
                                   join=False)
    train(0, directory, threads, processes)
    others.join()
    print(json.dumps({"peak_memory": pytorch_worker.peak_memory()}), flush=True)


def start_other(index, *arguments):
    train(index + 1, *arguments)


if __name__ == "__main__":
    main()
