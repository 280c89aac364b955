"""Data sets: the named ones, and a user's own files or arrays, as checked features and labels.

| question | module |
|---|---|
| Which data sets have a name, where are their files, how are they downloaded? | `catalog` |
| How are published formats read? | `published` |
| How are a user's files read and described? | `own_files` |
| How do a user's rows become features, labels and a split? | `own_data` |
| How do rows become numbers, in training and later? | `columns`, `preprocessing` |
| How large is a data set, and is it valid? | `splits` |
| What do trainers and the vault receive? | `labelled_data` |
| Is a file regular, and small enough to read? | `files` |
"""
