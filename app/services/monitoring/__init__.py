"""Report the service's health, queues, throughput and statistics to operators."""
