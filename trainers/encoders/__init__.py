"""Public encoders: images in, vectors out, with a record of their origin.

An encoder that was trained on other images brings knowledge of them into a result. Every report
therefore names the league of a result.

| question | module |
|---|---|
| Which images and which encoder, and how are the images prepared? | `encoder` |
| How are encoders of torchvision, timm, Hugging Face and users loaded? | `libraries` |
| How is the fast network trained on public labels? | `pretrained` |
| How is an encoder trained without labels, and kept? | `pretraining`, `image_encoder` |
| How does a file of vectors get written? | `embedding` |
| Which leagues are there, and what lies beside a file of vectors? | `provenance` |
"""
