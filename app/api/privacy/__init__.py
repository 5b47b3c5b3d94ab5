"""Routes for erasures, exports, legal holds, privacy requests and the audit log."""
