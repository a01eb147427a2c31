"""Energy monitors of known numbers, for the tests of gpulens.compat.openjarvis."""
from contextlib import contextmanager

from gpulens.compat import openjarvis as t


class FixedMonitor(t.EnergyMonitor):
    """A board that draws `joules` in each block and `watts` all the time, 80 % busy."""

    def __init__(self, joules=20.0, watts=100.0):
        self.joules, self.watts, self.closed = joules, watts, 0

    @staticmethod
    def available():
        return True

    def vendor(self):
        return t.EnergyVendor.NVIDIA

    def energy_method(self):
        return "hw_counter"

    @contextmanager
    def sample(self):
        sample = t.EnergySample(vendor="nvidia", energy_method="hw_counter")
        try:
            yield sample
        finally:
            sample.energy_joules, sample.mean_power_watts, sample.mean_utilization_pct = self.joules, self.watts, 80.0

    def snapshot(self):
        return t.EnergySample(mean_power_watts=self.watts, mean_utilization_pct=80.0)

    def close(self):
        self.closed += 1
