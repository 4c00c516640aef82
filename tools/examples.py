"""Parts of pages that show files of ``examples``, which tests run: what is read is what works."""

import ast
from collections.abc import Callable
from pathlib import Path

EXAMPLES = Path(__file__).parents[1] / "examples"
LANGUAGES = {".py": "python", ".toml": "toml"}


def whole(path: str) -> Callable[[], str]:
    """A file, whole."""
    file = EXAMPLES / path

    def show() -> str:
        return f"```{LANGUAGES[file.suffix]}\n{file.read_text().rstrip()}\n```\n"

    return show


def definition(path: str, name: str) -> Callable[[], str]:
    """One function or class of a file, or one assignment to a name."""

    def show() -> str:
        text = (EXAMPLES / path).read_text()
        for node in ast.parse(text).body:
            if isinstance(node, ast.Assign):
                names = {target.id for target in node.targets if isinstance(target, ast.Name)}
            else:
                names = {getattr(node, "name", "")}
            if name in names:
                return f"```python\n{ast.get_source_segment(text, node)}\n```\n"
        raise LookupError(f"examples/{path} defines no {name}")

    return show
