"""A campaign for an accelerator: what is worth running there, some minutes at a time.

    python -m tests.benchmarks.gpu_campaign --folder DIR --minutes 9.5 --noise-seed 0

Each call goes on where the last one stopped; docs/gpu_campaign.md says what is in it. It needs
torch, torchvision, numpy and scipy, and the data sets in the folder that LABELDP_DATA names.
"""
