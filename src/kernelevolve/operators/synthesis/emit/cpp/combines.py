"""Reductions in lanes: how each kind starts, takes one value, and is finished from its lanes."""

from __future__ import annotations

from dataclasses import dataclass

from kernelevolve.operators.synthesis.dtype import FLOATING, DType
from kernelevolve.operators.synthesis.emit.cpp.operations import STORAGE_TYPES, VALUE_TYPES
from kernelevolve.operators.synthesis.emit.cpp.text import Text
from kernelevolve.operators.synthesis.ir import Combine


@dataclass(frozen=True)
class Lanes:
    """One reduction whose partial results lie in arrays of ``width`` elements, one lane each.

    ``name`` is the array; argmax has a second one for positions, moments a second one for squares.
    """

    name: str
    combine: Combine
    dtype: DType
    width: str
    position: str = ""
    """Text of the position within the reduced axes, for argmax and argmin."""

    @property
    def results(self) -> tuple[str, ...]:
        """Names of the arrays that hold results, one for each target."""
        if self.combine in (Combine.ARGMAX, Combine.ARGMIN):
            return (f"{self.name}_where",)
        if self.combine is Combine.MOMENTS:
            return (self.name, f"{self.name}_squares")
        return (self.name,)

    def declare(self, text: Text) -> None:
        """The arrays, filled with the neutral element."""
        kind = STORAGE_TYPES["bool"] if self.dtype == "bool" else VALUE_TYPES[self.dtype]
        text.line(f"alignas(64) {kind} {self.name}[{self.width}];")
        fill = [f"{self.name}[l] = {self.neutral};"]
        if self.combine in (Combine.ARGMAX, Combine.ARGMIN):
            text.line(f"alignas(64) int64_t {self.name}_where[{self.width}];")
            fill.append(f"{self.name}_where[l] = -1;")
        if self.combine is Combine.MOMENTS:
            text.line(f"alignas(64) {kind} {self.name}_squares[{self.width}];")
            text.line(f"alignas(64) {kind} {self.name}_count[{self.width}];")
            fill.append(f"{self.name}_squares[l] = {self.name}_count[l] = 0;")
        with text.block(f"for (int l = 0; l < {self.width}; l++)"):
            for line in fill:
                text.line(line)

    @property
    def neutral(self) -> str:
        """The value that changes nothing."""
        limits = f"std::numeric_limits<{VALUE_TYPES[self.dtype]}>"
        if self.combine in (Combine.MAX, Combine.ARGMAX):
            return "-ke::lib::infinity" if self.dtype in FLOATING else f"{limits}::min()"
        if self.combine in (Combine.MIN, Combine.ARGMIN):
            return "ke::lib::infinity" if self.dtype in FLOATING else f"{limits}::max()"
        return {Combine.PROD: "1", Combine.ALL: "true", Combine.ANY: "false"}.get(self.combine, "0")

    @property
    def loses_digits(self) -> bool:
        """True if a long row of additions to one cell loses digits that a sum of partial sums keeps."""
        return self.combine is Combine.SUM and self.dtype == "float32"

    def open_total(self, text: Text) -> None:
        """An array for sums of partial sums."""
        text.line(f"alignas(64) {VALUE_TYPES[self.dtype]} {self.name}_total[{self.width}] = {{}};")

    def clear(self, text: Text) -> None:
        """Begin a partial sum."""
        text.line(f"for (int l = 0; l < {self.width}; l++) {self.name}[l] = {self.neutral};")

    def add_to_total(self, text: Text) -> None:
        """End a partial sum."""
        text.line(f"for (int l = 0; l < {self.width}; l++) {self.name}_total[l] += {self.name}[l];")

    def close_total(self, text: Text) -> None:
        """The total is the result."""
        text.line(f"for (int l = 0; l < {self.width}; l++) {self.name}[l] = {self.name}_total[l];")

    def take(self, text: Text, value: str, lane: str) -> None:
        """Combine one value into a lane."""
        cell = f"{self.name}[{lane}]"
        if self.combine in (Combine.ARGMAX, Combine.ARGMIN):
            sign = ">" if self.combine is Combine.ARGMAX else "<"
            where = f"{self.name}_where[{lane}]"
            text.line(f"const {VALUE_TYPES[self.dtype]} {self.name}_value = {value};")
            nan = f" || ({self.name}_value != {self.name}_value && {cell} == {cell})" if self.dtype in FLOATING else ""
            text.line(f"const bool {self.name}_better = {where} < 0 || {self.name}_value {sign} {cell}{nan};")
            text.line(f"{cell} = {self.name}_better ? {self.name}_value : {cell};")
            text.line(f"{where} = {self.name}_better ? {self.position} : {where};")
            return
        if self.combine is Combine.MOMENTS:
            # Welford's update, one running mean and sum of squares a lane.
            kind = VALUE_TYPES[self.dtype]
            text.line(f"const {kind} {self.name}_value = {value};")
            text.line(f"{self.name}_count[{lane}] += 1;")
            text.line(f"const {kind} {self.name}_step = {self.name}_value - {cell};")
            text.line(f"{cell} += {self.name}_step / {self.name}_count[{lane}];")
            text.line(f"{self.name}_squares[{lane}] += {self.name}_step * ({self.name}_value - {cell});")
            return
        text.line(
            {
                Combine.SUM: f"{cell} += {value};", Combine.PROD: f"{cell} *= {value};",
                Combine.MAX: f"{cell} = ke::maximum<{VALUE_TYPES[self.dtype]}>({value}, {cell});",
                Combine.MIN: f"{cell} = ke::minimum<{VALUE_TYPES[self.dtype]}>({value}, {cell});",
                Combine.ANY: f"{cell} |= {value};", Combine.ALL: f"{cell} &= {value};",
            }[self.combine]
        )  # fmt: skip

    def finish(self, text: Text) -> tuple[str, ...]:
        """Fold all lanes into the first; returns the texts of the results."""
        name = self.name
        with text.block(f"for (int l = 1; l < {self.width}; l++)"):
            if self.combine in (Combine.ARGMAX, Combine.ARGMIN):
                sign = ">" if self.combine is Combine.ARGMAX else "<"
                nan, equal = f"{name}[0] != {name}[0]", f"{name}[l] == {name}[0]"
                other = f"{name}[l] != {name}[l]"
                first = f"{name}_where[l] < {name}_where[0]"
                text.line(f"const bool tie = {equal} || ({nan} && {other});")
                text.line(f"const bool better = tie ? {first} : {name}[l] {sign} {name}[0] || ({other} && !({nan}));")
                with text.block(f"if ({name}_where[l] >= 0 && ({name}_where[0] < 0 || better))"):
                    text.line(f"{name}[0] = {name}[l];")
                    text.line(f"{name}_where[0] = {name}_where[l];")
            elif self.combine is Combine.MOMENTS:
                kind = VALUE_TYPES[self.dtype]
                # Chan's formula for the moments of two sets together.
                text.line(f"if ({name}_count[l] == 0) continue;")
                text.line(f"const {kind} both = {name}_count[0] + {name}_count[l];")
                text.line(f"const {kind} apart = {name}[l] - {name}[0];")
                text.line(f"const {kind} share = {name}_count[l] / both;")
                text.line(f"{name}_squares[0] += {name}_squares[l] + apart * apart * {name}_count[0] * share;")
                text.line(f"{name}[0] += apart * share;")
                text.line(f"{name}_count[0] = both;")
            else:
                self.take(text, f"{name}[l]", "0")
        return tuple(f"{r}[0]" for r in self.results)
