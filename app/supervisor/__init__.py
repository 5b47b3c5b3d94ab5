"""Supervise the service's processes: start them in order, restart those that die, and stop them all.

Example:
    with lock_home(settings.home) as home:
        service = service_children(settings, home, LANES)
        code = Supervisor(service.children, on_event=show).run()
"""

from app.supervisor.children import Child, Event, RestartPolicy, What
from app.supervisor.home import lock_home, temporary_home
from app.supervisor.loop import Supervisor
from app.supervisor.service import Service, service_children

__all__ = [
    "Child",
    "Event",
    "RestartPolicy",
    "Service",
    "Supervisor",
    "What",
    "lock_home",
    "service_children",
    "temporary_home",
]
