"""Makes the folder that cuda_session.py needs on a machine without internet: prepare.py --to FOLDER [--build FOLDER] [--arch 90]

Takes the libraries of the build tree, compiles launch_loop.cu with nvcc (that of the system, else NVIDIA's wheels), and
packs NVIDIA's newest CUPTI, and NCCL without the code of other GPUs, since PyTorch's is older than several ranks on one
GPU. Wheels come from the package index by pip and are kept in FOLDER.wheels."""

import argparse
import lzma
import os
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
NVCC = ["nvidia-cuda-nvcc==13.0.*", "nvidia-nvvm==13.0.*", "nvidia-cuda-crt==13.0.*", "nvidia-cuda-runtime==13.0.*"]


def wheel(folder, requirement):
    """Downloads a wheel once; returns its path."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = requirement.split("==")[0].replace("-", "_")
    found = sorted(folder.glob(f"{stem}-*.whl"))
    if not found:
        subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", folder, requirement], check=True)
        found = sorted(folder.glob(f"{stem}-*.whl"))
    return found[-1]


def nvcc(wheels, folder):
    """The compiler and the options that it needs."""
    path = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if Path(path).exists():
        return [path]
    for requirement in NVCC:
        with zipfile.ZipFile(wheel(wheels, requirement)) as archive:
            archive.extractall(folder)
    cuda = folder / "nvidia" / "cu13"
    for program in [*(cuda / "bin").iterdir(), cuda / "nvvm" / "bin" / "cicc"]:
        if program.is_file():
            program.chmod(0o755)
    return [str(cuda / "bin" / "nvcc"), f"-L{cuda / 'lib'}"]


def without_other_gpus(data, arch):
    """Overwrites the device code of other architectures by zeros, which pack well; nothing moves."""
    begin, size, count, names_at = struct.unpack_from("<Q", data, 40)[0], *struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", data, begin + i * size) for i in range(count)]
    names = headers[names_at][4]
    for header in headers:
        name = data[names + header[0]:data.index(b"\0", names + header[0])].decode()
        if name not in ("__nv_relfatbin", ".nv_fatbin"):
            continue
        at, end = header[4], header[4] + header[5]
        while at + 16 <= end:
            magic, _, head, length = struct.unpack_from("<IHHQ", data, at)
            if magic != 0xBA55ED50:
                at += 8
                continue
            entry, last = at + head, at + head + length
            while entry < last:
                kind, _, entry_head, entry_size = struct.unpack_from("<HHIQ", data, entry)
                if kind != 2 or struct.unpack_from("<I", data, entry + 28)[0] != arch:
                    data[entry + entry_head:entry + entry_head + entry_size] = bytes(entry_size)
                entry += entry_head + entry_size
            at = last
    return data


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--to", required=True, type=Path)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--arch", type=int, default=90, help="compute capability × 10 of the GPU")
    options = parser.parse_args()
    to, wheels = options.to.resolve(), Path(f"{options.to.resolve()}.wheels")
    to.mkdir(parents=True, exist_ok=True)
    for name in ("libgpulens-cuda.so", "libgpulens-nccl-profiler.so", "job_page_dump"):
        shutil.copy(options.build / name, to / name)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        compiler = nvcc(wheels, folder)
        for name, streams in (("launch_loop", "legacy"), ("launch_loop_per_thread", "per-thread")):
            subprocess.run([*compiler, f"-arch=sm_{options.arch}", "-O2", "--default-stream", streams, "-o", to / name,
                            HERE / "launch_loop.cu"], check=True)
        for requirement, library in (("nvidia-cuda-cupti==13.*", "libcupti.so.13"), ("nvidia-nccl-cu13", "libnccl.so.2")):
            with zipfile.ZipFile(wheel(wheels, requirement)) as archive:
                member = next(name for name in archive.namelist() if name.endswith("/" + library))
                archive.extract(member, folder)
            path = folder / member
            subprocess.run(["strip", "--strip-debug", path], check=True)
            data = bytearray(path.read_bytes())
            if library.startswith("libnccl"):
                data = without_other_gpus(data, options.arch)
            with lzma.open(to / f"{library}.xz", "wb", preset=3) as packed:
                packed.write(data)
    total = sum(file.stat().st_size for file in to.iterdir())
    print(f"{to}: {total / 2**20:.1f} MiB")
    for file in sorted(to.iterdir()):
        print(f"  {file.name} {os.path.getsize(file)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
