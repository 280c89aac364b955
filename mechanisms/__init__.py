"""What is done to labels and votes, what it costs, and how leaky it proves. NumPy and SciPy.

Names are imported from here; each lives in the module that its first line describes. A name is
looked up when it is first used, so that nobody waits for what he does not need.
"""
