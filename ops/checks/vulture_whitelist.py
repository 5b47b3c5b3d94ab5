"""Names that look unused to vulture and aren't: each is called or filled in by a library."""

from ops.checks.arrows import OnlyContract

# import-linter calls these
OnlyContract.check
OnlyContract.render_broken_contract
_.collect  # prometheus_client calls it at each scrape
factory  # ops/bench/recall.py: named on the command line of a recall script
