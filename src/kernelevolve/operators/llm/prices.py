"""Prices: what a model's tokens cost."""

from __future__ import annotations

from dataclasses import dataclass

from kernelevolve.errors import InvalidRequest
from kernelevolve.operators.llm.model_choice import ModelChoice


@dataclass(frozen=True, slots=True)
class Price:
    """Dollars per million tokens."""

    input: float
    output: float

    def dollars(self, input_tokens: int, output_tokens: int) -> float:
        """What so many tokens cost; cached input counts like any other, which is on the safe side."""
        return (self.input * input_tokens + self.output * output_tokens) / 1e6


def parse_price(text: str) -> Price:
    """``INPUT,OUTPUT`` in dollars per million tokens. Raises InvalidRequest."""
    try:
        given = [float(part) for part in text.split(",")]
        if len(given) == 2 and min(given) >= 0:
            return Price(*given)
    except ValueError:
        pass
    raise InvalidRequest(
        f"--price {text!r} is no price", fix="write INPUT,OUTPUT in dollars per million tokens, such as 1.25,10"
    )


def known_price(choice: ModelChoice) -> Price | None:
    """The price that the price list of ``genai-prices`` has; a server of one's own costs nothing; None: not known.

    Prices that rise with the length of a request are taken at a million tokens, so that no estimate is too low.
    """
    if choice.url is not None:
        return Price(0.0, 0.0)
    from genai_prices import Usage, calc_price

    try:
        one = calc_price(Usage(input_tokens=1_000_000), choice.name, provider_id=choice.provider)
        other = calc_price(Usage(input_tokens=0, output_tokens=1_000_000), choice.name, provider_id=choice.provider)
    except LookupError:
        return None
    return Price(float(one.total_price), float(other.total_price))
