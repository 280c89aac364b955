"""An encoder that learns from the images alone: no label is there to be asked for, or to leak.

Two distorted views of an image shall be described alike, and other images differently. What such
an encoder says of images is public where they are, and costs no privacy; the league is that of no
outside data. Its settings are in `settings.self_supervised`.

| question | modules |
|---|---|
| What is done to an image? | `distortions` |
| What is minimized? | `vicreg` |
| Did the loss fall? | `loss_course` |
| Who trains, and goes on where it was stopped? | `pretraining` |
| What is left, and how is it kept? | `image_encoder` |
| From images to a file, some minutes at a time? | `kept_pretraining` |
"""
