"""Mutants of a source file: each is one small change of its syntax tree, such as `<` for `<=` or a call left out.

Left out by rule, because no promise hangs on them: docstrings, annotations, texts (what is raised, f-strings,
sentences, what `__repr__` returns), `__all__`, protocols, assertions (`zip(strict=True)` is one), sizes of caches,
twice or half a margin for rounding, and a bit more or less of working precision.
"""

import ast
import copy
import dataclasses
import hashlib
import itertools
import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

SOURCE = Path(__file__).parents[2] / "src" / "reticent"
MODULE = "<module>"  # where mutants of what runs at import stand

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitAnd,
}
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_SWAPPED = {"min": "max", "minimum": "maximum", "ceil": "floor", "any": "all"}
_SWAPPED |= {new: old for old, new in _SWAPPED.items()}
_REMOVED = {"ceil", "floor", "trunc", "rint", "nextafter", "abs", "sqrt", "sorted"}
_CACHES = {"lru_cache", "cache", "cached_property"}
_TYPE_ONLY = {"TypeVar", "cast", "Protocol"}

_MARGIN = 1e-8  # constants below are margins for rounding, and tolerances
_LONGEST = 100  # characters of a change as text

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Mutant:
    """One change of one file.

    Args:
        file: Path below src/reticent.
        function: Qualified name of the outermost function around it, or of the class and `<module>`.
        text: What stands there, an arrow, and what stands there instead; numbered where it occurs more than once.
        number: Of the change, in the order of the file.
        lines: First and last line of what is changed.
        imports: Whether it changes what runs at import.
        compiled: Name of the numba loop that it changes, or empty.
        names: What is defined by the statement at import that it changes.
        digest: Of the function, without its docstring: results are kept while it stays.
    """

    file: str
    function: str
    text: str
    number: int
    lines: tuple[int, int]
    imports: bool
    compiled: str
    names: tuple[str, ...]
    digest: str

    @property
    def key(self) -> str:
        """Identifies it as long as its function stays the same."""
        return f"{self.file} | {self.function} | {self.text}"


@dataclass
class _Site:
    """A place in a tree, and what to put there."""

    parent: ast.AST
    name: str
    index: int | None
    new: ast.AST

    @property
    def old(self) -> ast.AST:
        found = getattr(self.parent, self.name)
        return found if self.index is None else found[self.index]  # type: ignore[no-any-return]

    def put(self, node: ast.AST) -> None:
        if self.index is None:
            setattr(self.parent, self.name, node)
        else:
            getattr(self.parent, self.name)[self.index] = node


class Module:
    """A source file, its mutants, and their code."""

    def __init__(self, file: str, source: str) -> None:
        self.file = file
        self.path = SOURCE / file
        self._tree = ast.parse(source)
        self._sites = [*_walk(self._tree, _Scope())]
        self.digest = digest(self._tree)
        functions = dict(_functions(self._tree, ()))
        self.functions = {name: (node.lineno, node.end_lineno or 0) for name, node in functions.items()}
        self.bodies = {name: set(_lines(node)) for name, node in functions.items()}
        self.digests = {name: digest(node) for name, node in functions.items()}
        self.mutants = [*self._described()]

    def code(self, number: int | None, *, names: Collection[str] | None = None) -> CodeType:
        """Returns the file's code, or that of some of its functions, with one change or none."""
        if number is None:
            return self._compile(names)
        site, _ = self._sites[number]
        old = site.old
        site.put(site.new)
        try:
            return self._compile(names)
        finally:
            site.put(old)

    def loops_with(self, name: str) -> list[str]:
        """Returns a compiled loop and those of this file that it is part of: they are compiled again with it."""
        found = [name]
        for node in self._tree.body:
            if isinstance(node, Function) and _is_compiled(node):
                used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
                if node.name != name and used.intersection(found):
                    found.append(node.name)
        return found

    def _shown(self, site: _Site) -> str:
        """A change as text; that of a constant with what is around it."""
        old = site.old
        if isinstance(old, ast.Constant) and len(before := _text(site.parent)) <= _LONGEST:
            site.put(site.new)
            after = _text(site.parent)
            site.put(old)
            return f"{before} -> {after}"
        return f"{_short(_text(old))} -> {_short(_text(site.new))}"

    def _compile(self, names: Collection[str] | None) -> CodeType:
        tree = self._tree
        if names is not None:
            tree = ast.Module([node for node in tree.body if isinstance(node, Function) and node.name in names], [])
        return compile(ast.fix_missing_locations(tree), str(self.path), "exec", dont_inherit=True)

    def _described(self) -> Iterator[Mutant]:
        seen: Counter[tuple[str, str]] = Counter()
        for number, (site, scope) in enumerate(self._sites):
            old = site.old
            place: Any = old.pattern if isinstance(old, ast.match_case) else old
            text = self._shown(site)
            seen[scope.name, text] += 1
            times = seen[scope.name, text]
            yield Mutant(
                file=self.file,
                function=scope.name,
                text=text if times == 1 else f"{text} #{times}",
                number=number,
                lines=(place.lineno, place.end_lineno),
                imports=scope.imports,
                compiled=scope.compiled,
                names=scope.names,
                digest=scope.digest,
            )


