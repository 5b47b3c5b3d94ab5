"""The import-linter contract `only`: a package may import the listed modules and no others.

import-linter can forbid listed modules; for the domain, a list of allowed modules is shorter.
The contracts themselves are in pyproject.toml under `[tool.importlinter]`.
"""

from __future__ import annotations

import sys

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class OnlyContract(Contract):
    """Require that `module` and its submodules import only `allowed` and the standard library except `not_even`."""

    # import-linter replaces its fields with the values from pyproject.toml
    module: str = fields.StringField()  # type: ignore[assignment]
    allowed: list[str] = fields.ListField(subfield=fields.StringField())  # type: ignore[assignment]
    not_even: list[str] = fields.ListField(subfield=fields.StringField())  # type: ignore[assignment]

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - required signature
        """Check every direct import of the package."""
        if self.module not in graph.modules:
            message = f"no such module: {self.module}"
            raise ValueError(message)
        strays = sorted(
            _with_line(graph, importer, imported)
            for importer in {self.module, *graph.find_descendants(self.module)}
            for imported in graph.find_modules_directly_imported_by(importer)
            if not self._permits(imported)
        )
        return ContractCheck(kept=not strays, metadata={"strays": strays})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each forbidden import with its line."""
        for stray in check.metadata["strays"]:
            output.print_error(f"- {stray}")

    def _permits(self, imported: str) -> bool:
        if _is_under(imported, self.not_even):
            return False
        return _is_under(imported, self.allowed) or imported.partition(".")[0] in sys.stdlib_module_names


def _is_under(module: str, packages: list[str]) -> bool:
    return any(module == package or module.startswith(f"{package}.") for package in packages)


def _with_line(graph: ImportGraph, importer: str, imported: str) -> str:
    details = graph.get_import_details(importer=importer, imported=imported)
    return f"{importer} -> {imported} (l.{details[0]['line_number']})"
