"""A training loop of PyTorch on CPUs, for tests of what a job reports. It knows nothing of gpulens.

usage: torch_training.py [--steps N] [--step-ms MS] [--slow-rank R --slow-ms MS] [--stop-rank R --stop-at STEP]
                         [--load-ms MS] [--workers N] [--checkpoint-every N]

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them; without WORLD_SIZE there is one process and no group.
A rank that is slow sleeps longer before its gradients are exchanged; one that stops sends itself SIGSTOP.
"""
import argparse
import os
import signal
import tempfile
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset


class Slow(Dataset):
    def __init__(self, size, seconds):
        self.size, self.seconds = size, seconds

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.full((4,), float(index))


def main():
    parser = argparse.ArgumentParser()
    for name, kind, default in (
        ("steps", int, 20), ("step-ms", float, 5), ("slow-rank", int, -1), ("slow-ms", float, 0), ("stop-rank", int, -1),
        ("stop-at", int, 10), ("load-ms", float, 0), ("workers", int, 0), ("checkpoint-every", int, 0),
    ):
        parser.add_argument("--" + name, type=kind, default=default)
    options = parser.parse_args()
    torch.set_num_threads(1)
    world = int(os.environ.get("WORLD_SIZE", "1"))
    rank = int(os.environ.get("RANK", "0"))
    if world > 1:
        dist.init_process_group("gloo")
        dist.barrier()
    model = torch.nn.Linear(4, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Slow(options.steps, options.load_ms / 1000), batch_size=1, num_workers=options.workers)
    for step, batch in enumerate(loader):
        if rank == options.stop_rank and step == options.stop_at:
            print("stopping", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        time.sleep((options.step_ms + (options.slow_ms if rank == options.slow_rank else 0)) / 1000)
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        if world > 1:
            for parameter in model.parameters():
                dist.all_reduce(parameter.grad)
        optimizer.step()
        if options.checkpoint_every and (step + 1) % options.checkpoint_every == 0:
            with tempfile.NamedTemporaryFile() as file:
                torch.save(model.state_dict(), file)
                time.sleep(0.02)
    if world > 1:
        dist.destroy_process_group()
    print("trained", options.steps, flush=True)


if __name__ == "__main__":
    main()
