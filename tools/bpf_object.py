#!/usr/bin/env python3
"""Compiles a program for the kernel (BPF) and writes its object as bytes for #include.

    tools/bpf_object.py CLANG SOURCE OUT     writes OUT
    tools/bpf_object.py --check CLANG SOURCE OUT
                                             fails when OUT is not what CLANG makes of SOURCE

llvm-objcopy of CLANG's folder, or one of its version in PATH, removes what only a debugger reads. Each version of clang
writes other bytes: --check passes with a sentence where OUT is of another one.
"""
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

# What the kernel's loader does not read: debug data, and relocations that it finds out by itself.
UNREAD = [".rel.BTF", ".rel.BTF.ext", ".llvm_addrsig"]


def objcopy_of(clang):
    folder = pathlib.Path(shutil.which(clang) or clang).resolve().parent
    suffix = pathlib.Path(clang).name.removeprefix("clang")
    for name in (str(folder / "llvm-objcopy"), f"llvm-objcopy{suffix}", "llvm-objcopy"):
        if shutil.which(name):
            return name
    sys.exit(f"no llvm-objcopy next to {clang}")


def compiled(clang, source):
    """The bytes of the object. They do not depend on the folder."""
    source = pathlib.Path(source)
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder, "program.o")
        subprocess.run(
            [clang, "-target", "bpf", "-mcpu=v3", "-O2", "-g", "-Wall", "-Werror", "-fdebug-compilation-dir=.", "-c", source.name, "-o", out],
            cwd=source.parent,
            check=True,
        )
        subprocess.run([objcopy_of(clang), "-g", *(f"--remove-section={name}" for name in UNREAD), out], check=True)
        return out.read_bytes()


def first_line(clang):
    version = subprocess.run([clang, "--version"], check=True, capture_output=True, text=True).stdout
    return f"// Made by tools/bpf_object.py with clang {re.search(r'clang version ([0-9.]+)', version)[1]}.\n"


def text_of(clang, data):
    rows = [",".join(map(str, data[at : at + 40])) for at in range(0, len(data), 40)]
    return first_line(clang) + ",\n".join(rows) + "\n"


def main(arguments):
    check = arguments[:1] == ["--check"]
    clang, source, out = arguments[check:]
    text = text_of(clang, compiled(clang, source))
    out = pathlib.Path(out)
    if not check:
        out.write_text(text, encoding="ascii")
    elif not out.read_text(encoding="ascii").startswith(first_line(clang)):
        print(f"SKIP: {out} was made with another clang than {clang}")
    elif out.read_text(encoding="ascii") != text:
        sys.exit(f"{out} is not made of {source}: tools/bpf_object.py {clang} {source} {out}")


if __name__ == "__main__":
    main(sys.argv[1:])
