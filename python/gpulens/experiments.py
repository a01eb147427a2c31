"""Runs with their parameters and the whole history of their metrics, in one SQLite file that `gpulens exp` reads.

    with gpulens.experiment("my-run", tags={"team": "nlp"}) as exp:
        exp.log_params({"lr": 1e-3, "batch_size": 32})
        for step in range(1000):
            exp.log_metric("loss", train_step(), step=step)
    print(exp.id, exp.status, exp.energy)

The block ends the run: as done, or as failed with the exception; a killed one is shown as crashed. Logging neither fails nor
waits: a thread writes within a second, what does not fit into its queue is dropped and counted (`exp.health`).
The file is ~/.gpulens/experiments.db, or $GPULENS_EXPERIMENTS_DB.
"""
from __future__ import annotations

import os
import sys
import warnings
import weakref
from typing import Any, Mapping, NamedTuple, Optional, Union

from ._core import EnergyMonitor, ExperimentEnergy, ExperimentOptions, ExperimentRun

__all__ = ["experiment", "Experiment", "ExperimentEnergy", "ExperimentHealth"]


class ExperimentHealth(NamedTuple):
    """How the writing goes."""

    written: int
    """Points that are in the file."""
    queued: int
    dropped: int
    """Records that were given and are lost, each of them."""
    last_error: str
    """Of writing, "" when all is well; it is tried again."""


def _param(value: Any) -> Union[bool, int, float, str]:
    """As one of the four types that the file has; numbers of NumPy and PyTorch as numbers, all else as text."""
    for kind in (bool, float, str):  # not a class of their own, like numpy.float64
        if isinstance(value, kind):
            return kind(value)
    if not isinstance(value, int) and hasattr(value, "item"):
        try:
            return _param(value.item())
        except (TypeError, ValueError, RuntimeError):  # not of one element
            return str(value)
    if isinstance(value, int) and -(2**63) <= value < 2**63:
        return int(value)
    return str(value)


def _outcome(kind, error) -> "tuple[bool, str]":
    """Whether a block that ended with this exception failed, and why."""
    if kind is None:
        return False, ""
    if issubclass(kind, SystemExit) and getattr(error, "code", None) in (None, 0):
        return False, ""
    text = str(error) if error is not None else ""
    return True, f"{kind.__name__}: {text}" if text else kind.__name__


def _leave(run: ExperimentRun, pid: int) -> None:
    """Of a run that nobody ended: when it is collected, or when Python ends."""
    if os.getpid() != pid:
        return  # of a child: the end is its parent's
    error = getattr(sys, "last_value", None) if not hasattr(sys, "ps1") and not sys.is_finalizing() else None
    failed, reason = _outcome(type(error), error) if error is not None else (False, "")
    _end(run, failed, reason)


def _end(run: ExperimentRun, failed: bool, reason: str) -> None:
    try:
        run.end(failed, reason)
    except Exception as error:  # the program goes on: it has done its work
        warnings.warn(f"the end of run {run.id} is not kept: {error}", RuntimeWarning, stacklevel=3)


