"""What settings of all methods share: networks and their training, the protocol of a trainer."""
