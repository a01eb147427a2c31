"""One rank of two on one GPU, for cuda_session.py: collectives.py STEPS SLOW_MS FILE

Each step is a product and an all-reduce of 16 MiB; rank 1 sleeps SLOW_MS before each all-reduce. FILE gets what CUDA's
events say, as JSON. RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT come from the environment."""

import datetime
import json
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist


def main():
    steps, slow_ms, path = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", timeout=datetime.timedelta(seconds=60))
    a = torch.randn(1024, 1024, device="cuda")
    tensor = torch.ones(4 << 20, device="cuda")
    for _ in range(5):
        dist.all_reduce(tensor)
    torch.cuda.synchronize()
    events = []
    begin = time.monotonic()
    for _ in range(steps):
        a = torch.mm(a, a).clamp_(-1, 1)
        if slow_ms and rank == 1:
            torch.cuda.synchronize()
            time.sleep(slow_ms / 1e3)
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        dist.all_reduce(tensor)
        end.record()
        events.append((start, end))
        torch.cuda.synchronize()
    seconds = time.monotonic() - begin
    times = [start.elapsed_time(end) for start, end in events]
    result = {"rank": rank, "steps": steps, "step_ms": seconds / steps * 1e3, "event_ms_median": statistics.median(times),
              "event_ms_max": max(times), "nccl": list(torch.cuda.nccl.version())}
    with open(path, "w") as file:
        json.dump(result, file)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
