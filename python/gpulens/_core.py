"""Replaces the native module, which Python prefers, where there is none that this Python can load: raises an
ImportError with the reason and what to do."""
import os
import sys


def _reason() -> str:
    here = os.path.dirname(os.path.abspath(__file__))
    built = sorted(name for name in os.listdir(here) if name.startswith("_core.") and name.endswith(".so"))
    version = "{}.{}".format(*sys.version_info)
    name = sys.implementation.name
    if name != "cpython" or sys.version_info < (3, 9):
        return f"gpulens runs on CPython 3.9 or newer; this is {name} {version}"
    if built:
        return (
            f"the gpulens in {here} is built for another Python ({', '.join(built)}); this is CPython {version}: install it "
            f"with this Python: {sys.executable} -m pip install --force-reinstall gpulens"
        )
    return (
        f"the native part of gpulens is missing in {here}: install the package (python -m pip install gpulens; from a checkout, "
        "python -m pip install ./python) and do not import it from the folder of its sources"
    )


raise ImportError(_reason(), name=__name__, path=__file__)
