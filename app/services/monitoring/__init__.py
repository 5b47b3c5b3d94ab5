"""Measure the service's health, queues, rates and figures for operators."""
