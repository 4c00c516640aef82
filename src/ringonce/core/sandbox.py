"""The template language: a small, closed part of Jinja2 that can neither reach out nor grow without bound.

What a template may hold is an allow-list of syntax nodes, filters and tests, looked at once when it is compiled.
There are no calls, so no method of a text (``ljust``, ``format``) can be reached; no ``**``, no macros, no
inclusion of other files. What is left and multiplies (loops, joining, replacing, comparing) pays for each piece of
work out of a fixed purse, and for each character out of another: a template ends after a bounded number of steps,
and no clock is needed for that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from jinja2 import StrictUndefined, Template, TemplateSyntaxError, nodes
from jinja2.exceptions import UndefinedError
from jinja2.runtime import Context, LoopContext, Undefined
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.utils import pass_context
from markupsafe import Markup, escape

from ringonce.core.filters import FILTERS, MOMENTS, TESTS
from ringonce.core.locales import Misuse
from ringonce.core.purse import Purse, Scene, scalar, size_of

if TYPE_CHECKING:
    from types import TracebackType

    from ringonce.core.locales import Writing

MAX_SOURCE: Final = 262_144
RECIPIENT: Final = "recipient"
DATA: Final = "data"
RESERVED: Final = (RECIPIENT, DATA)
_LARGEST_RESULT: Final = 10**18
_LOOP: Final = frozenset(
    {"index", "index0", "revindex", "revindex0", "first", "last", "length", "previtem", "nextitem"}
)

_ALLOWED: Final = frozenset({
    *("Template", "Output", "TemplateData", "Name", "Const", "If", "For", "CondExpr", "Filter", "Test", "Getattr"),
    *("Getitem", "Slice", "Compare", "Operand", "And", "Or", "Not", "Add", "Sub", "Mul", "Div", "FloorDiv", "Mod"),
    *("Neg", "Pos", "Concat", "Assign", "List", "Tuple", "Keyword"),
})  # fmt: skip
_WHY: Final = {
    "Call": ("calls are not available in templates", "use a filter, e.g. {{ total | number }}"),
    "Pow": ("** is not available in templates", "send the result with the event's data"),
    "Include": ("a template can not include another one", "write the text into this file"),
    "Extends": ("a template can not extend another one", "write the text into this file"),
    "Dict": ("mappings can not be written in templates", "send it with the event's data"),
}


class Broken(Exception):  # noqa: N818 - becomes a TemplateError, which knows the file
    """A template that can not be used, or not with these data. ``line`` counts within the part.

    ``missing``: the top-level variable that was not there.
    """

    def __init__(self, message: str, mend: str = "", *, line: int = 1, missing: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.mend = mend
        self.line = line
        self.missing = missing


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled part. ``personal``: it shows the recipient; ``local``: it shows moments in their zone."""

    template: Template
    personal: bool
    local: bool
    plurals: tuple[tuple[int, frozenset[str]], ...] = ()
    """Each use of ``plural``: its line, and the forms that it gives."""

    def run(
        self, data: Mapping[str, object], recipient: Mapping[str, object], writing: Writing, *, isolate: bool
    ) -> str:
        """The text. Raises Broken.

        Args:
            data: the event's; each key is a variable, and all of them are ``data``.
            recipient: what ``recipient`` is.
            writing: how numbers and moments are written.
            isolate: inserted texts of the other direction get Unicode's isolates around them.
        """
        context = self.template.new_context({**data, DATA: data, RECIPIENT: recipient})
        assert isinstance(context, _Stage)
        context.scene = Scene(
            writing, Purse(), html=self.template.environment.autoescape is True, isolate=isolate
        )
        try:
            return "".join(self.template.root_render_func(context))
        except Exception as error:  # noqa: BLE001 - whatever a template raises is the template's fault
            raise _blamed(error, self.template) from None


def compile_part(source: str, *, html: bool) -> Program:
    """Compile one part. ``html``: inserted values are escaped. Raises Broken."""
    if len(source) > MAX_SOURCE:
        raise Broken(f"it has {len(source)} characters, and {MAX_SOURCE} are allowed", "shorten it")
    environment = _HTML if html else _TEXT
    try:
        tree = environment.parse(source)
        found = _Inspection(environment).walk(tree)
        template = environment.from_string(tree)
    except TemplateSyntaxError as error:
        raise Broken(
            error.message or "wrong syntax", "see the page on templates", line=error.lineno
        ) from None
    except (RecursionError, SyntaxError, MemoryError, ValueError):
        raise Broken(
            "it is nested too deeply, or holds a number that is too long", "make it simpler"
        ) from None
    return Program(template, found.personal, found.local, tuple(found.plurals))


# --- what is allowed, and what pays ------------------------------------------------------------------------------


