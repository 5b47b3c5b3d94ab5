"""A browser logs in through a provider on another site: its rules for cookies hold here, and not in other tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.dashboard.oidc import oidc_provider
from tests.faults.supervised_home import Household


@pytest.mark.slow
def test_a_browser_comes_back_from_another_site_logged_in(browser: Any, tmp_path: Path) -> None:
    home = Household(tmp_path, {})
    home.start()
    try:
        with psycopg.connect(home.books().database_url) as connection:
            [[tenant_id]] = connection.execute("SELECT tenant_id FROM tenants").fetchall()
        home.stop()
        with oidc_provider() as fake:
            fake.public = f"http://localhost:{urlsplit(home.url).port}"  # another site than 127.0.0.1
            rules = {"staff": {"scopes": ["read", "privacy"], "tenants": [str(tenant_id)]}}
            home._settings |= {f"EBBING_{name.upper()}": value for name, value in fake.settings(rules).items()}
            home.start()
            page = browser.new_context().new_page()
            page.goto(f"{fake.public}/ops/")
            assert page.url == f"{fake.public}/ops/log-in"
            page.get_by_role("link", name="Log in with your organisation's account").click()
            page.get_by_role("link", name="Agree").click()  # on the provider's page, so the return begins on its site
            page.wait_for_url(f"{fake.public}/ops/")
            cookies = {each["name"]: each for each in page.context.cookies()}
            assert cookies.keys() == {"__Host-ebbing"}
            assert cookies["__Host-ebbing"]["sameSite"] == "Strict"
            page.goto(f"{fake.public}/ops/audit")
            assert "Orla Smith" in page.inner_text("main")
            page.get_by_role("button", name="Log out").click()
            page.wait_for_url(f"{fake.public}/ops/log-in")
            page.goto(f"{fake.public}/ops/audit")
            assert page.url == f"{fake.public}/ops/log-in"
    finally:
        home.stop()