class Experiment:
    """A run. Made by experiment() and nested(); a context manager. Thread-safe.

    In a child after os.fork() it goes on writing into the same run, and flush() is worth a call before the child ends; the end
    of the run is the parent's.
    """

    def __init__(self, run: ExperimentRun):
        self._run = run
        self._finalizer = weakref.finalize(self, _leave, run, os.getpid())

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        _end(self._run, *_outcome(kind, error))

    def log_param(self, key: str, value: Any) -> None:
        """Keeps a parameter; the last value of a key wins. Text above 64 KiB is dropped."""
        self._run.log_param(key, _param(value))

    def log_params(self, params: Mapping[str, Any]) -> None:
        """log_param() for each of them."""
        for key, value in params.items():
            self.log_param(key, value)

    def log_metric(self, key: str, value: Any, step: Optional[int] = None) -> None:
        """Keeps a point. `value` is a number or a tensor of one element (which, on a device, is waited for); NaN and the
        infinities are kept. Without a step it is the one after the key's last. Raises TypeError for what is no number."""
        self._run.log_metric(key, value, step)

    def log_metrics(self, metrics: Mapping[str, Any], step: Optional[int] = None) -> None:
        """log_metric() for each of them, all at one step."""
        for key, value in metrics.items():
            self._run.log_metric(key, value, step)

    def set_tag(self, key: str, value: Any) -> None:
        """Keeps a tag, as text; the last value of a key wins."""
        self._run.set_tag(key, str(value))

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        """set_tag() for each of them."""
        for key, value in tags.items():
            self.set_tag(key, value)

    def log_artifact(self, path: Union[str, "os.PathLike[str]"], name: Optional[str] = None) -> None:
        """Copies a file, or a folder with the files below it, beside the store; of a file above 64 MiB only path, size and hash
        are kept. `name` is a path below the run's artifacts. Reads and waits; raises a class of gpulens.errors."""
        self._run.log_artifact(os.fspath(path), name or "")

    def nested(self, name: str, tags: Optional[Mapping[str, Any]] = None, **options: Any) -> Experiment:
        """A run within this one, in the same file; options as of experiment()."""
        return Experiment(self._run.nested(name, _options(tags, **options)))

    def flush(self, timeout_seconds: float = 5.0) -> None:
        """Waits until what was logged before is in the file. Raises a class of gpulens.errors."""
        self._run.flush(timeout_seconds)

    def end(self, status: str = "done", reason: str = "") -> None:
        """Ends the run as "done" or "failed"; only the first end counts. Waits 5 s at most, and raises a class of
        gpulens.errors when the file does not answer."""
        if status not in ("done", "failed"):
            raise ValueError(f"a run ends as done or failed; got {status!r}")
        self._run.end(status == "failed", reason)

    @property
    def id(self) -> str:
        """"exp-", the date and time of its beginning in UTC, and eight hex digits; what `gpulens exp show` takes."""
        return self._run.id

    @property
    def name(self) -> str:
        """As it was given."""
        return self._run.name

    @property
    def db(self) -> str:
        """The file."""
        return self._run.db

    @property
    def status(self) -> str:
        """"running", "done" or "failed"."""
        return self._run.status

    @property
    def energy(self) -> ExperimentEnergy:
        """What the run drew, after its end; NaN before, and where it is not known."""
        return self._run.energy

    @property
    def health(self) -> ExperimentHealth:
        """How many points were stored and dropped so far, and the last error."""
        return ExperimentHealth(*self._run.health)

    def __repr__(self) -> str:
        return f"<Experiment {self.id} {self.name!r} {self.status}>"


def _options(tags=None, resume=None, db=None, *, energy=True, join=True, queue_points=16_384,
             flush_interval_seconds=1.0, heartbeat_interval_seconds=10.0) -> ExperimentOptions:
    options = ExperimentOptions()
    options.tags = {key: str(value) for key, value in (tags or {}).items()}
    options.resume = resume or ""
    options.db = os.fspath(db) if db is not None else ""
    options.join = join
    options.queue_points = queue_points
    options.flush_interval_seconds = flush_interval_seconds
    options.heartbeat_interval_seconds = heartbeat_interval_seconds
    options.measure = energy is True
    if isinstance(energy, EnergyMonitor):
        options.use_monitor(energy)
    elif energy not in (True, False, None):
        raise TypeError("energy is an EnergyMonitor, True or False")
    return options


def experiment(
    name: str,
    tags: Optional[Mapping[str, Any]] = None,
    resume: Optional[str] = None,
    db: Union[str, "os.PathLike[str]", None] = None,
    *,
    energy: Union[EnergyMonitor, bool, None] = True,
    join: bool = True,
    queue_points: int = 16_384,
    flush_interval_seconds: float = 1.0,
    heartbeat_interval_seconds: float = 10.0,
) -> Experiment:
    """Begins a run now; used in a `with`, which ends it.

    resume: an id, to go on with that run, or "auto": the last of this name that failed or crashed, else a new one.
    db: the file; default $GPULENS_EXPERIMENTS_DB or ~/.gpulens/experiments.db.
    energy: True measures with a monitor that a thread opens meanwhile, an EnergyMonitor is used as it is, False measures nothing.
    It is what the devices drew that this process may use; a process that joins a run leaves it to the one that began it.
    join: be the run that `gpulens run` has begun ($GPULENS_RUN_ID); further ones are runs within it.
    Intervals are seconds, from 0.001 to 3600. Raises a class of gpulens.errors when the run cannot be begun.
    """
    return Experiment(ExperimentRun.start(name, _options(
        tags, resume, db, energy=energy, join=join, queue_points=queue_points, flush_interval_seconds=flush_interval_seconds,
        heartbeat_interval_seconds=heartbeat_interval_seconds)))
