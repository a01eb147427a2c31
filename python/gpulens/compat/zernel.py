"""The Python API of zernel: `from gpulens.compat import zernel` instead of `import zernel`.

    with zernel.experiment("my-run") as exp:
        exp.log_param("lr", 0.001)
        exp.log_metric("loss", loss, step=step)

The run is a gpulens run: `gpulens exp list` shows it with the whole history of its metrics. The object has
all members of gpulens.Experiment.
"""
from ..experiments import Experiment
from ..experiments import experiment as _experiment

__all__ = ["experiment"]


def experiment(name: str) -> Experiment:
    """Starts a run of this name, which `gpulens exp list` shows; the `with` block ends it, as failed when
    it raises.

    Without `with` the run ends when the program ends. Raises a class of gpulens.errors when the file of
    the runs ($GPULENS_EXPERIMENTS_DB, else ~/.gpulens/experiments.db) cannot be written.
    """
    return _experiment(name)
