"""The data sets: what there is, where it comes from, how it is read. `trainers.data` is the door.

| question | modules |
|---|---|
| Which sets have a name? | `catalog` |
| How do they lie on disk? | `layouts` |
| What downloads them? | `fetch`, and nothing else does |
| How is a published file read? | `files` for all, `images`, `tables`, `movielens` |
| What of a user's own file? | `own_data`, with `own_parquet` and `own_rows` |
"""
