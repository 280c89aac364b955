"""Public encoders: images in, vectors out, and where the vectors come from said beside them.

What was trained on other people's images brings what those know: results with it are in a league
of their own, which every report names.

| question | modules |
|---|---|
| Which leagues are there, and what is said of features? | `provenance` |
| What lies beside a file of features? | `embedding_record` |
| Which images? | `image_sources` |
| What is done to them first? | `preparation` |
| Does Hugging Face's hub answer? | `hub` |
| Which encoder, with which weights? | `encoder`; `libraries`, `hugging_face`, `own_encoder` |
| ... trained here, on whose public labels? | `pretrained`, `public_training` |
| ... do the weights fit, and who trained them on what? | `weights`, `known_weights` |
| How does what it returns become vectors? | `pooling` |
| Who runs it, and writes the file? | `embedding` |
"""
