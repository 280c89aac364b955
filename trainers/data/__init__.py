"""The data sets: what there is, where it comes from, how it is read. `trainers.data` is the door.

| question | modules |
|---|---|
| Which sets have a name? | `catalog`, a record each (`data_set`) |
| How do they lie on disk? | the records say; `layouts` that several share |
| What downloads them? | `fetch` and nothing else, in the ways of `downloads` |
| How is a published file read? | `files` for all, `images`, `svhn`, `tables`, `movielens` |
| What of a user's own data? | `own_data`: files as `own_source` says, or `own_memory` |
| How is such a file read? | `own_csv`, `own_parquet` (with `own_columns`), `own_arrays` |
| What is seen in it, before it is read? | `own_description` |
| What is made of its rows? | `own_rows`, `own_labels`, `own_features`; on disk: `mapped_rows` |
| What is no data set? How large is one? | `checks`; `set_size` |
| What of embeddings in place of images? | `embedded` |
| What of rows that a model is asked about? | `raw_rows` |
"""
