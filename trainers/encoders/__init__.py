"""Public encoders: images in, vectors out, with a record of their origin.

An encoder that was trained on other images brings knowledge of them into a result. Every report
therefore names the league of a result.
"""
