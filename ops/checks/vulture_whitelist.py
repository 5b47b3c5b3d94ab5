"""Names that look unused to vulture and aren't: each is called or filled in by a library."""

from app.api.status import _Shared
from ops.bench.recall import factory
from ops.checks.arrows import OnlyContract

# import-linter calls these
OnlyContract.check
OnlyContract.render_broken_contract
# prometheus_client calls it at each scrape
_Shared.collect
# named on the command line of a recall script
factory
