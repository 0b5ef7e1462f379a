"""Problems that cannot tell right from wrong, or on which the usual check cannot. Vetting must say so."""

from __future__ import annotations

_HEAD = "import torch\n\n\nclass Model(torch.nn.Module):\n"

PROBLEMS: tuple[tuple[str, tuple[int, ...], str, str], ...] = (
    (
        "zeros_within_tolerance",
        (46,),
        "All values are below the tolerance, so that zeros pass.",
        _HEAD + "    def forward(self, x):\n        return torch.softmax(x, -1)\n\n\n"
        "def get_inputs():\n    return [torch.rand(4, 20000)]\n",
    ),
    (
        "constant_output",
        (47, 100),
        "The result does not depend on the inputs: algebra makes it a constant.",
        _HEAD + "    def forward(self, x):\n        return (x - x).sum(-1)\n\n\n"
        "def get_inputs():\n    return [torch.randn(64, 64)]\n",
    ),
    (
        "mean_of_many",
        (47,),
        "The mean over a million values is nearly the same for all inputs.",
        _HEAD + "    def forward(self, x):\n        return x.mean(-1)\n\n\n"
        "def get_inputs():\n    return [torch.rand(2, 1 << 20)]\n",
    ),
    (
        "no_op_weights",
        (48,),
        "Weights of one and zero make the operator the identity.",
        _HEAD
        + "    def __init__(self):\n        super().__init__()\n        self.w = torch.nn.Parameter(torch.ones(64))\n\n"
        "    def forward(self, x):\n        return x * self.w\n\n\n"
        "def get_inputs():\n    return [torch.randn(32, 64)]\n",
    ),
    (
        "idle_input",
        (49,),
        "One of the inputs does nothing.",
        _HEAD + "    def forward(self, x, y):\n        return torch.sin(x) + 0.0 * y\n\n\n"
        "def get_inputs():\n    return [torch.randn(32, 64), torch.randn(32, 64)]\n",
    ),
    (
        "default_layer_norm",
        (126,),
        "A LayerNorm with default weights on standard normal rows is within 1e-2 of a copy, nearly.",
        _HEAD + "    def __init__(self):\n        super().__init__()\n"
        "        self.norm = torch.nn.LayerNorm((256, 1024))\n\n"
        "    def forward(self, x):\n        return self.norm(x)\n\n\n"
        "def get_inputs():\n    return [torch.randn(8, 256, 1024)]\n",
    ),
    (
        "random_result",
        (57, 79),
        "The reference draws random numbers: no result is the right one.",
        _HEAD + "    def forward(self, x):\n        return x + torch.rand_like(x)\n\n\n"
        "def get_inputs():\n    return [torch.randn(32, 64)]\n",
    ),
)
"""Name, numbers, one sentence, source."""
