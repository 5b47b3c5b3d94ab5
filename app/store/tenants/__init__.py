"""SQL for tenants, policies, usage and operators' actions."""
