"""A budget of the design: what is compared, and what was found."""
import dataclasses
from typing import Callable


@dataclasses.dataclass
class Budget:
    key: str
    section: str
    what: str
    limit: float
    at_most: bool  # else at least
    unit: str
    gate: bool
    ours: Callable  # results of the section to a number; KeyError when something is absent
    detail: Callable = lambda found: ""

    def verdict(self, results):
        """(number or None, words)."""
        found = results.get(self.section)
        if not found:
            return None, "not measured"
        try:
            number = self.ours(found["found"])
        except KeyError as missing:
            name = missing.args[0]
            return None, f"incomplete: {self.section if name in ('timings', 'loads', 'allocations') else name} absent"
        if self.met(number):
            return number, "met"
        if self.limit == 0:
            return number, f"missed by {number:.3g}"
        factor = number / self.limit if self.at_most else self.limit / number
        return number, f"missed by {(factor - 1) * 100:.0f} %"

    def met(self, number):
        return number <= self.limit if self.at_most else number >= self.limit
