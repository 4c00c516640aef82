"""The five questions of docs/explanation/architecture.md, and their small relatives, as functions over source text.

Each rule takes a module's path inside the package (``core/machine.py``) and its text, and yields findings
(``line: what``). It reads the syntax tree or the tokens, never the running code.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator

PURE = ("model/", "core/", "errors.py", "provider.py", "providers/")

# Whole modules that read a clock, randomness, the environment, files, sockets or threads.
IMPURE_MODULES = frozenset(
    """aiosmtplib asyncpg concurrent.futures fastapi fcntl fileinput getpass glob http.client http.server importlib
    io mmap multiprocessing os pathlib platform psycopg pycurl pysqlite3 random requests secrets select selectors
    shutil signal smtplib socket socketserver sqlite3 ssl subprocess tempfile threading time urllib.request uvicorn
    """.split()
)
# Single names of modules that are otherwise pure.
IMPURE_NAMES = {
    "asyncio": frozenset(
        """create_subprocess_exec create_subprocess_shell open_connection open_unix_connection run sleep start_server
        timeout timeout_at to_thread wait_for""".split()
    ),
    "datetime": frozenset({"now", "today", "utcnow"}),
    "email.utils": frozenset({"localtime", "make_msgid"}),
    "uuid": frozenset({"getnode", "uuid1", "uuid4", "uuid6", "uuid7"}),
}
IMPURE_METHODS = frozenset({"call_at", "call_later", "run_in_executor", "today", "utcnow"})
IMPURE_BUILTINS = frozenset({"input", "open", "print"})
# What the engine may still do: it schedules tasks, on timers that come from the Clock port.
PURE_ROOMS_ALSO = frozenset({"asyncio", "logging"})

DATABASE_MODULES = frozenset(
    {"aiosqlite", "alembic", "asyncpg", "psycopg", "pysqlite3", "sqlalchemy", "sqlite3"}
)
SQL = re.compile(
    r"\bSELECT\b.+\bFROM\b|\bINSERT\s+INTO\b|\bUPDATE\s+\w+\s+SET\b|\bDELETE\s+FROM\b|\bPRAGMA\s+\w"
    r"|\b(?:CREATE|ALTER|DROP)\s+(?:TABLE|INDEX|UNIQUE|DATABASE)\b|\bBEGIN\s+IMMEDIATE\b"
    r"|(?i:\A\s*(?:insert\s+into\s+\w+\s*\(|delete\s+from\s+\w+\s+where\b|select\s+.+\s+from\s+\w+\s+where\b))",
    re.DOTALL,
)

# The companies and products among the providers, each with the files that may name it. Protocols and plain words
# (smtp, smpp, webhook, webpush, inapp, sandbox, max, teams) are no vendors' names. One vendor's protocol may carry
# another one's fields, and behind one protocol several vendors may answer.
VENDORS = {
    "apns": "apns fcm",
    "apprise": "apprise",
    "discord": "discord",
    "fcm": "fcm webpush",
    "firebase": "fcm",
    "slack": "slack",
    "telegram": "telegram",
    "twilio": "twilio",
    "viber": "viber",
    "vonage": "vonage",
    "whatsapp": "whatsapp",
    "wildberries": "wildberries",
}
# Long names anywhere in a word (TelegramError), short ones as a word of their own (slackening is no vendor).
SHORT = ("apns", "fcm", "slack")
VENDOR = re.compile(
    rf"({'|'.join(set(VENDORS) - set(SHORT))})|(?<![a-z])({'|'.join(SHORT)})(?![a-z])", re.IGNORECASE
)
VENDOR_ROOMS = ("vendors/",)

STATUSES = frozenset(
    {"draft", "pending", "failed", "in_doubt", "sent", "suppressed", "merged", "cancelled", "expired"}
)
SETTERS = frozenset({"replace", "_replace", "values", "evolve"})
SQL_SETS_STATUS = re.compile(r"\bSET\b(?:(?!\bWHERE\b).)*?\bstatus\s*=\s*'", re.DOTALL | re.IGNORECASE)

UNFINISHED = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b")


def is_pure(path: str) -> bool:
    """Tell whether a module lies in one of the rooms that compute only."""
    return path.startswith(PURE)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Walk everything that exists at run time: without the bodies of ``if TYPE_CHECKING``."""
    yield node
    for child in ast.iter_child_nodes(node):
        if _is_type_checking(child):
            assert isinstance(child, ast.If)
            for other in child.orelse:
                yield from _walk(other)
        else:
            yield from _walk(child)


