"""Packages import from their own package and from earlier ones only."""

import ast
from pathlib import Path

import masp

ROOT = Path(masp.__file__).parent
ORDER = [
    "errors",
    "importing",
    "printable",
    "whole_file",
    "json_text",
    "config",
    "ops",
    "macros",
    "environments",
    "presets",
    "similarity",
    "torch",
    "sb3",
    "agent",
    "training",
    "sharing",
    "report",
    "tuning",
    "experiments",
    "bench",
    "cli",
]


class Imports(ast.NodeVisitor):
    """All modules that a file imports, also inside functions, but not for type checking."""

    def __init__(self, module):
        self.package, self.modules = module.rpartition(".")[0], []

    def visit_If(self, node):
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Import(self, node):
        self.modules += [alias.name for alias in node.names]

    def visit_ImportFrom(self, node):
        base = node.module or ""
        if node.level:
            parents = self.package.split(".")[: len(self.package.split(".")) - node.level + 1]
            base = ".".join([*parents, base] if base else parents)
        # `from masp import ops` imports a package, not a name of the top module.
        self.modules += [f"masp.{alias.name}" for alias in node.names] if base == "masp" else [base]


def imports():
    """(importing package, imported package, file) of every import of a part of masp by another part."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts == ("__init__",):
            continue
        visitor = Imports(".".join(("masp", *parts)))
        visitor.visit(ast.parse(path.read_text()))
        for module in visitor.modules:
            imported = f"{module}.".split(".")[1]
            if module.startswith("masp.") and imported in ORDER:
                yield parts[0], imported, "/".join(parts)


def test_every_part_has_a_place_in_the_order():
    parts = {path.stem for path in ROOT.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert parts - {"__init__"} == set(ORDER)


def test_imports_point_to_earlier_parts():
    violations = {
        f"{file} imports {imported}"
        for importer, imported, file in imports()
        if ORDER.index(imported) > ORDER.index(importer)
    }
    assert violations == set()
