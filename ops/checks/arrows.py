"""The import-linter contract `only`: a package that may import the named modules and nothing else.

import-linter can forbid what is listed; for the domain the list of what is allowed is the short one.
The contracts themselves stand in pyproject.toml under `[tool.importlinter]`.
"""

from __future__ import annotations

import sys

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, fields, output


class OnlyContract(Contract):
    """`module` and what lies under it import only `allowed`, and the standard library but `not_even`."""

    module = fields.StringField()
    allowed = fields.ListField(subfield=fields.StringField())
    not_even = fields.ListField(subfield=fields.StringField(), required=False)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002, FBT001 - their signature
        """Look at every direct import of the package."""
        if self.module not in graph.modules:
            msg = f"there is no module {self.module}"
            raise ValueError(msg)
        strays = sorted(
            f"{importer} -> {imported} (l.{graph.get_import_details(importer=importer, imported=imported)[0]['line_number']})"
            for importer in {self.module, *graph.find_descendants(self.module)}
            for imported in graph.find_modules_directly_imported_by(importer)
            if not self._permits(imported)
        )
        return ContractCheck(kept=not strays, metadata={"strays": strays})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print each stray import with its line."""
        for stray in check.metadata["strays"]:
            output.print_error(f"- {stray}")

    def _permits(self, imported: str) -> bool:
        def under(names: list[str]) -> bool:
            return any(imported == name or imported.startswith(f"{name}.") for name in names)

        if under(self.not_even or []):
            return False
        return under(self.allowed) or imported.split(".")[0] in sys.stdlib_module_names
