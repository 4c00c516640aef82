"""Write the generated pages of the documentation, check all pages, build the site.

``python -m tools.docs`` writes the generated pages; ``--check`` writes none and fails when one differs from what
would be written, or when a link or an anchor leads nowhere; ``--build`` also builds ``site/``, where a warning is an
error.

A generator is a function without arguments that returns a page. Add it to ``GENERATORS``; a page that is
partly written by hand keeps the generated part between ``<!-- generated: NAME -->`` and ``<!-- end -->``.
"""

import argparse
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from ringonce.core import diagram
from tools import benchmarks_page, examples, providers_page, reference, signals

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
CODE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Generator:
    """One generated part: its name, the page that holds it (from the repository's root), what writes it."""

    name: str
    path: str
    function: Callable[[], str]


TRANSACTIONS = (
    "EVENT",
    "sqlalchemy_session",
    "sqlalchemy_async",
    "django_atomic",
    "psycopg_block",
    "psycopg_async",
    "asyncpg_block",
    "sqlite3_with",
)
SHOPS = {
    "django": ("django_shop/ringonce.toml", "django_shop/shop/settings.py", "django_shop/shop/views.py"),
    "fastapi": ("fastapi_app/ringonce.toml", "fastapi_app/app.py"),
    "flask": ("flask_app/ringonce.toml", "flask_app/app.py"),
}

GENERATORS: list[Generator] = [
    Generator("command-line", "docs/reference/command-line.md", reference.command_line),
    Generator("configuration", "docs/reference/configuration.md", reference.configuration),
    Generator("http", "docs/reference/http.md", reference.http),
    Generator("events", "docs/reference/events.md", signals.events),
    Generator("metrics", "docs/reference/metrics.md", signals.metrics),
    Generator("errors", "docs/reference/errors.md", reference.error_codes),
    Generator("providers", "docs/reference/providers.md", providers_page.page),
    Generator("benchmarks", "docs/reference/benchmarks.md", benchmarks_page.page),
    Generator("transitions", "docs/reference/transitions.md", diagram.page),
    *(
        Generator(name, "docs/how-to/transactions.md", examples.definition("transactions.py", name))
        for name in TRANSACTIONS
    ),
    *(
        Generator(path, f"docs/how-to/{page}.md", examples.whole(path))
        for page, paths in SHOPS.items()
        for path in paths
    ),
]


def _merged(generator: Generator, old: str) -> str:
    """Put the generated text into the page: between its marks where it has them, else as the whole page."""
    new = generator.function().rstrip() + "\n"
    start, end = f"<!-- generated: {generator.name} -->\n", "<!-- end -->"
    if start not in old:
        return new
    before, rest = old.split(start, 1)
    if end not in rest:
        raise ValueError(f"{generator.path}: the part {generator.name} has no {end}")
    return before + start + new + end + rest.split(end, 1)[1]


def generate(*, check: bool, generators: list[Generator] | None = None, root: Path = ROOT) -> Iterator[str]:
    """Write the generated pages, or (``check``) name those that differ."""
    for generator in GENERATORS if generators is None else generators:
        path = root / generator.path
        old = path.read_text() if path.exists() else ""
        new = _merged(generator, old)
        if new == old:
            continue
        if check:
            yield f"{generator.path}: {generator.name} is not up to date; run `make docs`"
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(new)


def _slug(heading: str) -> str:
    text = re.sub(r"[`*]|\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[\s]+", "-", re.sub(r"[^\w\s-]", "", text))


def _anchors(page: Path) -> set[str]:
    text = CODE.sub("", page.read_text())
    return {_slug(heading) for heading in HEADING.findall(text)} | set(re.findall(r'id="([^"]+)"', text))


def pages(root: Path = ROOT) -> list[Path]:
    """List all pages: the documentation and the files at the root."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def broken_links(root: Path = ROOT) -> Iterator[str]:
    """Name the links between pages that lead nowhere; addresses of other hosts are not asked."""
    for page in pages(root):
        text = CODE.sub(lambda block: "\n" * block[0].count("\n"), page.read_text())
        for found in LINK.finditer(text):
            target = unquote(found[1] or found[2])
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            path, _, anchor = target.partition("#")
            file = (page.parent / path).resolve() if path else page
            line = text.count("\n", 0, found.start()) + 1
            where = f"{page.relative_to(root)}:{line}: {target}"
            if not file.exists():
                yield f"{where} does not exist"
            elif page.is_relative_to(root / "docs") and not file.is_relative_to(root / "docs"):
                yield f"{where} is not part of the site"
            elif anchor and file.suffix == ".md" and anchor not in _anchors(file):
                yield f"{where} has no such heading"


def unreachable_pages(root: Path = ROOT) -> Iterator[str]:
    """Name the pages of the documentation that no other page links to."""
    linked = {root / "docs" / "index.md"}
    for page in pages(root):
        for found in LINK.finditer(CODE.sub("", page.read_text())):
            linked.add((page.parent / unquote(found[1] or found[2]).split("#", 1)[0]).resolve())
    for page in sorted((root / "docs").rglob("*.md")):
        if page not in linked:
            yield f"{page.relative_to(root)} is linked from nowhere"


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 when all is well."""
    parser = argparse.ArgumentParser(description="Write, check and build the documentation.")
    parser.add_argument("--check", action="store_true", help="change nothing, fail on differences")
    parser.add_argument("--build", action="store_true", help="also build the site")
    options = parser.parse_args(arguments)
    problems = [*generate(check=options.check), *broken_links(), *unreachable_pages()]
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        return 1
    if options.build:
        zensical = Path(sys.executable).with_name("zensical")
        command = [zensical, "build", "--clean", "--strict"]
        if code := subprocess.run(command, cwd=ROOT, check=False).returncode:
            return code
    print(f"{len(pages())} pages, {len(GENERATORS)} generated parts: fine")
    return 0


if __name__ == "__main__":
    sys.exit(main())