@dataclass(slots=True)
class _Inspection:
    """Walks the tree once: refuses what is not on the list, and wraps what could multiply."""

    environment: _Environment
    personal: bool = False
    local: bool = False
    plurals: list[tuple[int, frozenset[str]]] = field(default_factory=list)

    def walk(self, node: nodes.Node) -> _Inspection:
        """Look at a node and all below it."""
        kind = type(node).__name__
        if kind not in _ALLOWED:
            message, mend = _WHY.get(
                kind, (f"{{% {kind.lower()} %}} is not available in templates", "remove it")
            )
            raise Broken(message, mend, line=node.lineno)
        for child in node.iter_child_nodes():
            self.walk(child)
        look = getattr(self, f"_{kind.lower()}", None)
        if look is not None:
            look(node)
        return self

    def _name(self, node: nodes.Name) -> None:
        if node.name.startswith("_"):
            raise Broken("a name can not begin with _", "rename it", line=node.lineno)
        if node.ctx != "load" and node.name in RESERVED:
            raise Broken(f"{node.name} has a meaning of its own", "use another name", line=node.lineno)
        self.personal = self.personal or node.name == RECIPIENT

    def _for(self, node: nodes.For) -> None:
        if node.recursive:
            raise Broken("a loop can not be recursive", "remove the word", line=node.lineno)
        # Static text inside is free of charge where it stands once; a loop pays for it each time.
        node.iter = _paid("steps", node.iter, nodes.Const(sum(map(_static, node.body))))

    def _compare(self, node: nodes.Compare) -> None:
        node.expr = _paid("compared", node.expr, nodes.Const(0))
        for operand in node.ops:
            inside = operand.op in {"in", "notin"}
            operand.expr = _paid("compared", operand.expr, nodes.Const(int(inside)))

    def _getitem(self, node: nodes.Getitem) -> None:
        node.node = _paid("weighed", node.node)

    def _concat(self, node: nodes.Concat) -> None:
        node.nodes = [_paid("joined", *node.nodes)]

    def _filter(self, node: nodes.Filter) -> None:
        if node.name not in FILTERS or node.node is None or node.dyn_args or node.dyn_kwargs:
            known = ", ".join(sorted(FILTERS))
            raise Broken(f"there is no filter {node.name}", f"there are {known}", line=node.lineno)
        self.local = self.local or node.name in MOMENTS
        if node.name == "plural":
            forms = frozenset(str(pair.key) for pair in node.kwargs)
            if "other" not in forms or node.args:
                raise Broken(
                    "plural needs the form other, and every form by its name",
                    '{{ count | plural(one="order", other="orders") }}',
                    line=node.lineno,
                )
            self.plurals.append((node.lineno, forms))

    def _test(self, node: nodes.Test) -> None:
        if node.name not in TESTS:
            raise Broken(
                f"there is no test {node.name}", f"there are {', '.join(sorted(TESTS))}", line=node.lineno
            )


def _static(node: nodes.Node) -> int:
    """Characters of static text below a node; an inner loop pays for its own."""
    if isinstance(node, nodes.TemplateData):
        return len(node.data)
    return 0 if isinstance(node, nodes.For) else sum(map(_static, node.iter_child_nodes()))


def _paid(name: str, *arguments: nodes.Node) -> nodes.Call:
    call = nodes.Call(nodes.EnvironmentAttribute(name), list(arguments), [], None, None)
    call.set_lineno(arguments[0].lineno)
    return call


class _Stage(Context):
    """A rendering under way."""

    scene: Scene


