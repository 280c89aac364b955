"""What a sweep says of a method: plain values, their bounds and their price, without torch.

Planning and pricing read these; `start` imports the trainer, and torch with it. Each module here
speaks of the trainer of the same name, which hands its settings on.

| question | modules |
|---|---|
| How is a network trained, and which? | `learner`, `model_name` |
| What is learned from? | `feature_set` |
| What is done to labels? | `noise` |
| Noise on labels, Bayes' rule in training | `alibi`, `alibi_prior`, `bit_flip` |
| Randomized response with learned priors | `lp_mst`, `consensus`, `recommender` |
| Noisy sums of labels, asked for in stages | `staged_moments` |
| With a guarantee of accuracy | `convex` |
| Teachers vote, students learn | `pate`: `ensemble`, `student`; of `forest` or `fixmatch` |
| An encoder of the images alone, no label | `self_supervised` |
"""
