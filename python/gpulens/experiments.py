"""Experiments: runs with their parameters and the whole history of their metrics, in an SQLite file that
`gpulens exp` reads.

    with gpulens.experiment("my-run", tags={"team": "nlp"}) as exp:
        exp.log_params({"lr": 1e-3, "batch_size": 32})
        for step in range(1000):
            exp.log_metric("loss", train_step(), step=step)
    print(exp.id, exp.status, exp.energy)

The block ends the run: as done, or as failed when it raises. A run whose process was killed is shown as
crashed. Logging neither fails nor waits: a thread writes within a second, and points that do not fit into
its queue are dropped and counted (`exp.health`). The file is $GPULENS_EXPERIMENTS_DB, by default
~/.gpulens/experiments.db.
"""
from __future__ import annotations

import os
import sys
import warnings
import weakref
from typing import TYPE_CHECKING, Any, Literal, Mapping, NamedTuple, Optional, Union

from ._pickling import refuses
from ._core import EnergyMonitor, ExperimentEnergy, ExperimentOptions, ExperimentRun

__all__ = ["experiment", "Experiment", "ExperimentEnergy", "ExperimentHealth"]


if TYPE_CHECKING:
    from typing_extensions import TypedDict, Unpack

    class RunOptions(TypedDict, total=False):
        """The options of experiment() that nested() takes, too."""

        resume: Optional[str]
        db: Union[str, os.PathLike[str], None]
        energy: Union[EnergyMonitor, bool, None]
        join: bool
        queue_points: int
        flush_interval_seconds: float
        heartbeat_interval_seconds: float


class ExperimentHealth(NamedTuple):
    """Counters and last error of the thread that writes an experiment."""

    written: int
    """Number of points in the file."""
    queued: int
    dropped: int
    """Number of records that were logged and lost."""
    last_error: str
    """Last error of writing, which is retried; the empty string when there is none."""


def _param(value: Any) -> Union[bool, int, float, str]:
    """Converts to one of the four types that the file stores; NumPy and PyTorch scalars become numbers,
    everything else text."""
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
    """Returns whether a block that ended with this exception failed, and the reason."""
    if kind is None:
        return False, ""
    if issubclass(kind, SystemExit) and getattr(error, "code", None) in (None, 0):
        return False, ""
    text = str(error) if error is not None else ""
    return True, f"{kind.__name__}: {text}" if text else kind.__name__


def _leave(run: ExperimentRun, pid: int) -> None:
    """Ends a run that the program did not end: when it is collected, or when Python exits."""
    if os.getpid() != pid:
        return  # of a child: the end is its parent's
    error = getattr(sys, "last_value", None) if not hasattr(sys, "ps1") and not sys.is_finalizing() else None
    failed, reason = _outcome(type(error), error) if error is not None else (False, "")
    _end(run, failed, reason)


def _end(run: ExperimentRun, failed: bool, reason: str) -> None:
    try:
        run.end(failed, reason)
    except Exception as error:  # the program goes on: it has done its work
        warnings.warn(f"the end of run {run.id} could not be stored: {error}", RuntimeWarning, stacklevel=3)


