"""Settings of single capabilities, from which `app.settings` is composed."""
