"""The states of a kernel."""
import enum

__all__ = ["KernelState"]


class KernelState(str, enum.Enum):
    """State of a kernel in its life cycle: launched, active, deactivated and active again, terminated."""

    CREATED = "created"
    LAUNCHED = "launched"
    ACTIVE = "active"
    DEACTIVATED = "deactivated"  # takes messages in, works on none
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FAILED = "failed"  # its loop ended by an exception

    __str__ = enum.Enum.__str__
    __format__ = enum.Enum.__format__
