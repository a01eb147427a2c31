"""Starts gpulens's hook of PyTorch in a Python whose PYTHONPATH has this folder: `gpulens run --probes=torch`.

Python imports the first module of this name at its start. Whatever happens here, the program starts as it would without it: the
next module of the same name is run afterwards in this one's place.
"""
import os
import sys


def _start():
    try:
        import gpulens_torch_hook

        gpulens_torch_hook.install()
    except Exception:  # the program starts without the hook
        pass


def _run_next():
    """Runs the sitecustomize that Python would have found without this folder. Its errors are those that Python would have shown."""
    import importlib.machinery
    import importlib.util

    here = os.path.realpath(os.path.dirname(os.path.abspath(__file__)))
    path = [folder for folder in sys.path if os.path.realpath(folder or os.curdir) != here]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = importlib.util.module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


_start()
_run_next()
