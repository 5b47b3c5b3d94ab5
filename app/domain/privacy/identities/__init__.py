"""Names of persons and street addresses in texts, found without a model."""
