#!/usr/bin/env python3
"""Packs the files of the web page into rows of C++ that are compiled in.

    tools/embed_page.py OUT FILE… [NAME=FILE…]     NAME: what the file is called below /page/, if not as itself

A row is the name, the tag, and the bytes, packed by gzip. The same files give the same rows. Prints nothing; fails on a name that
the agent would not serve, and when all of it together is larger than a page should be.
"""
import hashlib
import pathlib
import re
import sys
import zlib

NAME = re.compile(r"[a-z0-9_]+\.(css|js|svg)")
MOST = 150_000  # bytes of all files, packed: the page loads at once where the network is slow


def packed(content):
    """One gzip member; its head has neither a time nor a name."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return packer.compress(content) + packer.flush()


def literal(data):
    """A string literal of C++ in lines. An escape of three octal digits never takes in the character after it."""
    keep = {byte: chr(byte) for byte in range(32, 127) if chr(byte) not in '"\\?'}
    text = [keep.get(byte, f"\\{byte:03o}") for byte in data]
    return "\n".join('    "' + "".join(text[at : at + 32]) + '"' for at in range(0, len(text), 32))


def row(name, content):
    if not NAME.fullmatch(name):
        sys.exit(f"{name}: a file of the page is called like view_name.js: small letters, digits and _, and .js, .css or .svg")
    small = packed(content)
    tag = hashlib.sha256(content).hexdigest()[:16]
    return len(small), f'{{"{name}", "{tag}", {len(content)},\n std::string_view(\n{literal(small)},\n    {len(small)})}},\n'


def main(out, *arguments):
    files = {}
    for argument in arguments:
        name, _, path = argument.rpartition("=")
        files[name or pathlib.Path(path).name] = pathlib.Path(path)
    rows = [row(name, path.read_bytes()) for name, path in sorted(files.items())]
    total = sum(size for size, _ in rows)
    if total > MOST:
        sys.exit(f"the files of the page have {total} bytes, packed; {MOST} are allowed")
    pathlib.Path(out).parent.mkdir(parents=True, exist_ok=True)
    pathlib.Path(out).write_text("".join(text for _, text in rows), encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
