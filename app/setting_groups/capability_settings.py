"""The settings of all capabilities that have a module here, a part of `app.settings`."""

from __future__ import annotations

from app.setting_groups.change_settings import ChangeSettings
from app.setting_groups.compat_settings import CompatSettings
from app.setting_groups.connection_settings import ConnectionSettings
from app.setting_groups.import_settings import ImportSettings
from app.setting_groups.mcp_settings import McpSettings
from app.setting_groups.webhook_settings import WebhookSettings


class CapabilitySettings(
    ChangeSettings, CompatSettings, ConnectionSettings, ImportSettings, McpSettings, WebhookSettings
):
    """Settings of single capabilities."""
