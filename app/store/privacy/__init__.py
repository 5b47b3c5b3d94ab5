"""SQL for legal holds, exports, privacy requests, anonymisation and the audit log."""
