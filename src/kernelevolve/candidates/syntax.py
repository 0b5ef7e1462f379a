"""Syntax trees, made by one thread at a time.

CPython before 3.11.8 and 3.12.2 counts the depth of its parser's recursion once for all threads, so that two of them in
``ast.parse`` may both get a SystemError (python/cpython#106905). A search reads candidates in several threads.
"""

from __future__ import annotations

import ast
import threading

_parsing = threading.Lock()


def module_tree(source: str) -> ast.Module:
    """What ``ast.parse`` gives and raises."""
    with _parsing:
        return ast.parse(source)


def expression_tree(text: str) -> ast.Expression:
    """The same for one expression."""
    with _parsing:
        return ast.parse(text, mode="eval")
