"""Manage tenants, their policies, quotas, budgets and usage."""
