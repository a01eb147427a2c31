"""The output of `nvidia-smi -q -x` for each GPU, as numbers in base units; None for N/A."""
import re
import subprocess
import xml.etree.ElementTree

_NUMBER = re.compile(r"^(-?[0-9.]+)\s*(\S*)$")
_SCALE = {"": 1, "W": 1, "C": 1, "MHz": 1, "%": 0.01, "MiB": 2**20, "KB/s": 1024, "x": 1}


def number(text):
    """"53.2 W" is 53.2, "12 MiB" is bytes, "N/A" and everything that is no number is None."""
    match = _NUMBER.match((text or "").strip().replace("x", "")) if text else None
    if not match or match[2] not in _SCALE:
        return None
    return float(match[1]) * _SCALE[match[2]]


class Gpu:
    def __init__(self, element):
        self.element = element
        self.uuid = element.findtext("uuid")
        self.name = element.findtext("product_name")

    def text(self, *paths):
        """The first of the paths that is there: drivers name the same thing differently."""
        for path in paths:
            found = self.element.findtext(path)
            if found is not None and found.strip() not in ("N/A", "[N/A]", ""):
                return found.strip()
        return None

    def value(self, *paths):
        return number(self.text(*paths))


def query():
    """All GPUs by uuid. Raises OSError when nvidia-smi is not here or fails."""
    try:
        out = subprocess.run(["nvidia-smi", "-q", "-x"], capture_output=True, timeout=60, check=True).stdout
    except subprocess.SubprocessError as error:
        raise OSError(f"nvidia-smi -q -x: {error}") from error
    root = xml.etree.ElementTree.fromstring(out)
    return root.findtext("driver_version"), {gpu.uuid: gpu for gpu in map(Gpu, root.findall("gpu"))}
