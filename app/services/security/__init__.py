"""Write and verify the audit log, and manage encryption keys, operators' actions and data recipients."""
