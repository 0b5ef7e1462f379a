"""Numbers as people read them: a unit that fits, and never a ratio without its interval."""

from __future__ import annotations

from kernelevolve.judge.verdict import Speedup

MISSING = "–"


def seconds_text(seconds: float | None) -> str:
    """A short time: ``850 ns``, ``12.3 µs``, ``4.56 ms``, ``1.20 s``."""
    if seconds is None:
        return MISSING
    for factor, unit in ((1e9, "ns"), (1e6, "µs"), (1e3, "ms")):
        # The bound is in shown digits, so that 999.96 µs becomes 1.00 ms and not 1000 µs.
        if seconds * factor < 999.5:
            return f"{_three_digits(seconds * factor)} {unit}"
    return f"{_three_digits(seconds)} s"


def duration_text(seconds: float) -> str:
    """A stretch of wall time: ``8 s``, ``2 min 05 s``, ``1 h 30 min``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


def ratio_text(ratio: float) -> str:
    """A speed-up without an interval, for tooltips and axes: ``1.52×``."""
    return f"{_three_digits(ratio)}×"


def speedup_text(speedup: Speedup) -> str:
    """A speed-up with its interval: ``1.52× [1.48, 1.57]``."""
    low, high = _three_digits(speedup.low), _three_digits(speedup.high)
    return f"{ratio_text(speedup.value)} [{low}, {high}]"


def share_text(fraction: float | None) -> str:
    """A fraction as per cent: ``79 %``."""
    if fraction is None:
        return MISSING
    return f"{100 * fraction:.0f} %" if fraction >= 0.0995 else f"{100 * fraction:.1f} %"


def amount_text(amount: float, unit: str) -> str:
    """An amount with a decimal prefix: ``16.8 MB``, ``2.10 Gflop``."""
    for factor, prefix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if amount >= 0.9995 * factor:
            return f"{_three_digits(amount / factor)} {prefix}{unit}"
    return f"{amount:.0f} {unit}"


def _three_digits(number: float) -> str:
    """At least three significant digits below 1000, whole numbers above; no exponent for what occurs here."""
    if number >= 99.95:
        return f"{number:.0f}"
    if number >= 9.995:
        return f"{number:.1f}"
    return f"{number:.2f}" if number >= 0.0995 else f"{number:.3g}"
