"""What every laboratory stands on: specs, results, the store, one seed, one verb."""
