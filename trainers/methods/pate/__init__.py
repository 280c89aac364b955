"""PATE-FM: teachers on disjoint shards, students on their answers. Its theory is in mechanisms."""
