"""A PyTorch program for cuda_session.py: does what each line of its input says, and prints a line of JSON for each.

    steps N          trains N steps; {"step_ms": …}
    profile N        trains N steps under torch.profiler; {"launches": …, "kernels": …} per step
    matmul SIZE N    N products; {"ms": … of one, by CUDA's events}
    graph NODES N    replays a graph of NODES kernels N times
    settle           waits until records have been handed over
"""

import json
import sys
import time

import torch

LAUNCHES = ("cudaLaunchKernel", "cudaLaunchKernelExC", "cuLaunchKernel", "cuLaunchKernelEx", "cudaLaunchCooperativeKernel",
            "cudaGraphLaunch")


class Model(torch.nn.Module):
    def __init__(self, width=512, layers=6, words=8000):
        super().__init__()
        self.embed = torch.nn.Embedding(words, width)
        self.layers = torch.nn.ModuleList(
            torch.nn.TransformerEncoderLayer(width, 8, 4 * width, dropout=0.0, batch_first=True) for _ in range(layers))
        self.out = torch.nn.Linear(width, words)

    def forward(self, words):
        x = self.embed(words)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def main():
    torch.manual_seed(1)
    device = torch.device("cuda", 0)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    words = torch.randint(0, 8000, (8, 128), device=device)

    def train(count):
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = torch.nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
            loss.backward()
            optimizer.step()

    def steps(count):
        count = int(count)
        train(5)
        torch.cuda.synchronize()
        begin = time.monotonic()
        train(count)
        torch.cuda.synchronize()
        return {"step_ms": (time.monotonic() - begin) / count * 1e3, "trained": count + 5}

    def profile(count):
        count = int(count)
        from torch.profiler import ProfilerActivity
        from torch.profiler import profile as profiler

        train(1)
        torch.cuda.synchronize()
        with profiler(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as got:
            train(count)
            torch.cuda.synchronize()
        launches = kernels = 0
        names = {}
        for event in got.events():
            if event.name in LAUNCHES:
                launches += 1
                names[event.name] = names.get(event.name, 0) + 1
            if event.device_type == torch.autograd.DeviceType.CUDA and not event.name.startswith(("Memcpy", "Memset")):
                kernels += 1
        return {"launches": launches / count, "kernels": kernels / count, "names": names}

    def matmul(size, count):
        size, count = int(size), int(count)
        a = torch.randn(size, size, device=device, dtype=torch.bfloat16)
        b = torch.randn(size, size, device=device, dtype=torch.bfloat16)
        out = torch.empty_like(a)
        for _ in range(3):
            torch.mm(a, b, out=out)
        torch.cuda.synchronize()
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            torch.mm(a, b, out=out)
        end.record()
        torch.cuda.synchronize()
        return {"ms": begin.elapsed_time(end) / count, "products": count + 3}

    def graph(nodes, count):
        nodes, count = int(nodes), int(count)
        x = torch.zeros(1 << 16, device=device)
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            x.add_(1)
        torch.cuda.synchronize()
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            for _ in range(nodes):
                x.add_(1)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(count):
            captured.replay()
        end.record()
        torch.cuda.synchronize()
        return {"nodes": nodes, "replays": count, "ms": begin.elapsed_time(end) / count}

    def settle():
        for _ in range(12):
            torch.cuda.synchronize()
            torch.cuda.current_stream().synchronize()
            time.sleep(0.06)
        return {}

    train(3)
    torch.cuda.synchronize()
    print(json.dumps({"ready": torch.__version__}), flush=True)
    work = {"steps": steps, "profile": profile, "matmul": matmul, "graph": graph, "settle": settle}
    for line in sys.stdin:
        what, *arguments = line.split()
        print(json.dumps(work[what](*arguments)), flush=True)


if __name__ == "__main__":
    main()
