#!/usr/bin/env python3
"""Says what a program, a shared object or an archive of ours lacks of what makes errors harder to use: tools/hardening.py FILE…

One line for each thing that is lacking; exit 1 when there is one. docs/adr/0066-hardened-build.md has the list and its reasons,
cmake/Flags.cmake the flags. Files of x86-64 and arm64 are read, stripped or not, with readelf and nm of any architecture.
"""

import pathlib
import re
import subprocess
import sys

# What a function begins with that may be called through a pointer: endbr64; bti c or paciasp.
LANDING = {"X86-64": (b"\xf3\x0f\x1e\xfa",), "AArch64": (b"\x5f\x24\x03\xd5", b"\x3f\x23\x03\xd5")}
NOTE = {"X86-64": "x86 feature: IBT, SHSTK", "AArch64": "AArch64 feature: BTI, PAC"}
ASSERTION = "__glibcxx_assert_fail"
ASSERTED = b"__n < this->size()"  # an assertion of std::vector, which is in the text of whatever was compiled with it


def output(*command):
    done = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
    return done.stdout


def uses(symbols):
    """What is lacking in the names that a file's objects leave to others."""
    if "__stack_chk_fail" not in symbols:
        yield "no function checks its stack (-fstack-protector-strong)"
    if not any(re.fullmatch(r"__\w+_chk", name) for name in symbols):
        yield "no call is checked for its size (_FORTIFY_SOURCE)"


def archive(path):
    """The objects of an archive, each of which has to have its note."""
    symbols = {line.split()[-1].split("@")[0] for line in output("nm", "-u", path).splitlines() if " U " in line}
    yield from uses(symbols)
    if not any(ASSERTION in name for name in symbols):
        yield "no container checks an index (_GLIBCXX_ASSERTIONS)"
    for member in re.split(r"(?m)^File: ", output("readelf", "-hnW", path))[1:]:
        name, machine = member.split("\n", 1)[0], machine_of(member)
        if "Type:" in member and NOTE[machine] not in member:
            yield f"{name} is not marked for indirect calls (-fcf-protection=full, -mbranch-protection=standard)"


def machine_of(text):
    machine = re.search(r"Machine: .*?(X86-64|AArch64)", text)
    if not machine:
        raise ValueError("neither of x86-64 nor of arm64")
    return machine[1]


def without_landing(path, text, content):
    """Functions of ours without a mark where an indirect call may arrive, and how many were looked at: with the names of a debugger all
    of ours that others may call, else those that the file shows."""
    segments = [[int(word, 16) for word in found] for found in re.findall(r"(?m)^  LOAD +(0x\w+) (0x\w+) 0x\w+ (0x\w+)", text)]
    # A linker makes the names of a program local. Those that always were so, to which compilers give no mark unless their address is
    # taken, are known by their form: anonymous namespaces, static functions, what has a closure as argument.
    stripped = ".symtab" not in text
    names = r"\S+" if stripped else r"_ZNK?7gpulens(?!\w*(?:_GLOBAL__N_|L\d+[A-Z]|Ul))\w+|main|PyInit_\w+"
    pattern = rf"(?m)^ *\d+: (\w+) +\d+ FUNC +(?:{'GLOBAL|WEAK' if stripped else 'GLOBAL|WEAK|LOCAL'}) +\w+ +\d+ ({names})$"
    found = re.findall(pattern, output("readelf", "-W", "--dyn-syms" if stripped else "-s", path))
    lacking = []
    for address, name in found:
        place = int(address, 16)
        for offset, begin, size in segments:
            if begin <= place < begin + size:
                code = content[offset + place - begin : offset + place - begin + 4]
                if code not in LANDING[machine_of(text)]:
                    lacking.append(name)
    return lacking, len(found)


def linked(path, content):
    """A program or shared object."""
    text = output("readelf", "-hlSdW", path)
    if "Type:" not in text or not re.search(r"Type: +DYN", text):
        yield "its addresses are fixed (-fPIE -pie)"
    if not re.search(r"(?m)^  GNU_RELRO ", text) or not re.search(r"BIND_NOW|Flags:.* NOW", text):
        yield "its table of functions stays writable (-z relro -z now)"
    stack = re.search(r"(?m)^  GNU_STACK +(?:0x\w+ +){5}([RWE ]{3})", text)
    if not stack or "E" in stack[1]:
        yield "its stack may be executed (-z noexecstack)"
    for flags in re.findall(r"(?m)^  LOAD +(?:0x\w+ +){5}([RWE ]{3})", text):
        if "W" in flags and "E" in flags:
            yield "a segment is writable and may be executed"
    code = [int(offset, 16) for offset in re.findall(r"(?m)^  LOAD +(0x\w+) (?:0x\w+ +){4}R E", text)]
    if not code or any(offset % 4096 for offset in code):
        yield "what is no code may be executed, too (-z separate-code)"
    if re.search(r"\(TEXTREL\)|Flags:.*TEXTREL|\(FLAGS\).*TEXTREL", text):
        yield "its code is written to when it is loaded (TEXTREL)"
    if re.search(r"\((RPATH|RUNPATH)\)", text):
        yield "it names a folder for libraries (RPATH)"
    names = re.findall(r"(?m)^ *\d+: .* UND (\w+)", output("readelf", "-W", "--dyn-syms", path))
    yield from uses(set(names))
    if ASSERTED not in content:
        yield "no container checks an index (_GLIBCXX_ASSERTIONS)"
    lacking, _ = without_landing(path, text, content)
    if lacking:
        yield f"{len(lacking)} functions are not marked for indirect calls (-fcf-protection=full, -mbranch-protection=standard), such as {lacking[0]}"


def faults(path):
    """What is lacking in a file, as sentences."""
    path = pathlib.Path(path)
    content = path.read_bytes()
    return list(archive(path) if content.startswith(b"!<arch>\n") else linked(path, content))


def marked(path):
    """Whether the whole program is marked, so that a processor and a system that can do so enforce it; and how many functions of ours are."""
    text = output("readelf", "-hlSnW", path)
    lacking, count = without_landing(path, text, pathlib.Path(path).read_bytes())
    return NOTE[machine_of(text)].split(", ")[0] in text, count - len(lacking)


def main(paths):
    found = [f"{path}: {fault}" for path in paths for fault in faults(path)]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
