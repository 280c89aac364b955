"""PATE-FM: teachers on disjoint shards, students on their answers."""
