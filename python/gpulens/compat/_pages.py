"""Fetches pages of metrics."""
import http.client
import time
import urllib.parse
import urllib.request
from typing import Tuple

__all__ = ["FAILURES", "fetch"]

FAILURES = (OSError, ValueError, http.client.HTTPException)  # of fetch()
_MOST_BYTES = 64 << 20
# Straight to the server: what is measured is on this network.
_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def fetch(url: str, seconds: float) -> Tuple[bytes, str]:
    """Returns a page of at most 64 MiB and its Content-Type. Raises one of FAILURES, also when the page
    takes longer than `seconds`."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("the URL must start with http:// or https://")
    deadline = time.monotonic() + seconds
    body = bytearray()
    with _opener.open(url, timeout=seconds) as answer:
        while len(body) <= _MOST_BYTES:
            chunk = answer.read1(1 << 16)
            if not chunk:
                return bytes(body), answer.headers.get("Content-Type", "")
            body += chunk
            if time.monotonic() > deadline:
                raise TimeoutError(f"the page took longer than {seconds:.0f} s")
    raise ValueError(f"the page is larger than {_MOST_BYTES} bytes")
