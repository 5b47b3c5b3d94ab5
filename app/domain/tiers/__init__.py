"""Rules that decide a memory's tier, and the storage format of archived and cold memories."""
