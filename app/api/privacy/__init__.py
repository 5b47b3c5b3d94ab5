"""Routes for erasures, exports, holds, privacy requests and the audit log."""