def modules(folders: tuple[str, ...]) -> dict[str, Module]:
    """Returns the files below folders of src/reticent, by path."""
    paths = sorted(path for folder in folders for path in (SOURCE / folder).rglob("*.py"))
    return {
        (file := path.relative_to(SOURCE).as_posix()): Module(file, path.read_text(encoding="utf-8")) for path in paths
    }


def _functions(node: ast.Module | ast.ClassDef, path: tuple[str, ...]) -> Iterator[tuple[str, Function]]:
    """The outermost functions below a node, by qualified name."""
    for child in node.body:
        if isinstance(child, Function):
            yield ".".join((*path, child.name)), child
        elif isinstance(child, ast.ClassDef):
            yield from _functions(child, (*path, child.name))


def _lines(function: Function) -> Iterator[int]:
    """Lines that run when a function is called, not when it is defined."""
    for statement in function.body:
        yield from range(statement.lineno, (statement.end_lineno or 0) + 1)


def digest(node: ast.AST) -> str:
    """Returns a digest of a tree without docstrings and places: comments and layout do not count."""
    bare = copy.deepcopy(node)
    for part in ast.walk(bare):
        if _has_docstring(part):
            part.body = part.body[1:] or [ast.Pass()]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(bare).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class _Scope:
    """Where a node stands."""

    path: tuple[str, ...] = ()
    in_function: bool = False
    imports: bool = True
    compiled: str = ""
    names: tuple[str, ...] = ()
    digest: str = ""

    @property
    def name(self) -> str:
        return ".".join(self.path if self.in_function else (*self.path, MODULE))


