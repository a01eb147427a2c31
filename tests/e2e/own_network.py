"""A network of its own for the thread that runs a test: its well-known ports are free, and no agent of another test reads them."""
import contextlib
import ctypes
import fcntl
import os
import socket
import struct
import unittest

CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 0x1


@contextlib.contextmanager
def own_network():
    """Sockets and child processes that are made inside have only a loopback interface. Skips the test without the right to it."""
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            raise unittest.SkipTest(f"a network namespace: {os.strerror(ctypes.get_errno())}")
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
                fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))
            yield
        finally:
            if libc.setns(before, CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "back to the network before")
    finally:
        os.close(before)
