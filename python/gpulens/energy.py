"""Joules of a stretch of a program's time, or of one request's share of it.

    monitor = EnergyMonitor(share="tokens")        # the GPUs this process may use; one thread for all monitors
    with monitor.window() as epoch:                # all that the devices draw; windows nest and overlap freely
        with monitor.request() as request:         # a share: requests at one time add up to what was drawn
            request.mark("decode")
            request.add_tokens(128)
    print(request.result, request.phase("decode").energy_joules)

Results carry method, uncertainty and validity; what is not known is NaN, and the reason says why.
"""
from ._core import EnergyDevice, EnergyMonitor, EnergyReading, EnergyResult, EnergyTicks, EnergyWindow

__all__ = ["EnergyDevice", "EnergyMonitor", "EnergyReading", "EnergyResult", "EnergyTicks", "EnergyWindow"]