def _walk(node: ast.AST, scope: _Scope) -> Iterator[tuple[_Site, _Scope]]:
    """Yields all changes below a node, in the order of the file."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params"):
            continue
        children: list[tuple[int | None, Any]] = [*enumerate(value)] if isinstance(value, list) else [(None, value)]
        for index, child in children:
            if not isinstance(child, ast.AST) or _left_out(node, name, child):
                continue
            inner = _enter(node, name, child, scope)
            changes = itertools.chain(_changes(child), _negated(child) if name in ("test", "ifs", "guard") else ())
            yield from ((_Site(node, name, index, ast.copy_location(new, child)), inner) for new in changes)
            yield from _walk(child, inner)


def _enter(parent: ast.AST, field: str, child: ast.AST, scope: _Scope) -> _Scope:
    """Returns where a child stands."""
    if scope.in_function:
        in_body = field == "body" and isinstance(parent, Function)
        return dataclasses.replace(scope, imports=False) if in_body else scope
    if isinstance(child, ast.ClassDef | Function):
        compiled = isinstance(child, Function) and _is_compiled(child)
        return _Scope(
            path=(*scope.path, child.name),
            in_function=isinstance(child, Function),
            compiled=child.name if compiled else "",
            names=(child.name,),
            digest=digest(child),
        )
    if isinstance(parent, ast.Module) or (isinstance(parent, ast.ClassDef) and field == "body"):
        return dataclasses.replace(scope, names=(*scope.path[-1:], *_defined(child)), digest=digest(child))
    return scope


def _is_compiled(function: Function) -> bool:
    return any("compiled" in ast.unparse(decorator) for decorator in function.decorator_list)


def _defined(statement: ast.AST) -> tuple[str, ...]:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", statement)]
    return tuple(node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))


def _changes(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value)):
            yield from (ast.Constant(value + 1), ast.Constant(value - 1))
        case ast.Constant(value=float(value)) if not 0 < abs(value) < _MARGIN:
            yield from (ast.Constant(2 * value), ast.Constant(value / 2)) if value else (ast.Constant(1.0),)
        case ast.Constant(value=str(value)):
            yield ast.Constant(value + "X")
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            yield ast.BinOp(left, _ARITHMETIC[type(op)](), right)
        case ast.AugAssign(target=target, op=op, value=value):
            if type(op) in _ARITHMETIC:
                yield ast.AugAssign(target, _ARITHMETIC[type(op)](), value)
            yield ast.Pass()
        case ast.Compare(left=left, ops=ops, comparators=comparators):
            for i, comparison in enumerate(ops):
                for new in _COMPARISONS[type(comparison)]:
                    yield ast.Compare(left, [*ops[:i], new(), *ops[i + 1 :]], comparators)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(operand=operand):
            yield operand
        case ast.Call(func=func, args=args, keywords=keywords):
            name = _name(func)
            if name in _SWAPPED:
                renamed = copy.copy(func)
                setattr(renamed, "attr" if isinstance(func, ast.Attribute) else "id", _SWAPPED[name])
                yield ast.Call(renamed, args, keywords)
            if name in _REMOVED and args:
                yield args[0]
            for i, keyword in enumerate(keywords if name != "dataclass" else ()):
                if keyword.arg is not None and not isinstance(keyword.value, ast.Constant):
                    yield ast.Call(func, args, keywords[:i] + keywords[i + 1 :])
        case ast.Expr(value=ast.Call()) | ast.Raise():
            yield ast.Pass()
        case ast.Assign(targets=targets) if any(isinstance(t, ast.Attribute | ast.Subscript) for t in targets):
            yield ast.Pass()
        case ast.Return(value=value) if value is not None and _text(value) != "None":
            yield ast.Return(ast.Constant(None))
        case ast.match_case(pattern=pattern, guard=None, body=body) if not isinstance(pattern, ast.MatchAs):
            yield ast.match_case(pattern, ast.Constant(False), body)
        case ast.Continue():
            yield ast.Break()
        case ast.Break():
            yield ast.Continue()


def _negated(test: ast.AST) -> Iterator[ast.AST]:
    if isinstance(test, ast.expr) and not isinstance(test, ast.Compare | ast.BoolOp | ast.UnaryOp | ast.Constant):
        yield ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


def _left_out(parent: ast.AST, field: str, child: ast.AST) -> bool:
    match child:
        case ast.Expr(value=ast.Constant(value=str())):  # a docstring, or one below a constant
            return True
        case ast.JoinedStr() | ast.Assert() | ast.Import() | ast.ImportFrom() | ast.alias():
            return True
        case ast.ClassDef(bases=bases) if any("Protocol" in ast.unparse(base) for base in bases):
            return True
        case ast.FunctionDef(name="__repr__" | "__str__"):
            return True
        case ast.Assign(targets=[ast.Name(id="__all__")]):
            return True
        case ast.Call(func=func) if _name(func) in _TYPE_ONLY:
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
    if isinstance(parent, ast.Raise):  # its text; that it is raised is a mutant of its own
        return True
    if field == "decorator_list":
        return _name(child.func if isinstance(child, ast.Call) else child) in _CACHES
    if isinstance(parent, ast.Call) and isinstance(child, ast.keyword) and child.arg == "strict":
        return _name(parent.func) == "zip"  # an assertion, too: lengths are equal
    if isinstance(parent, ast.Call) and _name(parent.func) == "bits":  # working precision
        return True
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Pow) and field == "right":  # 2.0 ** -51
        match child:
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(bits))):
                return bits > -math.log2(_MARGIN)
    if isinstance(parent, ast.keyword) and parent.arg == "what":  # a name for the message
        return True
    text = isinstance(child, ast.Constant) and isinstance(child.value, str)
    if text and " " in child.value and not "".join(child.value.split()[:1]).isupper():  # type: ignore[attr-defined]
        return True  # a sentence, or blanks; SQL begins with capitals
    if text and isinstance(parent, ast.Call) and field == "args":  # errors.real("rate", ...): a name for the message
        return isinstance(parent.func, ast.Attribute) and _name(parent.func.value) == "errors"
    # a text in brackets is a type that is named before it exists: list["Permit"]
    return text and isinstance(parent, ast.Subscript) and isinstance(parent.value, ast.Name)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _has_docstring(node: ast.AST) -> bool:
    body = getattr(node, "body", None)
    return (
        isinstance(node, ast.Module | ast.ClassDef | Function)
        and bool(body)
        and isinstance(body[0], ast.Expr)  # type: ignore[index]
        and isinstance(body[0].value, ast.Constant)  # type: ignore[index]
    )


def _text(node: ast.AST) -> str:
    if isinstance(node, ast.match_case):
        return f"case {ast.unparse(node.pattern)}" if node.guard is None else "no such case"
    return " ".join(ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).split())


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:60]} ... {text[-35:]}"
