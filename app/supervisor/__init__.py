"""Supervise the service's processes: start them in order, restart those that die, and stop them all.

Example:
    with lock_home(settings.home) as home:
        service = service_children(settings, home, LANES)
        code = Supervisor(service.children, on_event=show).run()
"""

from app.supervisor.api_port import claim_port
from app.supervisor.child import Child, ChildEvent, EventKind, RestartPolicy
from app.supervisor.home_lock import lock_home, temporary_home
from app.supervisor.service_children import Service, service_children
from app.supervisor.supervisor import Supervisor

__all__ = [
    "Child",
    "ChildEvent",
    "EventKind",
    "RestartPolicy",
    "Service",
    "Supervisor",
    "claim_port",
    "lock_home",
    "service_children",
    "temporary_home",
]
