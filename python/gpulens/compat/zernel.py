"""The names of zernel's Python API: `from gpulens.compat import zernel` instead of `import zernel`.

    with zernel.experiment("my-run") as exp:
        exp.log_param("lr", 0.001)
        exp.log_metric("loss", loss, step=step)

The run is one of gpulens: `gpulens exp list` shows it, with the whole history of its metrics. All that gpulens.Experiment
has is there, too.
"""
from ..experiments import Experiment
from ..experiments import experiment as _experiment

__all__ = ["experiment"]


def experiment(name: str) -> Experiment:
    """Begins a run of this name, which `gpulens exp list` shows; the `with` ends it, as failed when its block raises.

    Used without `with` it ends with the program. Raises a class of gpulens.errors when the file of the runs
    ($GPULENS_EXPERIMENTS_DB, else ~/.gpulens/experiments.db) cannot be written.
    """
    return _experiment(name)
