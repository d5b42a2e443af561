"""The foundation of every laboratory: specs, results, the store, one seed, one verb."""
