"""Reader of what ``ncu --import … --csv`` prints: the pages ``details`` (metrics, rules) and ``raw`` (all metrics)."""

from __future__ import annotations

import csv
import math
import re
from dataclasses import dataclass, field

_SHARES = {
    ("GPU Speed Of Light Throughput", "Compute (SM) Throughput"): "sm_throughput",
    ("GPU Speed Of Light Throughput", "Memory Throughput"): "memory_throughput",
    ("GPU Speed Of Light Throughput", "DRAM Throughput"): "dram_throughput",
    ("Occupancy", "Theoretical Occupancy"): "theoretical_occupancy",
    ("Occupancy", "Achieved Occupancy"): "achieved_occupancy",
}
"""(section, metric) in per cent -> our name of it."""
_DURATION = ("GPU Speed Of Light Throughput", "Duration")
_SECONDS = {
    "s": 1.0, "second": 1.0, "ms": 1e-3, "msecond": 1e-3, "us": 1e-6, "usecond": 1e-6, "ns": 1e-9, "nsecond": 1e-9,
}  # fmt: skip
_BYTES = {"byte": 1.0, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "B": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}
_LIMIT = "Block Limit "
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
_LATENCY = "smsp__average_warp_latency_per_inst_issued.ratio"
_TRAFFIC = ("dram__bytes_read.sum", "dram__bytes_write.sum")
_NOT_A_STALL = frozenset({"selected"})
_RULE_LIMIT = 400


@dataclass(slots=True)
class Rule:
    """A finding of the tool's own."""

    name: str
    text: str
    speedup: float
    """Its estimate of what there is to gain, in per cent; 0 if it gives none."""


@dataclass(slots=True)
class Kernel:
    """One launch."""

    name: str
    seconds: float = 0.0
    shares: dict[str, float] = field(default_factory=dict)
    """From 0 to 1, by our names."""
    limits: dict[str, float] = field(default_factory=dict)
    """Resource -> blocks per multiprocessor that it allows."""
    registers: float = 0.0
    dram_bytes: float = 0.0
    stalls: dict[str, float] = field(default_factory=dict)
    """Reason -> cycles per instruction that a warp waits for it."""
    latency: float = 0.0
    """Cycles between two instructions of a warp, in all."""
    rules: list[Rule] = field(default_factory=list)


def parse_ncu(details: str, raw: str) -> list[Kernel]:
    """The launches in their order. Metrics that are missing or unknown are left out."""
    kernels: dict[str, Kernel] = {}
    for row in _rows(details):
        kernel = kernels.setdefault(row["ID"], Kernel(short_name(row.get("Kernel Name", ""))))
        if row.get("Rule Name"):
            _read_rule(kernel, row)
        else:
            _read_metric(kernel, row)
    for row, units in _raw_rows(raw):
        if row.get("ID", "") in kernels:
            _read_raw(kernels[row["ID"]], row, units)
    return list(kernels.values())


def short_name(name: str) -> str:
    """A kernel's name without its arguments and the result type."""
    head = name.partition("(")[0] if not name.startswith("(") else name
    return head.removeprefix("void ").strip()[:200]


def _rows(text: str) -> list[dict[str, str]]:
    return [row for row in _table(text) if row.get("ID")]


def _table(text: str) -> list[dict[str, str]]:
    """The rows below the header, which may stand after other words of the tool. A field may have several lines."""
    lines = text.splitlines(keepends=True)
    start = next((i for i, line in enumerate(lines) if line.startswith('"ID"')), len(lines))
    return list(csv.DictReader(lines[start:]))


def _raw_rows(text: str) -> list[tuple[dict[str, str], dict[str, str]]]:
    """Each launch with the units, which are the row below the header and have no ID."""
    table = _table(text)
    units = table[0] if table and not table[0].get("ID") else {}
    return [(row, units) for row in table if row.get("ID")]


def _read_metric(kernel: Kernel, row: dict[str, str]) -> None:
    section, metric = row.get("Section Name", ""), row.get("Metric Name", "")
    value = _number(row.get("Metric Value", ""))
    if value is None:
        return
    if (section, metric) in _SHARES:
        kernel.shares[_SHARES[section, metric]] = min(1.0, value / 100)
    elif (section, metric) == _DURATION:
        kernel.seconds = value * _SECONDS.get(row.get("Metric Unit", ""), 1e-9)
    elif section == "Occupancy" and metric.startswith(_LIMIT):
        kernel.limits[metric.removeprefix(_LIMIT).lower()] = value
    elif metric == "Registers Per Thread":
        kernel.registers = value


def _read_rule(kernel: Kernel, row: dict[str, str]) -> None:
    if row.get("Rule Type", "") in ("OPT", "WRN") and row.get("Rule Description"):
        text = " ".join(row["Rule Description"].split())[:_RULE_LIMIT]
        kernel.rules.append(Rule(row["Rule Name"], text, _number(row.get("Estimated Speedup") or "") or 0.0))


def _read_raw(kernel: Kernel, row: dict[str, str], units: dict[str, str]) -> None:
    for name, text in row.items():
        value = _number(text or "")
        stall = _STALL.fullmatch(name or "")
        if value is None:
            continue
        if stall is not None and stall[1] not in _NOT_A_STALL:
            kernel.stalls[stall[1]] = value
        elif name == _LATENCY:
            kernel.latency = value
        elif name in _TRAFFIC:
            kernel.dram_bytes += value * _BYTES.get(units.get(name, ""), 1.0)


def _number(text: str) -> float | None:
    """A number with or without separators between thousands; None for anything else, infinities included."""
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
