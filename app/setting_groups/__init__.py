"""Groups of settings, parts of `app.settings`."""
