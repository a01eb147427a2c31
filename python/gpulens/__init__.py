"""gpulens: in-process measurement of what LLM inference and training cost on GPUs.

    import gpulens
    requests = gpulens.Counter("app.requests", unit="{request}")
    requests.bind(route="/chat").add(1)

Importing the package starts no thread and opens no library; each part is loaded on first use. Numbers that
were not measured are NaN and other unknown values are None, never 0. Names carry their units. Failures
raise a class of gpulens.errors; recording methods raise TypeError at most.
"""
import sys as _sys

__version__ = "0.1.0"

_EXPORTS = {
    "gpulens.instruments": (
        "Counter UpDownCounter DoubleCounter DoubleUpDownCounter Gauge Histogram Registry Sample process_registry"
        " dropped_records"
    ),
    "gpulens.stats": "Distribution describe inter_token_latency percentile SteadyStateDetector",
    "gpulens.efficiency": "GpuHardwareSpec find_gpu_spec forward_flops mbu mfu training_flops",
    "gpulens.training": "CheckpointTimer DataLoaderTimer GradientTracker TrainingMetrics TrainingMonitor find_straggler",
    "gpulens.energy": "EnergyDevice EnergyMonitor EnergyOfDevice EnergyReading EnergyResult EnergySource EnergyTicks EnergyWindow "
                      "SourceReading carbon_intensity",
    "gpulens.experiments": "Experiment ExperimentEnergy ExperimentHealth experiment",
    "gpulens.inference": (
        "InferenceCall InferenceRecord InferenceStore InferenceSummary InstrumentedEngine StoreHealth instrument"
    ),
    "gpulens.job": "JobCommunicator data_wait job_reason phase",
    "gpulens.runs": "MetricHistory Run RunArtifact RunMetric load_run search_runs",
    "gpulens.ring": "KernelTelemetry RingKernelRuntime TelemetryCollector",
    "gpulens.export": "Exporter asgi_app export_otlp export_to_agent expose share_with_workers to_prometheus wsgi_app",
    "gpulens.errors": (
        "Error UnavailableError PermissionDeniedError InvalidArgumentError DataLossError TimeoutError ExhaustedError"
        " IoError"
    ),
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names.split()}
__all__ = sorted(_MODULE_OF)

TYPE_CHECKING = False  # what type checkers take for typing.TYPE_CHECKING, which would cost an import
if TYPE_CHECKING:
    from . import compat as compat
    from . import efficiency as efficiency
    from . import energy as energy
    from . import errors as errors
    from . import experiments as experiments
    from . import export as export
    from . import inference as inference
    from . import instruments as instruments
    from . import job as job
    from . import ring as ring
    from . import runs as runs
    from . import stats as stats
    from . import training as training
    from .efficiency import GpuHardwareSpec as GpuHardwareSpec
    from .efficiency import find_gpu_spec as find_gpu_spec
    from .efficiency import forward_flops as forward_flops
    from .efficiency import mbu as mbu
    from .efficiency import mfu as mfu
    from .efficiency import training_flops as training_flops
    from .energy import EnergyDevice as EnergyDevice
    from .energy import EnergyMonitor as EnergyMonitor
    from .energy import EnergyOfDevice as EnergyOfDevice
    from .energy import EnergyReading as EnergyReading
    from .energy import EnergyResult as EnergyResult
    from .energy import EnergySource as EnergySource
    from .energy import EnergyTicks as EnergyTicks
    from .energy import EnergyWindow as EnergyWindow
    from .energy import SourceReading as SourceReading
    from .energy import carbon_intensity as carbon_intensity
    from .errors import DataLossError as DataLossError
    from .errors import Error as Error
    from .errors import ExhaustedError as ExhaustedError
    from .errors import InvalidArgumentError as InvalidArgumentError
    from .errors import IoError as IoError
    from .errors import PermissionDeniedError as PermissionDeniedError
    from .errors import TimeoutError as TimeoutError
    from .errors import UnavailableError as UnavailableError
    from .experiments import Experiment as Experiment
    from .experiments import ExperimentEnergy as ExperimentEnergy
    from .experiments import ExperimentHealth as ExperimentHealth
    from .experiments import experiment as experiment
    from .export import Exporter as Exporter
    from .export import asgi_app as asgi_app
    from .export import export_otlp as export_otlp
    from .export import export_to_agent as export_to_agent
    from .export import expose as expose
    from .export import share_with_workers as share_with_workers
    from .export import to_prometheus as to_prometheus
    from .export import wsgi_app as wsgi_app
    from .inference import InferenceCall as InferenceCall
    from .inference import InferenceRecord as InferenceRecord
    from .inference import InferenceStore as InferenceStore
    from .inference import InferenceSummary as InferenceSummary
    from .inference import InstrumentedEngine as InstrumentedEngine
    from .inference import StoreHealth as StoreHealth
    from .inference import instrument as instrument
    from .instruments import Counter as Counter
    from .instruments import DoubleCounter as DoubleCounter
    from .instruments import DoubleUpDownCounter as DoubleUpDownCounter
    from .instruments import Gauge as Gauge
    from .instruments import Histogram as Histogram
    from .instruments import Registry as Registry
    from .instruments import Sample as Sample
    from .instruments import UpDownCounter as UpDownCounter
    from .instruments import dropped_records as dropped_records
    from .instruments import process_registry as process_registry
    from .job import JobCommunicator as JobCommunicator
    from .job import data_wait as data_wait
    from .job import job_reason as job_reason
    from .job import phase as phase
    from .ring import KernelTelemetry as KernelTelemetry
    from .ring import RingKernelRuntime as RingKernelRuntime
    from .ring import TelemetryCollector as TelemetryCollector
    from .runs import MetricHistory as MetricHistory
    from .runs import Run as Run
    from .runs import RunArtifact as RunArtifact
    from .runs import RunMetric as RunMetric
    from .runs import load_run as load_run
    from .runs import search_runs as search_runs
    from .stats import Distribution as Distribution
    from .stats import SteadyStateDetector as SteadyStateDetector
    from .stats import describe as describe
    from .stats import inter_token_latency as inter_token_latency
    from .stats import percentile as percentile
    from .training import CheckpointTimer as CheckpointTimer
    from .training import DataLoaderTimer as DataLoaderTimer
    from .training import GradientTracker as GradientTracker
    from .training import TrainingMetrics as TrainingMetrics
    from .training import TrainingMonitor as TrainingMonitor
    from .training import find_straggler as find_straggler
else:  # a type checker would take any name for one of the package

    def __getattr__(name):
        module = _MODULE_OF.get(name)
        if module is None:
            module = f"gpulens.{name}"
            if module not in _EXPORTS and name != "compat":
                raise AttributeError(f"module 'gpulens' has no attribute '{name}'")
            __import__(module)
            return _sys.modules[module]
        __import__(module)
        value = getattr(_sys.modules[module], name)
        globals()[name] = value  # from now on found without this
        return value


def __dir__():
    return sorted(set(globals()) | set(_MODULE_OF) | {module[len("gpulens.") :] for module in _EXPORTS})
