"""Readers of the benchmarks, augmentation, caches and batches for training.

Importing this package costs nothing; its modules need the extra ``train``.
"""
