"""Names that vulture reports as unused although a library calls them or sets them."""

from app import metrics
from app.api.http.metrics_endpoint import _Shared
from app.domain.dynamics import cmm, mnemex, profiles, state
from app.domain.dynamics.protocol import Dynamics
from app.domain.strength import importance, review
from app.domain.tiers import tier_decision
from app.secret_settings import SecretFiles, SecretFileSettings
from app.services.privacy.export_archive import _Sink
from app.services.privacy.import_files import _SealedFile
from app.services.strength import linked_reinforcement
from app.store.strength import states
from ops.bench.recall import factory
from ops.checks.arrows import OnlyContract

# called by import-linter
OnlyContract.check
OnlyContract.render_broken_contract
# called by prometheus_client at each scrape
_Shared.collect
# named on the command line of a recall script
factory
# the models of forgetting, added before the lifecycle, reviews and search that call them
Dynamics.strength_sql
Dynamics.refresh_seconds
Dynamics.due_at
Dynamics.reinforce
profiles.profile
state.new
importance.due_at
mnemex.Mnemex.promoted
cmm.priming
mnemex.is_other_domain
review.next_interval_days
review.danger_priority
states.lock_due
states.write_looks
states.write_uses
# gains along links, added before the uses that call them
linked_reinforcement.list_reached
linked_reinforcement.strengthen_linked
# called by zipfile
_Sink.writable
# called by io.BufferedReader
_SealedFile.seekable
_SealedFile.readinto
# read by tests
metrics.read_counters
tier_decision.fresh_facts
# called by pydantic-settings
SecretFiles.get_field_value
SecretFileSettings.settings_customise_sources