def _imports(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Yield line, module and imported name ('' for a whole module)."""
    for node in _walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, ""
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                yield node.lineno, node.module, alias.name


def _matches(module: str, name: str, wanted: frozenset[str]) -> bool:
    full = f"{module}.{name}" if name else module
    return any(candidate in wanted for candidate in (module, module.split(".", maxsplit=1)[0], full))


def _docstrings(tree: ast.AST) -> set[int]:
    """Collect the identities of the nodes that are docstrings."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                found.add(id(first.value))
    return found


def _strings(tree: ast.AST) -> Iterator[tuple[int, str]]:
    docstrings = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def awaits(path: str, source: str) -> Iterator[str]:
    """Question 1: pure rooms neither define nor await coroutines."""
    if not is_pure(path):
        return
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith):
            yield f"{node.lineno}: {type(node).__name__}"
        elif isinstance(node, ast.comprehension) and node.is_async:
            yield f"{node.target.lineno}: async comprehension"


def reaches_out(path: str, source: str) -> Iterator[str]:
    """Question 2: pure rooms and the engine read no clock, randomness, environment, file, socket or thread."""
    pure = is_pure(path)
    if not pure and not path.startswith("engine/"):
        return
    tree = ast.parse(source)
    forbidden = IMPURE_MODULES | PURE_ROOMS_ALSO if pure else IMPURE_MODULES
    for line, module, name in _imports(tree):
        if _matches(module, name, forbidden) or name in IMPURE_NAMES.get(module, ()):
            yield f"{line}: imports {module}{f'.{name}' if name else ''}"
    for node in _walk(tree):
        if isinstance(node, ast.Name) and node.id in IMPURE_BUILTINS and isinstance(node.ctx, ast.Load):
            yield f"{node.lineno}: {node.id}"
        elif isinstance(node, ast.Attribute):
            owner = ast.unparse(node.value)
            known = {"datetime.datetime": "datetime", "date": "datetime", "datetime.date": "datetime"}
            if node.attr in IMPURE_NAMES.get(known.get(owner, owner), ()) or node.attr in IMPURE_METHODS:
                yield f"{node.lineno}: {owner}.{node.attr}"
        elif isinstance(node, ast.Call) and ast.unparse(node).endswith("formatdate()"):
            yield f"{node.lineno}: formatdate() reads the clock"


def speaks_sql(path: str, source: str) -> Iterator[str]:
    """Question 3: SQL, and what speaks to databases, is found in the store only."""
    if path.startswith("store/"):
        return
    tree = ast.parse(source)
    for line, module, name in _imports(tree):
        if _matches(module, name, DATABASE_MODULES):
            yield f"{line}: imports {module}"
    for line, text in _strings(tree):
        if SQL.search(text):
            yield f"{line}: {text.strip()[:60]!r}"


def names_vendor(path: str, source: str) -> Iterator[str]:
    """Question 4: a vendor is named in its provider file and among the stand-ins only, comments included."""
    if path.startswith(VENDOR_ROOMS):
        return
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        for found in VENDOR.finditer(token.string) if token.type != tokenize.NEWLINE else ():
            if path not in {f"providers/{name}.py" for name in VENDORS[found[0].lower()].split()}:
                line = token.start[0] + token.string[: found.start()].count("\n")
                yield f"{line}: {found[0]}"


