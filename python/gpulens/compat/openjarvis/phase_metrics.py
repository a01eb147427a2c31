"""Energy of the phases of an inference."""
from typing import Dict, Tuple, Union

from .session import TelemetrySession

__all__ = ["compute_phase_metrics", "split_at_ttft"]


def compute_phase_metrics(session: TelemetrySession, start_ns: int, end_ns: int, tokens: int) -> Dict[str, Union[float, int]]:
    """Returns energy and power between two times, of the GPU unless the name contains cpu.

    The keys are energy_j, cpu_energy_j, mean_power_w, cpu_mean_power_w, duration_s, energy_per_token_j
    (0.0 without tokens) and tokens.
    """
    seconds = (end_ns - start_ns) / 1e9
    energy, cpu_energy = session.energy_delta(start_ns, end_ns)
    power, cpu_power = session.avg_power(start_ns, end_ns)
    if seconds > 0:  # a span between two readings has none of its own
        power = power or energy / seconds
        cpu_power = cpu_power or cpu_energy / seconds
    return {
        "energy_j": energy,
        "cpu_energy_j": cpu_energy,
        "mean_power_w": power,
        "cpu_mean_power_w": cpu_power,
        "duration_s": seconds,
        "energy_per_token_j": energy / tokens if tokens > 0 else 0.0,
        "tokens": tokens,
    }


def split_at_ttft(
    session: TelemetrySession, start_ns: int, ttft_ns: int, end_ns: int, input_tokens: int, output_tokens: int
) -> Tuple[Dict[str, Union[float, int]], Dict[str, Union[float, int]]]:
    """Returns the metrics of the phases before and after the first token: prefill with the input's tokens,
    decode with the output's.

    A first token outside the span is moved to the nearer edge, so no phase is negative and both add up to
    the whole.
    """
    first_ns = min(max(ttft_ns, start_ns), end_ns)
    prefill = compute_phase_metrics(session, start_ns, first_ns, input_tokens)
    return prefill, compute_phase_metrics(session, first_ns, end_ns, output_tokens)
