"""Calls of torch.distributed in each form, between ranks of gloo, for tests of what a job reports. It knows nothing of gpulens.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT as torchrun sets them. Prints the results, which a hook may not change.
"""
import os
import time

import torch
import torch.distributed as dist


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    pair = dist.new_group([0, 1])
    x = torch.ones(256)
    dist.all_reduce(x)  # 1 KiB
    gathered = [torch.zeros(2) for _ in range(ranks)]
    dist.all_gather(gathered, torch.full((2,), float(rank)))
    y = torch.full((3,), float(rank))
    dist.broadcast(y, src=ranks - 1)
    objects = [None] * ranks
    dist.all_gather_object(objects, {"rank": rank})
    if rank < 2:
        z = torch.ones(4)
        dist.broadcast(z, src=1, group=pair)
        dist.barrier(group=pair)
    # Waited for at once: rank 1 comes 50 ms later, and rank 0 waits for it.
    if rank == 1:
        time.sleep(0.05)
    work = dist.all_reduce(torch.ones(8), async_op=True)
    work.wait()
    # Complete before it is waited for: its end is not known.
    late = dist.all_reduce(torch.ones(8), async_op=True)
    while not late.is_completed():
        time.sleep(0.001)
    late.wait()
    dropped = dist.all_reduce(torch.ones(8), async_op=True)
    while not dropped.is_completed():
        time.sleep(0.001)
    del dropped
    if rank == 0:
        dist.send(torch.ones(16), dst=1)
    elif rank == 1:
        dist.recv(torch.zeros(16), src=0)
    refused = ""
    try:
        dist.all_reduce("no tensor")
    except Exception as error:
        refused = type(error).__name__
    dist.barrier()
    dist.destroy_process_group()
    print([float(x[0]), [float(one[0]) for one in gathered], float(y[0]), [one["rank"] for one in objects], refused], flush=True)


if __name__ == "__main__":
    main()
