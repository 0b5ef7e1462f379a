"""Run one example's Triton kernel in Triton's interpreter and print its largest error. A process of its own, because
Triton decides at import whether it interprets."""

from __future__ import annotations

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(Path(__file__).parent))

import torch
from schedules import EXAMPLES

from kernelevolve.candidates.structure import read_space
from kernelevolve.operators.synthesis.emit.triton import EMITTER
from kernelevolve.operators.synthesis.plan import Planner


def main(name: str) -> None:
    torch.manual_seed(0)
    example = EXAMPLES[name]()
    emitted = EMITTER.emit(example.schedule, Planner({"float32-product:": "ieee"}), {})
    tunables = ", ".join(f"{key!r}: {text}" for key, text in emitted.tunables.items())
    space = read_space(f"TUNABLES = TunableSpace({{{tunables}}}, {emitted.constraints!r}, {emitted.seeds!r})")
    imports = ["import torch", *emitted.imports]
    source = "\n".join([*imports, f"CONFIG = {space.default!r}", emitted.module_text])
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "generated.py"
        path.write_text(source)
        spec = importlib.util.spec_from_file_location("generated", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        names = {**vars(module), **example.tensors}
        for kernel in example.schedule.kernels:
            exec("\n".join(emitted.launches[kernel.name]), names)
    for key, expected in example.expected.items():
        difference = (example.tensors[key].double() - expected.double()).abs().max().item()
        print(f"{difference / max(1.0, expected.double().abs().max().item()):.3e}")


if __name__ == "__main__":
    main(sys.argv[1])