def _is_status(node: ast.AST | None, *, strings: bool) -> bool:
    if isinstance(node, ast.Attribute):
        return ast.unparse(node.value).split(".")[-1] == "Status"
    return strings and isinstance(node, ast.Constant) and node.value in STATUSES


def _is_status_target(node: ast.AST) -> bool:
    return (isinstance(node, ast.Attribute) and node.attr == "status") or (
        isinstance(node, ast.Subscript)
        and isinstance(node.slice, ast.Constant)
        and node.slice.value == "status"
    )


def assigns_status(path: str, source: str) -> Iterator[str]:
    """Question 5: a notification's status is chosen in core/machine.py only.

    Reading a stored status back, comparing and filtering are no choices. A literal status given to a field, to a
    constructor, to ``replace`` or ``values``, or in a statement's SET clause, is one.
    """
    if path == "core/machine.py":
        return
    strings = not path.startswith(("providers/", "vendors/"))  # there "status" is the vendor's word
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Assign):
            if any(map(_is_status_target, node.targets)) and _is_status(node.value, strings=strings):
                yield f"{node.lineno}: {ast.unparse(node)[:60]}"
        elif isinstance(node, ast.AnnAssign):
            named = isinstance(node.target, ast.Name) and node.target.id == "status"
            if (named or _is_status_target(node.target)) and _is_status(node.value, strings=strings):
                yield f"{node.lineno}: {ast.unparse(node)[:60]}"
        elif isinstance(node, ast.Call):
            name = ast.unparse(node.func).split(".")[-1]
            builds = name in SETTERS or (
                name[:1].isupper() and not name.endswith(("Filter", "Query", "Search"))
            )
            positional = any(_is_status(argument, strings=False) for argument in node.args)
            keyword = any(k.arg == "status" and _is_status(k.value, strings=strings) for k in node.keywords)
            if builds and (positional or keyword):
                yield f"{node.lineno}: {ast.unparse(node)[:60]}"
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and SQL_SETS_STATUS.search(node.value)
        ):
            yield f"{node.lineno}: {node.value.strip()[:60]!r}"


def unfinished(path: str, source: str) -> Iterator[str]:
    """Nothing is left for later: no marker, no NotImplementedError, no empty function outside a Protocol."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT and UNFINISHED.search(token.string):
            yield f"{token.start[0]}: {token.string}"
    tree = ast.parse(source)
    interfaces = {
        id(method)
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases)
        for method in node.body
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Raise)
            and node.exc is not None
            and "NotImplementedError" in ast.unparse(node.exc)
        ):
            yield f"{node.lineno}: raises NotImplementedError"
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and id(node) not in interfaces:
            overload = any("overload" in ast.unparse(decorator) for decorator in node.decorator_list)
            last = node.body[-1]
            dots = (
                isinstance(last, ast.Expr)
                and isinstance(last.value, ast.Constant)
                and last.value.value is ...
            )
            if dots and not overload:
                yield f"{node.lineno}: {node.name} has no body"


def imports_root(path: str, source: str) -> Iterator[str]:
    """Inside the package nobody imports the public names: they are the composition root's."""
    if path == "__init__.py":
        return
    for line, module, name in _imports(ast.parse(source)):
        if module == "ringonce" and (not name or name[:1].isupper()):
            yield f"{line}: imports ringonce{f'.{name}' if name else ''}"


def beyond_standard_library(path: str, source: str) -> Iterator[str]:
    """The nouns need the standard library only, but for what makes them (decision 0009)."""
    if not path.startswith(("model/", "errors.py")):
        return
    for line, module, _ in _imports(ast.parse(source)):
        top = module.split(".")[0]
        allowed = top in {"ringonce", *sys.stdlib_module_names} or (path, top) == (
            "model/quick.py",
            "msgspec",
        )
        if not allowed:
            yield f"{line}: imports {module}"
