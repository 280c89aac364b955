"""Data, features, models, augmentation and training loops: one process, torch and no Ray.

A map of this folder; a method is a module (or a room) that follows the protocols of `trainer`.

| question | modules |
|---|---|
| What can be set? | the room `settings` |
| What is a trainer? | `trainer`; for most of them `one_network`, the base around a `learner` |
| How is a network judged? | `evaluation` |
| What is left when it is trained? | `trained_model`: `predictors`, `closed_forms` |
| Where do features and labels come from? | `data`, the door to the room `data_sets` |
| ... of a file, perhaps too large for memory? | `regular_files`, `mapped_features` |
| ... whose labels nobody trains on? | `held_out` |
| ... of an encoder that was trained on other data? | the room `encoders` |
| What do other packages add? | `extensions` |
| Which features? | `features`: `patch_encoder`, `random_patches` |
| ... what makes them of raw rows? | `preprocessing`; of images `encoded_images` |
| Which networks? | `models`, `fast_cnn`, `two_branch`; the user's: `own_models`, `own_modules` |
| How is it trained? | `schedules`, `sgd`, `losses`, `targets`, `augmentation`, `performance` |
| ... in ten epochs? | `fast_training`, of pieces in `recipe`; `weight_average` |
| Noise on labels, Bayes' rule in training | `alibi`, `alibi_prior`, `bit_flip` |
| Noisy sums of labels, asked for in stages | `staged_moments`, `network_features` |
| Randomized response with learned priors | `lp_mst`, `consensus`, `recommender` |
| ... the priors, the parts asked for | `priors`, `prior_inputs`, `kernel_moments`, `partition` |
| What do workers compute once for all? | `made_once` |
| With a guarantee of accuracy | `convex` |
| Few labels, many examples | the room `fixmatch` |
| An encoder of the images alone, no label | the room `self_supervised` |
| Teachers vote, students learn | the room `pate` |

Each room's map is in its `__init__`. Names are imported from their modules.
"""
