"""On a cluster: a trial's worker, the vault's home, a whole node and the tracking server die."""
