"""A content made as short as its channel needs it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ringonce.core.text import cut
from ringonce.errors import PayloadTooLarge

if TYPE_CHECKING:
    from collections.abc import Callable

    from ringonce.model.notification import Content


def fitted(content: Content, check: Callable[[Content], None]) -> Content:
    """The content with as much of its text as a channel carries. Raises what ``check`` raises, if cutting is no help.

    Args:
        content: what a template made.
        check: raises PayloadTooLarge while it is too long. Provider's own, so that everything that counts (a title in
            the same message, escapes, the other keys of a payload) is counted.
    """
    try:
        check(content)
    except PayloadTooLarge:
        text = content.text or ""
        # The longest that passes, by halving: each step asks the provider itself.
        low, high, best = 1, len(text) - 1, None
        while low <= high:
            middle = (low + high) // 2
            shorter = replace(content, text=cut(text, middle))
            try:
                check(shorter)
            except PayloadTooLarge:
                high = middle - 1
            else:
                low, best = middle + 1, shorter
        if best is None:
            raise
        return best
    return content
