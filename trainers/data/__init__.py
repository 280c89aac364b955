"""Data sets: the named ones, and a user's own files or arrays, as checked features and labels.

| topic | module |
|---|---|
| named data sets, their files and downloads | `catalog` |
| published formats | `published` |
| a user's files | `own_files`, `tables` |
| a user's rows as features, labels and a split | `own_data` |
| rows as numbers, in training and later | `columns`, `preprocessing` |
| size and validity of a data set | `splits` |
| data as trainers and the vault receive them | `labelled_data` |
| regular files, small enough to read | `files` |
"""