class _Environment(ImmutableSandboxedEnvironment):
    """Values are what JSON knows; a key is found before any attribute, and no attribute of Python ever."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%"})
    context_class = _Stage

    def __init__(self, *, html: bool) -> None:
        super().__init__(
            autoescape=html,
            undefined=StrictUndefined,
            # Folding of constants would compute at compile time, where nothing pays.
            optimized=False,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            finalize=_shown,
            cache_size=0,
        )
        self.globals.clear()
        self.filters.clear()
        self.filters.update({name: _filter(function) for name, function in FILTERS.items()})
        self.tests.clear()
        self.tests.update(TESTS)

    def getattr(self, obj: Any, attribute: str) -> Any:
        """``order.items`` is the key ``items`` of the order, whatever methods a mapping has."""
        if isinstance(obj, LoopContext) and attribute in _LOOP:
            return getattr(obj, attribute)
        return self.getitem(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        """A key of a mapping, an index or a slice of a list or a text."""
        if isinstance(obj, Undefined):
            return obj[argument]
        if isinstance(obj, Mapping):
            if isinstance(argument, str) and argument in obj:
                return obj[argument]
        elif isinstance(obj, (list, tuple, str)) and isinstance(argument, (int, slice)):
            try:
                return obj[argument]
            except IndexError:
                pass
        return self.undefined(obj=obj, name=argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Arithmetic is for numbers; ``+`` also puts two texts or two lists together."""
        scene = _scene(context)
        for operand in (left, right):
            if isinstance(operand, Undefined):
                str(operand)
        if operator == "+" and type(left) is type(right) and isinstance(left, (str, list)):
            scene.purse.pay(size_of(left) + size_of(right))
            return left + right
        for operand in (left, right):
            if isinstance(operand, bool) or not isinstance(operand, (int, float)):
                raise Misuse(f"{operator} is for numbers", "put texts together with ~")
        result = super().call_binop(context, operator, left, right)
        if abs(result) > _LARGEST_RESULT:
            raise Misuse("the result is too large", "numbers in templates have up to 18 digits")
        return result

    @staticmethod
    @pass_context
    def steps(context: Context, items: Any, inside: int) -> Iterator[Any]:
        """The items of a loop, each paid for."""
        if isinstance(items, Undefined):
            str(items)
        if not isinstance(items, (list, tuple)):
            raise Misuse("a loop goes over a list", "for a mapping: {% for key, value in x | items %}")
        return _scene(context).purse.steps(items, inside)

    @staticmethod
    @pass_context
    def compared(context: Context, value: Any, inside: int) -> Any:
        """An operand of a comparison: a single value, or what is searched."""
        if inside and isinstance(value, (list, tuple, dict)):
            _scene(context).purse.pay(len(value))
            return value
        _scene(context).purse.pay(size_of(value))
        return None if value is None else scalar(value, any_kind=True)

    @staticmethod
    @pass_context
    def weighed(context: Context, value: Any) -> Any:
        """What an index or a slice is taken of: a slice copies."""
        _scene(context).purse.pay(size_of(value))
        return value

    @staticmethod
    @pass_context
    def joined(context: Context, *parts: Any) -> Any:
        """``a ~ b``."""
        scene = _scene(context)
        texts = [scene.text(part) for part in parts]
        scene.purse.spend(sum(map(len, texts)))
        if any(isinstance(text, Markup) for text in texts):
            return Markup("").join(escape(text) for text in texts)
        return "".join(texts)


def _scene(context: Context) -> Scene:
    assert isinstance(context, _Stage)
    return context.scene


def _filter(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter pays for its input and its output."""

    @pass_context
    def paid(context: Context, value: Any, /, *arguments: Any, **named: Any) -> Any:
        scene = _scene(context)
        scene.purse.pay(size_of(value))
        result = function(scene, value, *arguments, **named)
        if isinstance(result, str):
            scene.purse.spend(len(result))
        return result

    return paid


@pass_context
def _shown(context: Context, value: Any) -> str:
    """What ``{{ }}`` puts into the text."""
    scene = _scene(context)
    text = scene.text(value)
    scene.purse.spend(len(text))
    return scene.isolated(text) if scene.isolate else text


_TEXT: Final = _Environment(html=False)
_HTML: Final = _Environment(html=True)


# --- what went wrong, and where ----------------------------------------------------------------------------------


def _blamed(error: Exception, template: Template) -> Broken:
    line = _line(error.__traceback__, template)
    if isinstance(error, Misuse):
        return Broken(error.message, error.mend, line=line)
    if isinstance(error, UndefinedError):
        return Broken(
            _undefined(str(error)),
            'send it, or write {{ x | default("…") }}',
            line=line,
            missing=_name(str(error)),
        )
    if isinstance(error, ZeroDivisionError):
        return Broken("it divides by zero", "ask with {% if %} before", line=line)
    if isinstance(error, TypeError):
        return Broken("a value or an argument is of the wrong kind", "see the page on templates", line=line)
    return Broken(f"it can not be rendered ({type(error).__name__})", "see the page on templates", line=line)


def _undefined(message: str) -> str:
    """``'order' is undefined``, ``'dict object' has no attribute 'total'``, without words of the library."""
    for ours in ("dict object", "list object", "str object", "int object", "float object"):
        message = message.replace(f"'{ours}'", f"the {_PLAIN[ours]}")
    return message.replace("has no attribute", "has no").replace("has no element", "has no item")


_PLAIN: Final = {
    "dict object": "mapping",
    "list object": "list",
    "str object": "text",
    "int object": "number",
    "float object": "number",
}


def _name(message: str) -> str | None:
    """The variable that is not there at all."""
    return message.split("'")[1] if message.endswith("' is undefined") else None


def _line(trace: TracebackType | None, template: Template) -> int:
    line = 1
    while trace is not None:
        if trace.tb_frame.f_globals.get("__jinja_template__") is template:
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line
