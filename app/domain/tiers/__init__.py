"""The rules that decide a memory's tier, and the form of archived and cold memories."""