class Experiment:
    """A run, created by experiment() or nested(), and a context manager that ends it. Thread-safe.

    A child after os.fork() continues to write to the same run; call flush() before the child exits. Only
    the parent ends the run.
    """

    def __init__(self, run: ExperimentRun):
        self._run = run
        self._finalizer = weakref.finalize(self, _leave, run, os.getpid())

    __reduce__ = refuses(
        "log from the other process into the same run with gpulens.experiment(name, resume=run.id), or read it with "
        "gpulens.load_run(run.id)"
    )

    def __enter__(self) -> Experiment:
        return self

    def __exit__(self, kind, error, traceback) -> None:
        _end(self._run, *_outcome(kind, error))

    def log_param(self, key: str, value: Any) -> None:
        """Stores a parameter; the last value of a key wins. Text longer than 64 KiB is dropped."""
        self._run.log_param(key, _param(value))

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Calls log_param() for each item."""
        for key, value in params.items():
            self.log_param(key, value)

    def log_metric(self, key: str, value: Any, step: Optional[int] = None) -> None:
        """Stores a point of a metric.

        value: a number or a tensor of one element; waits for a tensor on a device. NaN and infinities are
            stored.
        step: by default the last step of this key plus one.

        Raises TypeError for a value that is not a number.
        """
        self._run.log_metric(key, value, step)

    def log_metrics(self, metrics: Mapping[str, Any], step: Optional[int] = None) -> None:
        """Calls log_metric() for each item, all at one step."""
        for key, value in metrics.items():
            self._run.log_metric(key, value, step)

    def set_tag(self, key: str, value: Any) -> None:
        """Stores a tag as text; the last value of a key wins."""
        self._run.set_tag(key, str(value))

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        """Calls set_tag() for each item."""
        for key, value in tags.items():
            self.set_tag(key, value)

    def log_artifact(self, path: Union[str, "os.PathLike[str]"], name: Optional[str] = None) -> None:
        """Copies a file, or a folder with the files below it, to the store's folder of artifacts.

        path: the file or folder; of a file larger than 64 MiB only path, size and hash are stored.
        name: a path below the run's artifacts.

        Blocks while it reads and copies. Raises a class of gpulens.errors.
        """
        self._run.log_artifact(os.fspath(path), name or "")

    def nested(self, name: str, tags: Optional[Mapping[str, Any]] = None, **options: Unpack[RunOptions]) -> Experiment:
        """Starts a run within this one, in the same file. Takes the options of experiment()."""
        return Experiment(self._run.nested(name, _options(tags, **options)))

    def flush(self, timeout_seconds: float = 5.0) -> None:
        """Waits until all points logged before are in the file. Raises a class of gpulens.errors."""
        self._run.flush(timeout_seconds)

    def end(self, status: Literal["done", "failed"] = "done", reason: str = "") -> None:
        """Ends the run as "done" or "failed"; only the first call counts. Waits at most 5 s.

        Raises ValueError for another status, and a class of gpulens.errors when the file cannot be written
        in time.
        """
        if status not in ("done", "failed"):
            raise ValueError(f"status must be done or failed; got {status!r}")
        self._run.end(status == "failed", reason)

    @property
    def id(self) -> str:
        """ID of the run: "exp-", its start date and time in UTC, and eight hex digits. `gpulens exp show`
        takes it."""
        return self._run.id

    @property
    def name(self) -> str:
        """Name of the run as given to experiment()."""
        return self._run.name

    @property
    def db(self) -> str:
        """Path of the file."""
        return self._run.db

    @property
    def status(self) -> Literal["running", "done", "failed"]:
        """Status of the run: "running", "done" or "failed"."""
        return self._run.status

    @property
    def energy(self) -> ExperimentEnergy:
        """Energy of the run after its end; NaN before, and where it is unknown."""
        return self._run.energy

    @property
    def health(self) -> ExperimentHealth:
        """Number of points written, queued and dropped so far, and the last error."""
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
        raise TypeError("energy must be an EnergyMonitor, True or False")
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
    """Starts a run and returns it; use it in a `with` block, which ends it.

    resume: the ID of a run to continue, or "auto": the last run of this name that failed or crashed, else
        a new one.
    db: path of the file; default $GPULENS_EXPERIMENTS_DB or ~/.gpulens/experiments.db.
    energy: True measures with a monitor that a background thread opens, an EnergyMonitor is used as it is,
        False measures nothing. The energy is that of the devices this process may use; a process that
        joins a run leaves the measurement to the process that started it.
    join: join the run that `gpulens run` has started ($GPULENS_RUN_ID); further runs are nested in it.
    queue_points: maximum number of points that wait to be written; further ones are dropped and counted.
    flush_interval_seconds, heartbeat_interval_seconds: 0.001 to 3600.

    Raises a class of gpulens.errors when the run cannot be started.
    """
    return Experiment(ExperimentRun.start(name, _options(
        tags, resume, db, energy=energy, join=join, queue_points=queue_points, flush_interval_seconds=flush_interval_seconds,
        heartbeat_interval_seconds=heartbeat_interval_seconds)))
