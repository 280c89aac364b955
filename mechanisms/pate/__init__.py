"""PATE's theory: votes, aggregators, what answers cost and what they leak."""
