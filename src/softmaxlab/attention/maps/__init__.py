"""The attention maps, in families: each file ends in MAPS, where a map's formula stands beside its facts."""
